/** What the game says: the shapes of its answers. */

/** A text in parts, each with whether it answers to the query. */
export type Marked = [string, boolean][];

export interface Result {
  path: string;
  title: Marked;
  kind: string;
  signature: string;
  lines: Marked;
  certain: boolean;
  bm25: number;
}

export interface List {
  model: string;
  version: number;
  results: Result[];
}

export interface Found {
  search: string;
  query: string;
  candidates: number;
  lists: List[];
}

export interface Clicked {
  status: string;
  version: number;
  lessons: [string, string][];
}

type Two<T> = [T, T];

/** What one click did to its own query, before and after. */
export interface Effect {
  query: string;
  clicked: string;
  over: string | null;
  places: Two<number | null>;
  versions: Two<number>;
  lists: Two<string[]>;
  lead: Two<number | null> | null;
  uncertain: Two<number | null>;
}

export type Curve = (number | null)[];

export interface State {
  version: number;
  documents: number;
  outcome: { searches: number; mrr_bm25: number | null; mrr_first: number | null; mrr_last: number | null };
  success: { bm25: number | null; learned: number | null; beside: number | null };
  searches: number[];
  curves: Record<"bm25" | "learned" | "beside" | "clicked place" | "reciprocal clicked place" | "uncertain", Curve>;
  lessons: { winner: string; loser: string; query: string; who: string }[];
  effect: Effect | null;
  simulating: boolean;
  left: number | null;
  faults: string[];
  user: string;
  rate: number | null;
  beside: string | null;
}
