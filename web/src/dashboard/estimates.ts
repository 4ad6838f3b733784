/** How good lists were over a stretch of time, and whether that can be told. */
import type { Bucket, Exploration, Qualities, Quality } from "./answers";

export type Order = "shown" | "best" | "own";

/** What is known of an order, and how. */
export interface Told extends Quality {
  how: "measured" | "estimated";
}

const MEASURED = { shown: "shown", best: "exploit", own: "shadow" } as const; // by lists of these modes
const FEWEST = 30; // searches
const WIDEST = 0.1; // reciprocal rank, to either side
const OFF = 0.1; // of the coverage, from 1
const NOISE = 0.25; // of the reward, to either side
const SIGMAS = 1.96; // 95 %

/** What these stretches of time together say of an order: measured where enough lists showed it, else estimated. */
export function told(all: Qualities[], order: Order): Told | null {
  const measured = pooled(all.flatMap((each) => each[MEASURED[order]] ?? []));
  const estimated = order === "shown" ? null : pooled(all.flatMap((each) => each[order] ?? []));
  if (measured !== null && (!isSmall(measured) || estimated === null)) return { ...measured, how: "measured" };
  return estimated && { ...estimated, how: "estimated" };
}

/** Whether there are too few searches to tell anything from them. */
export function isSmall(quality: Quality): boolean {
  return quality.lists < FEWEST;
}

/** Half of the interval (95 %) in which the reciprocal rank lies. */
export function within(quality: Quality): number {
  return Math.abs(quality.most - quality.least) / 2 + SIGMAS * quality.rank_error;
}

/** The reciprocal rank, if it can be told; few searches of what was shown are better than none. */
export function rank(quality: Told | null, order: Order): number | null {
  if (quality === null) return null;
  return order === "shown" || (!isSmall(quality) && within(quality) <= WIDEST) ? quality.rank : null;
}

/** The reward of a search, if it can be told. */
export function reward(quality: Told | null, order: Order): number | null {
  if (quality === null) return null;
  const noise = SIGMAS * quality.reward_error;
  const isTold = !isSmall(quality) && Math.abs(quality.coverage - 1) <= OFF && noise <= NOISE * Math.abs(quality.reward);
  return order === "shown" || isTold ? quality.reward : null;
}

/** The cost of exploration over these stretches together, with half of its interval; null: nothing is known. */
export function cost(all: Bucket[]): { lists: number; cost: number; within: number } | null {
  const known = all.flatMap((each): Exploration[] => (each.exploration === null ? [] : [each.exploration]));
  const lists = total(known, (each) => each.lists);
  if (lists === 0) return null;
  const error = Math.sqrt(total(known, (each) => (each.lists * each.error) ** 2)) / lists;
  return { lists, cost: total(known, (each) => each.lists * each.cost) / lists, within: SIGMAS * error };
}

function pooled(all: Quality[]): Quality | null {
  const lists = total(all, (each) => each.lists);
  if (lists === 0) return null;
  const mean = (of: (each: Quality) => number) => total(all, (each) => each.lists * of(each)) / lists;
  const error = (of: (each: Quality) => number) => Math.sqrt(total(all, (each) => (each.lists * of(each)) ** 2)) / lists;
  return {
    lists,
    rank: mean((each) => each.rank),
    least: mean((each) => each.least),
    most: mean((each) => each.most),
    rank_error: error((each) => each.rank_error),
    reward: mean((each) => each.reward),
    reward_error: error((each) => each.reward_error),
    coverage: mean((each) => each.coverage),
  };
}

function total<T>(all: T[], of: (each: T) => number): number {
  return all.reduce((sum, each) => sum + of(each), 0);
}
