/** What the service answers about live tests: wire/live_tests.py says what each number is. */

export interface Arm {
  arm: string;
  model: string | null;
  version: number | null;
  lists: number;
  credit: number;
  learns: "own" | "all" | "none";
  reason: string | null;
  learned: number;
}

/** The ends of an interval; null: without end. */
export type Interval = [number | null, number | null];

export interface Comparison {
  one: string;
  other: string;
  difference: number;
  interval: Interval;
  confidence: number;
  decided: boolean;
  lists_more: number | null;
  seconds_more: number | null;
}

export interface Point {
  at: number;
  lists: number;
  differences: number[];
  intervals: Interval[];
}

export interface Period {
  number: number;
  since: number | null;
  lists: number;
  leader: string | null;
  winner: string | null;
}

export interface Test {
  test: string;
  status: "running" | "stopped";
  spec: { arms: string[]; method?: "interleave" | "split"; learns?: "own" | "all" | "none"; level?: number };
  promoted: string | null;
  since: number;
  lists: number;
  uncounted: number;
  lists_per_second: number | null;
  leader: string | null;
  winner: string | null;
  decided_at: number | null;
  decided_after: number | null;
  arms: Arm[];
  comparisons: Comparison[];
  series: Point[];
  period: number;
  periods: Period[];
}

export interface Promoted {
  arm: string;
  model: string;
  did: string;
  undo: string;
}
