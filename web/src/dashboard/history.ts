/** The past of a model in minutes or hours. */
import type { Bucket } from "./answers";

const FAR = 4; // buckets
const NOTHING = { certain_places: null, uncertain_pairs: null, lag: null, largest_lag: null, update_seconds: null, exploration: null, quality: null, shadow: null };

/** A stretch of time of which nothing is known. */
export type Gap = { start: number } & typeof NOTHING;

/** The buckets with a gap put between two that are far apart, so that no line joins them. */
export function parted(buckets: Bucket[], width: number): (Bucket | Gap)[] {
  return buckets.flatMap((each, i) => {
    const before = buckets[i - 1];
    const isFar = before !== undefined && each.start - before.start > FAR * width;
    return isFar ? [{ start: before.start + width, ...NOTHING }, each] : [each];
  });
}
