/** What the service answers: service/serving/overview.py and explain.py say what each number is. */

export interface Exploration {
  lists: number;
  shown: number;
  best: number;
  error: number;
  cost: number;
}

/** How good lists were, measured or estimated. */
export interface Quality {
  lists: number;
  /** Reciprocal rank of the first click; the truth lies between the least and the most that the lists allow. */
  rank: number;
  least: number;
  most: number;
  rank_error: number;
  reward: number;
  reward_error: number;
  /** 1 where the lists that agree with the order stand for all. */
  coverage: number;
}

/** Measured: the modes, and all that was shown. Estimated: the best estimate, and the caller's own order. */
export type Qualities = Partial<Record<"shown" | "learn" | "exploit" | "shadow" | "best" | "own", Quality>>;

/** What lists in shadow mode say, since the model was made: service/log/shadow.py says what each number is. */
export interface Shadow {
  lists: number;
  overlap: number;
  agreement: number;
  least: number;
  most: number;
  low: number;
  high: number;
  verdict: "better" | "worse" | "open";
}

export interface Summary {
  lists: { learn: number; exploit: number; shadow: number; own: number };
  feedback: { recorded: number; early: number; late: number };
  clicks: number;
  events: Record<string, number>;
  values: Record<string, number>;
  quality: Qualities;
  certain_places: number | null;
  uncertain_pairs: number | null;
  learned: number;
  updates: number;
  update_seconds: number | null;
  lag: number | null;
  largest_lag: number | null;
  exploration: Exploration | null;
  shadow: Shadow | null;
}

export interface Bucket extends Summary {
  start: number;
}

export interface Model {
  model: string;
  ranker: string;
  n_features: number;
  places: number;
  version: number;
  newest: number;
  pinned: number | null;
  learned: number;
  /** When the served version came, and the newest. */
  published_at: number | null;
  newest_at: number | null;
  lag: number;
  begun_anew: { at: number; generation: number; version: number; learned: number } | null;
  /** When its lists were found to please people less than before, and by how much. */
  drift: { at: number; lists: number; before: number; after: number; reaction: "alarm" | "forget" | "challenger" } | null;
  total: Summary;
}

/** The model that is looked at. */
export interface Chosen extends Model {
  by_place: { place: number; shown: number; clicks: number }[];
  minutes: Bucket[];
}

/** The page of models that is sent, how many pages there are, and how many models. */
export interface Pages {
  page: number;
  of: number;
  found: number;
  models: number;
}

export interface Version {
  version: number;
  learned: number;
  at: number;
  stored: boolean;
}

export interface VersionList {
  served: number;
  pinned: number | null;
  versions: Version[];
}

export interface Traffic {
  per_second: number[];
  p50: number | null;
  p99: number | null;
}

export interface Alarm {
  name: string;
  says: string;
  remedy: string;
  model: string | null;
}

export interface Moment {
  at: number;
  process: { version: string; pid: number; since: number; pages: string[] };
  compiling: number;
  alarms: Alarm[];
  more_alarms: number;
  traffic: { rank: Traffic; feedback: Traffic };
  log: { bytes: number | null; position: number | null; room: number | null; is_led: boolean | null };
  models: Model[];
  pages: Pages;
  chosen: Chosen | null;
}

export interface Asked {
  number: number;
  at: number;
  query: string | null;
  documents: number;
}

export interface Place {
  id: string;
  score: number;
  scores: number[];
  certain?: boolean;
  free?: string[];
  certainly_after?: string[];
}

export interface Node {
  id: string;
  layer: number;
  after: number[];
}

export interface Draws {
  lists: number;
  different: number;
  documents: { id: string; places: number[] }[];
}

export interface Explained {
  model: string;
  version: number;
  ranking: Place[];
  /** How many documents there were, of which the graph has the best. */
  documents: number;
  graph: Node[] | null;
  certain_pairs: number | null;
  draws: Draws | null;
}
