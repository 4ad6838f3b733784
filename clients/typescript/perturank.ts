/**
 * A client of the perturank service: one file, no dependencies, for Node 20 and browsers.
 *
 * Types and methods behind the mark are generated from the service's OpenAPI document: change `generate.py`, not them.
 */

/** The service refused; `request` is the id that its log lines carry. */
export class ServiceProblem extends Error {
  override readonly name = "ServiceProblem";
  constructor(
    readonly status: number,
    readonly kind: string,
    readonly title: string,
    readonly detail: string,
    readonly request: string,
  ) {
    super(detail ? `${title}; ${detail}` : title);
  }
}

/** No answer came; `cause` is the error of the last attempt. */
export class NoAnswer extends Error {
  override readonly name = "NoAnswer";
}

/** How long to wait, for a client or for one call. */
export interface Limits {
  /** Milliseconds that one attempt may take: 30,000 unless said. */
  timeoutMs?: number;
  /** Milliseconds after which no further attempt begins: 15,000 unless said; 0 means one attempt. */
  patienceMs?: number;
}

export interface ClientOptions extends Limits {
  /** A key of the service. Do not give it to browsers. */
  key?: string;
  /** In place of the global `fetch`. */
  fetch?: typeof fetch;
}

export interface CallOptions extends Limits {
  /** Ends the call. */
  signal?: AbortSignal;
}

type Query = Record<string, string | number | boolean | undefined>;

interface Call {
  method: string;
  path: string;
  query?: Query | undefined;
  json?: unknown;
  file?: Blob | ArrayBuffer;
  /** Sent twice, it is the same as once. */
  repeatable?: boolean;
  /** Statuses that are answers as well. */
  answers?: number[];
}

const NOT_NOW = [429, 503, 507]; // said by the service itself, which has done nothing
const LOST = [502, 504]; // said by something on the way: perhaps it was done
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 2_000;

/** Requests, their repetition, and their errors. */
class Connection {
  private readonly url: string;

  constructor(
    url: string,
    private readonly options: ClientOptions = {},
  ) {
    this.url = url.replace(/\/+$/, "");
  }

  /** Return what `read` makes of the answer, which may take several attempts. */
  protected async send<T>(call: Call, options: CallOptions, read: (response: Response) => Promise<T>): Promise<T> {
    const limits = { timeoutMs: 30_000, patienceMs: 15_000, ...this.options, ...options };
    const end = Date.now() + limits.patienceMs;
    for (let attempt = 0; ; attempt++) {
      const outcome = await this.attempt(call, AbortSignal.timeout(limits.timeoutMs), options.signal, read);
      if ("answer" in outcome) return outcome.answer;
      const longest = Math.min(FIRST_PAUSE_MS * 2 ** attempt, LONGEST_PAUSE_MS);
      const pause = (outcome.againInMs ?? Infinity) + longest * (0.5 + Math.random() / 2);
      if (Date.now() + pause > end) throw outcome.failure;
      await new Promise((resolve) => setTimeout(resolve, pause));
      options.signal?.throwIfAborted();
    }
  }

  private async attempt<T>(
    call: Call,
    timeout: AbortSignal,
    signal: AbortSignal | undefined,
    read: (response: Response) => Promise<T>,
  ): Promise<{ answer: T } | { failure: Error; againInMs: number | undefined }> {
    try {
      const response = await this.fetched(call, signal === undefined ? timeout : AbortSignal.any([timeout, signal]));
      if (response.ok || call.answers?.includes(response.status)) return { answer: await read(response) };
      const again = NOT_NOW.includes(response.status) || (LOST.includes(response.status) && call.repeatable);
      const seconds = Number(response.headers.get("retry-after") ?? 0) || 0;
      return { failure: await problem(response), againInMs: again ? 1_000 * seconds : undefined };
    } catch (cause) {
      if (signal?.aborted) throw cause;
      const failure = new NoAnswer(`${call.method} ${this.url}${call.path} has no answer: ${String(cause)}`, { cause });
      return { failure, againInMs: call.repeatable ? 0 : undefined };
    }
  }

  /** Return the response to one attempt. */
  protected fetched(call: Call, signal: AbortSignal | undefined): Promise<Response> {
    const said = Object.entries(call.query ?? {}).filter(([, value]) => value !== undefined);
    const query = new URLSearchParams(said.map(([name, value]) => [name, String(value)])).toString();
    const headers: Record<string, string> = {};
    if (this.options.key !== undefined) headers["authorization"] = `Bearer ${this.options.key}`;
    if (call.json !== undefined) headers["content-type"] = "application/json";
    if (call.file !== undefined) headers["content-type"] = "application/vnd.safetensors";
    const body = call.json === undefined ? (call.file ?? null) : JSON.stringify(call.json);
    const address = `${this.url}${call.path}${query && `?${query}`}`;
    return (this.options.fetch ?? fetch)(address, { method: call.method, headers, body, signal: signal ?? null });
  }

  /** Yield the values of server-sent events; it ends with the connection or the signal. */
  protected async *events<T>(call: Call, options: CallOptions): AsyncGenerator<T> {
    const response = await this.fetched(call, options.signal);
    if (!response.ok || response.body === null) throw await problem(response);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    try {
      for (let part = await reader.read(); !part.done; part = await reader.read()) {
        const events = (rest + part.value).split("\n\n");
        rest = events.pop() ?? "";
        for (const event of events) {
          const lines = event.split("\n").filter((line) => line.startsWith("data:"));
          if (lines.length > 0) yield JSON.parse(lines.map((line) => line.slice(5)).join("\n")) as T;
        }
      }
    } finally {
      await reader.cancel();
    }
  }
}

/** Return the refusal that a response holds, or one of something that is no service. */
async function problem(response: Response): Promise<ServiceProblem> {
  const text = await response.text();
  const detail = "is this the address of a perturank service?";
  let said: Record<string, unknown> = { title: "it was refused", detail };
  try {
    const found: unknown = JSON.parse(text);
    if (typeof found === "object" && found !== null) said = found as Record<string, unknown>;
  } catch {
    // Something on the way has answered.
  }
  const word = (name: string) => String(said[name] ?? "");
  const kind = word("type").split(":").at(-1) ?? "";
  return new ServiceProblem(response.status, kind, word("title"), word("detail"), word("instance"));
}

/** Return a path with the name of a model or a test; one that would lead elsewhere is refused. */
function named(kind: "model" | "test", name: string, rest: string): string {
  if (["", ".", ".."].includes(name)) throw new TypeError(`'${name}' is no name of a ${kind}`);
  return `/v1/${kind}s/${encodeURIComponent(name)}${rest}`;
}

const ofModel = (model: string, rest: string) => named("model", model, rest);
const ofTest = (test: string, rest: string) => named("test", test, rest);

const asJson = <T>(response: Response) => response.json() as Promise<T>;
const asText = (response: Response) => response.text();
const asBytes = (response: Response) => response.arrayBuffer();
const asNothing = (response: Response) => response.arrayBuffer().then(() => undefined);

// ---- Generated from here on ----

/** The learner will do it. */
export interface Accepted {
  status: "accepted";
}

/** The process answers. */
export interface Alive {
  status: "alive";
}

/**
 * An arm: what it has earned in this period, and how it learns from the test.
 *
 * `lists` are those in which it had documents that not all arms agreed on, and `credit` is what these earned.
 * `learns` says from what it learns: `own`, `all` or `none`; `reason` why not as the test says; `learned` from how
 * many lists. `unlearned`: its model was asked to unlearn a source in this period, which withdrew versions that it
 * was judged by.
 */
export interface ArmStanding {
  arm: string;
  credit: number;
  learned: number;
  learns: "all" | "none" | "own";
  lists: number;
  model: string | null;
  reason: string | null;
  unlearned: boolean;
  version: number | null;
}

/**
 * Two arms: by how much more a list earns with the first (`difference`), and within what this lies at any time.
 *
 * `interval` holds with probability 1 - level for all pairs and all times together; null: without end. `confidence`
 * is how sure it is that there is a difference at all. `lists_more` and `seconds_more` say when the test would decide,
 * if the difference and the traffic stay as they are; null: not foreseeably.
 */
export interface Comparison {
  confidence: number;
  decided: boolean;
  difference: number;
  interval: (number | null)[];
  lists_more: number | null;
  one: string;
  other: string;
  seconds_more: number | null;
}

/** A model: what is served, what is pinned, since which position of the log it learns, whether it unlearns. */
export interface Described {
  generation: number;
  learned: number;
  model: string;
  pinned: number | null;
  spec: SpecRecord;
  unlearning: Unlearning | null;
  version: number;
}

/**
 * A candidate: features as a list, or by name where the model has named them; `prior` is its score of today.
 *
 * A feature that is null is missing.
 */
export interface Document {
  id: string;
  features: (number | null)[] | Record<string, number | null>;
  prior?: number | null;
}

/** Lists that were drawn to see what chance would show. */
export interface Draws {
  different: number;
  documents: Standing[];
  lists: number;
}

/**
 * The client, user or session whose impressions and clicks are to be taken out of the log.
 *
 * `unlearn`: the model is rebuilt without them, and versions that have learned from them are withdrawn.
 */
export interface Erase {
  source: string;
  unlearn?: boolean;
}

/** The learner will do it; `position` is that of the wish in the log. */
export interface Erasing {
  position: number;
  status: "accepted";
}

/** What somebody did with a shown document: one of the model's actions; `value`, such as a price, is counted. */
export interface Event {
  id: string;
  action: string;
  value?: number | null;
}

/** What an event is about. */
export interface EventAttributes {
  object?: EventObject | null;
  position?: EventPosition | null;
}

/** What somebody did something with. */
export interface EventObject {
  object_id?: string | number | null;
  object_id_field?: string | null;
}

/** An ordinal as UBI 1.0 had it. */
export interface EventOrdinal {
  index?: number | string | null;
}

/** Where on the page something happened; the first place is 0 or 1, as the application has it. */
export interface EventPosition {
  ordinal?: number | string | EventOrdinal | null;
}

/** Something that somebody did: with a document, a list, or the page. */
export interface EventRecord {
  application?: string | null;
  query_id?: string | number | null;
  client_id?: string | number | null;
  session_id?: string | number | null;
  user_id?: string | number | null;
  timestamp?: string | number | null;
  user_query?: string | null;
  action_name: string;
  event_attributes?: EventAttributes | null;
}

/** Documents whose places are to be explained, or one of the last queries; `draws`: lists drawn for it. */
export interface Explain {
  documents?: Document[];
  recent?: number | null;
  draws?: number;
}

/** Why documents stand where they do; where there are certain orders, their graph (of the best 60) and share. */
export interface Explained {
  certain_pairs: number | null;
  documents: number;
  draws: Draws | null;
  graph: Node[] | null;
  model: string;
  ranking: Place[];
  shown?: Shown;
  version: number;
}

/** How far exploration may go: the probability that is logged accounts for all three. */
export interface Exploration {
  protected?: number;
  displacement?: number | null;
  share?: number;
}

/**
 * A named feature. With a shift or a scale of its own, x becomes (x - shift) / scale.
 *
 * A document that lacks it gets `missing`, a value of the scaled feature. Without that, models whose scaling is `none`
 * refuse the document, and others take the feature at its mean. `was` renames a feature of the model as it is.
 */
export interface Feature {
  name: string;
  shift?: number | null;
  scale?: number | null;
  missing?: number | null;
  was?: string | null;
}

/** Several pieces of feedback. */
export interface FeedbackBatch {
  requests: ListFeedback[];
}

/**
 * A generation: since when it learned (milliseconds since 1970), how many versions it has, and the last of them.
 *
 * `refusal` says why it cannot be restored.
 */
export interface Generation {
  generation: number;
  learned: number;
  refusal: string | null;
  restorable: boolean;
  since: number;
  spec: SpecRecord;
  version: number | null;
  versions: number;
}

/** A model's generations, newest first; `present` is the one that learns. */
export interface Generations {
  generations: Generation[];
  present: number;
}

/** What the feedback did. */
export interface Given {
  status: "early" | "known" | "late" | "recorded";
}

/** What each piece of feedback did, or why it was refused. */
export interface GivenBatch {
  answers: Outcome[];
}

/**
 * What somebody did with a list: clicks, other events, how many top places were seen. Parts add up.
 *
 * Events are learned when they have settled: the model's `settle` seconds after the last one, at once if `final`.
 */
export interface ListFeedback {
  impression: string;
  clicks?: string[];
  final?: boolean;
  events?: Event[];
  seen?: number | null;
}

/**
 * A live test. The first arm is the one of today, which the winner replaces when it is promoted.
 *
 * An arm is a model (`books`), a version of it (`books@7`), or `own`: the caller's own order. `interleave` makes one
 * list of all arms' lists; `split` shows each `source` the lists of one arm. Models learn from what their own
 * documents earned, from all that is shown, or not at all. `actions` and `window` are by default those of the first
 * model; `level` is how often a test of equal arms may be decided wrongly.
 */
export interface LiveTest {
  arms: string[];
  method?: "interleave" | "split";
  learns?: "all" | "none" | "own";
  actions?: Record<string, number>;
  window?: number | null;
  level?: number;
}

/**
 * A live test: who leads, by how much, how surely, and for how long it would go on.
 *
 * `winner` is decided: it earned more than each other arm. `lists` counted in this period, and `uncounted` did not:
 * they were shown while programs were compiled, or of arms as they were before a change. `decided_at` is when there
 * first was a winner, in milliseconds since 1970, and `decided_after` so many lists.
 */
export interface LiveTestStanding {
  arms: ArmStanding[];
  comparisons: Comparison[];
  decided_after: number | null;
  decided_at: number | null;
  leader: string | null;
  lists: number;
  lists_per_second: number | null;
  period: number;
  periods: Period[];
  promoted: string | null;
  series: Point[];
  since: number;
  spec: LiveTest;
  status: "running" | "stopped";
  test: string;
  uncounted: number;
  winner: string | null;
}

/** All live tests, by name. */
export interface LiveTests {
  tests: LiveTestStanding[];
}

/** All models, by name. */
export interface Models {
  models: Described[];
}

/** A document in the graph of certain orders: its layer, and which nodes stand certainly and directly before it. */
export interface Node {
  after: number[];
  id: string;
  layer: number;
}

/** What one piece of feedback of several did; where it was refused, its HTTP status and why. */
export interface Outcome {
  status: "early" | "known" | "late" | "recorded" | number;
  title?: string;
  type?: string;
}

/** A stretch of the test in which no arm's specification was changed; `leader` has earned most in it. */
export interface Period {
  leader: string | null;
  lists: number;
  number: number;
  since: number | null;
  winner: string | null;
}

/** A version to serve, or to go on from. */
export interface Pin {
  version: number;
}

/** A document in its place: certain orders where the ranker knows them; `explored` of logged lists, if known. */
export interface Place {
  certain?: boolean;
  certainly_after?: string[];
  explored?: boolean | null;
  free?: string[];
  id: string;
  score: number;
  scores: number[];
}

/** The comparisons at a time (milliseconds since 1970), after so many lists: in the order of `comparisons`. */
export interface Point {
  at: number;
  differences: number[];
  intervals: ((number | null)[])[];
  lists: number;
}

/** The arm to promote; by default the winner, which there must be. */
export interface Promote {
  arm?: string | null;
}

/** What a promotion did, and how to take it back. */
export interface Promoted {
  arm: string;
  did: string;
  model: string;
  undo: string;
}

/** A search: what was asked, and which documents the engine returned, the first one first. */
export interface QueryRecord {
  application?: string | null;
  query_id?: string | number | null;
  client_id?: string | number | null;
  session_id?: string | number | null;
  user_id?: string | number | null;
  timestamp?: string | number | null;
  user_query?: string | null;
  object_id_field?: string | null;
  query_response_id?: string | null;
  query_response_hit_ids?: (string | number)[] | null;
}

/**
 * Documents to be ranked. `source` is a client, user or session, for the limits on its influence.
 *
 * `continues` names the page before this one, whose documents are left out, and those of the pages before it.
 * `on_error`: a document that cannot be read refuses the request, or is skipped. `query_id` is the caller's own name
 * for the query: events of User Behavior Insights refer to it.
 */
export interface Rank {
  documents: Document[];
  query?: string | null;
  top?: number | null;
  mode?: "exploit" | "learn" | "shadow";
  source?: string | null;
  draw?: number | null;
  continues?: string | null;
  on_error?: "refuse" | "skip";
  query_id?: string | null;
}

/** Several rank requests. */
export interface RankBatch {
  requests: Rank[];
}

/** A document in its place; certain: it alone was free to stand there. A floor may put others there. */
export interface Ranked {
  id: string;
  certain: boolean;
}

/**
 * A list to show. Send `impression` back with the clicks.
 *
 * `fallback`: it is the caller's own order, since the program that would draw it is still being compiled.     `skipped`
 * are documents that could not be read, where the request lets them be skipped.
 */
export interface RankedList {
  impression: string;
  ranking: Ranked[];
  propensity: number | null;
  version: number;
  fallback?: boolean;
  skipped?: Skipped[];
}

/** Answers in the order of the requests. */
export interface RankedLists {
  answers: RankedList[];
}

/** Whether every list is drawn by its model, and what is wrong; `to_compile`: lengths of lists that are not yet. */
export interface Readiness {
  faults: string[];
  status: "compiling" | "failing" | "ready";
  to_compile: number;
}

/** A generation to go on from. */
export interface Restore {
  generation: number;
}

/** A logged list: when it was shown (milliseconds since 1970), and by which version. */
export interface Shown {
  at: number;
  impression: string;
  mode: "exploit" | "imported" | "learn" | "own" | "shadow" | "test";
  propensity: number | null;
  version: number;
}

/** A document that could not be read, and why. */
export interface Skipped {
  id: string;
  title: string;
}

/**
 * A model as the log holds it, with every setting that there was when it was made.
 *
 * A change of what decides learning (ranker, settings, scaling, prior strength, places, seed) begins it anew.
 */
export interface SpecRecord {
  n_features: number;
  settings?: Record<string, unknown>;
  features?: Feature[] | null;
  places?: number;
  seed?: number;
  window?: number;
  settle?: number;
  exploration?: Exploration;
  cap?: number | null;
  votes?: number | null;
  batch?: number | null;
  chance?: "machine" | "seeded";
  prior_strength?: number;
  ubi?: Ubi;
  candidates?: number;
  keep_query?: boolean;
  on_drift?: "alarm" | "challenger" | "forget";
  ranker?: string;
  scaling?: "auto" | "none" | "query";
  actions?: Record<string, number>;
}

/**
 * A model in words. Ranker, settings or scaling that are not named are those of the model, where it exists.
 *
 * `actions` are added to click 1, add_to_cart 3, purchase 10, or change what these are worth.
 */
export interface SpecRequest {
  n_features: number;
  settings?: Record<string, unknown>;
  features?: Feature[] | null;
  places?: number;
  seed?: number;
  window?: number;
  settle?: number;
  exploration?: Exploration;
  cap?: number | null;
  votes?: number | null;
  batch?: number | null;
  chance?: "machine" | "seeded";
  prior_strength?: number;
  ubi?: Ubi;
  candidates?: number;
  keep_query?: boolean;
  on_drift?: "alarm" | "challenger" | "forget";
  ranker?: string;
  scaling?: "auto" | "none" | "query";
  actions?: Record<string, number>;
}

/** How often a document stands at each place. */
export interface Standing {
  id: string;
  places: number[];
}

/** How records of User Behavior Insights become feedback of the model. */
export interface Ubi {
  application?: string | null;
  origins?: string[];
  actions?: Record<string, string>;
  seen?: string[];
  ordinal_base?: 0 | 1;
}

/** What each UBI record did, in the order of the records. */
export interface UbiAnswer {
  answers: UbiOutcome[];
}

/** What one UBI record did; `title` says why it was refused (`status` is then an HTTP status) or is of no use. */
export interface UbiOutcome {
  status: "early" | "ignored" | "known" | "late" | "listed" | "recorded" | "unlisted" | number;
  title?: string;
  type?: string;
}

/** A source is being unlearned: the position of the request, and how many impressions were learned anew since. */
export interface Unlearning {
  learned: number;
  position: number;
}

/** A version: impressions learned, when it came (milliseconds since 1970); one that is stored can be pinned. */
export interface Version {
  at: number;
  digest: string;
  learned: number;
  stored: boolean;
  version: number;
}

/** A model's versions, newest first: as many as were asked for, or all that are left. */
export interface Versions {
  pinned: number | null;
  served: number;
  versions: Version[];
}

/** Every route of the service. */
export class Client extends Connection {
  /** Rank documents and log the list. Needs the scope serve, where the service asks for keys. */
  rank(model: string, body: Rank, options: CallOptions = {}): Promise<RankedList> {
    const call = { method: "POST", path: ofModel(model, "/rank"), json: body };
    return this.send(call, options, asJson<RankedList>);
  }

  /** Rank several queries. Needs the scope serve, where the service asks for keys. */
  rankBatch(model: string, body: RankBatch, options: CallOptions = {}): Promise<RankedLists> {
    const call = { method: "POST", path: ofModel(model, "/rank/batch"), json: body };
    return this.send(call, options, asJson<RankedLists>);
  }

  /** Record clicks and other events; answered when durable. Needs the scope serve, where the service asks for keys. */
  feedback(model: string, body: ListFeedback, options: CallOptions = {}): Promise<Given> {
    const call = { method: "POST", path: ofModel(model, "/feedback"), json: body, repeatable: true };
    return this.send(call, options, asJson<Given>);
  }

  /** Record clicks and other events of several lists. Needs the scope serve, where the service asks for keys. */
  feedbackBatch(model: string, body: FeedbackBatch, options: CallOptions = {}): Promise<GivenBatch> {
    const call = { method: "POST", path: ofModel(model, "/feedback/batch"), json: body, repeatable: true };
    return this.send(call, options, asJson<GivenBatch>);
  }

  /**
   * Say why documents stand where they do. Needs the scope serve, where the service asks for keys. A recent query is
   * somebody else's and needs the scope admin.
   */
  explain(model: string, body: Explain, options: CallOptions = {}): Promise<Explained> {
    const call = { method: "POST", path: ofModel(model, "/explain"), json: body, repeatable: true };
    return this.send(call, options, asJson<Explained>);
  }

  /**
   * Say why the documents of a logged list stood where they did. Needs the scope serve, where the service asks for
   * keys. One of the two is said. A recent query is somebody else's and needs the scope admin.
   */
  explainImpression(
    model: string,
    query: { impression?: string; recent?: number } = {},
    options: CallOptions = {},
  ): Promise<Explained> {
    const call = { method: "GET", path: ofModel(model, "/explain"), query, repeatable: true };
    return this.send(call, options, asJson<Explained>);
  }

  /**
   * Record UBI events as ubi.js sends them. Needs the scope ubi, where the service asks for keys. One record may stand
   * alone; each is answered by itself. Pages send a publishable key, of the scope ubi: in the header, or as /ubi/KEY
   * before the path.
   */
  ubiEvents(body: EventRecord[], options: CallOptions = {}): Promise<UbiAnswer> {
    const call = { method: "POST", path: "/ubi_events", json: body };
    return this.send(call, options, asJson<UbiAnswer>);
  }

  /**
   * Count UBI queries, and say of each whether there is a list of it. Needs the scope ubi, where the service asks for
   * keys. One record may stand alone; each is answered by itself. Pages send a publishable key, of the scope ubi: in
   * the header, or as /ubi/KEY before the path.
   */
  ubiQueries(body: QueryRecord[], options: CallOptions = {}): Promise<UbiAnswer> {
    const call = { method: "POST", path: "/ubi_queries", json: body };
    return this.send(call, options, asJson<UbiAnswer>);
  }

  /** List all models. Needs the scope admin, where the service asks for keys. */
  models(options: CallOptions = {}): Promise<Models> {
    const call = { method: "GET", path: "/v1/models", repeatable: true };
    return this.send(call, options, asJson<Models>);
  }

  /** One model. Needs the scope serve, where the service asks for keys. */
  model(model: string, options: CallOptions = {}): Promise<Described> {
    const call = { method: "GET", path: ofModel(model, ""), repeatable: true };
    return this.send(call, options, asJson<Described>);
  }

  /**
   * Make or change a model. Needs the scope admin, where the service asks for keys. Refused with 409 where what was
   * learned could not be kept, unless `begin_anew` is true.
   */
  putModel(
    model: string,
    body: SpecRequest,
    query: { begin_anew?: boolean } = {},
    options: CallOptions = {},
  ): Promise<Described> {
    const call = { method: "PUT", path: ofModel(model, ""), json: body, query };
    return this.send(call, options, asJson<Described>);
  }

  /**
   * Change some fields of a model, by an RFC 7396 merge patch of its spec. Needs the scope admin, where the service
   * asks for keys. Refused with 409 where what was learned could not be kept, unless `begin_anew` is true.
   */
  patchModel(
    model: string,
    body: Record<string, unknown>,
    query: { begin_anew?: boolean } = {},
    options: CallOptions = {},
  ): Promise<Described> {
    const call = { method: "PATCH", path: ofModel(model, ""), json: body, query };
    return this.send(call, options, asJson<Described>);
  }

  /** Delete a model. Needs the scope admin, where the service asks for keys. */
  deleteModel(model: string, options: CallOptions = {}): Promise<void> {
    const call = { method: "DELETE", path: ofModel(model, "") };
    return this.send(call, options, asNothing);
  }

  /** The model's versions. Needs the scope admin, where the service asks for keys. */
  versions(
    model: string,
    query: { limit?: number; before?: number } = {},
    options: CallOptions = {},
  ): Promise<Versions> {
    const call = { method: "GET", path: ofModel(model, "/versions"), query, repeatable: true };
    return this.send(call, options, asJson<Versions>);
  }

  /** Serve one version whatever is learned. Needs the scope admin, where the service asks for keys. */
  pin(model: string, body: Pin, options: CallOptions = {}): Promise<Described> {
    const call = { method: "PUT", path: ofModel(model, "/pin"), json: body, repeatable: true };
    return this.send(call, options, asJson<Described>);
  }

  /** Serve the newest version again. Needs the scope admin, where the service asks for keys. */
  unpin(model: string, options: CallOptions = {}): Promise<Described> {
    const call = { method: "DELETE", path: ofModel(model, "/pin"), repeatable: true };
    return this.send(call, options, asJson<Described>);
  }

  /** Let learning go on from a version. Needs the scope admin, where the service asks for keys. */
  rollBack(model: string, body: Pin, options: CallOptions = {}): Promise<Accepted> {
    const call = { method: "POST", path: ofModel(model, "/rollback"), json: body };
    return this.send(call, options, asJson<Accepted>);
  }

  /**
   * The model's generations: with each, learning began anew. Needs the scope admin, where the service asks for keys.
   */
  generations(model: string, options: CallOptions = {}): Promise<Generations> {
    const call = { method: "GET", path: ofModel(model, "/generations"), repeatable: true };
    return this.send(call, options, asJson<Generations>);
  }

  /**
   * Let serving and learning go on from the last version of an earlier generation. Needs the scope admin, where the
   * service asks for keys.
   */
  restore(model: string, body: Restore, options: CallOptions = {}): Promise<Described> {
    const call = { method: "POST", path: ofModel(model, "/restore"), json: body };
    return this.send(call, options, asJson<Described>);
  }

  /** The served version as a file for perturank.load. Needs the scope admin, where the service asks for keys. */
  file(model: string, query: { history?: boolean } = {}, options: CallOptions = {}): Promise<ArrayBuffer> {
    const call = { method: "GET", path: ofModel(model, "/file"), query, repeatable: true };
    return this.send(call, options, asBytes);
  }

  /** Let learning go on from a file of perturank.save. Needs the scope admin, where the service asks for keys. */
  putFile(model: string, file: Blob | ArrayBuffer, options: CallOptions = {}): Promise<Accepted> {
    const call = { method: "PUT", path: ofModel(model, "/file"), file };
    return this.send(call, options, asJson<Accepted>);
  }

  /**
   * What another ranker would have earned on the model's traffic. Needs the scope admin, where the service asks for
   * keys. `against`: own (the caller's order), a version's number, or a ranker. The answer may be ten minutes old.
   */
  evaluate(
    model: string,
    query: { against?: string; reward?: "first-click" | "clicks" | "dcg" | "worth"; places?: number; after?: number } = {},
    options: CallOptions = {},
  ): Promise<Record<string, unknown>> {
    const call = { method: "GET", path: ofModel(model, "/evaluate"), query, repeatable: true };
    return this.send(call, options, asJson<Record<string, unknown>>);
  }

  /**
   * A version for Elasticsearch, OpenSearch, Solr, ONNX, or as plain JSON. Needs the scope admin, where the service
   * asks for keys. The served version, unless another is named. What the format cannot express is refused with the
   * reason.
   */
  export(
    model: string,
    query: { format?: "elasticsearch" | "json" | "onnx" | "opensearch" | "solr"; version?: number; name?: string; prior?: string } = {},
    options: CallOptions = {},
  ): Promise<Record<string, unknown>> {
    const call = { method: "GET", path: ofModel(model, "/export"), query, repeatable: true };
    return this.send(call, options, asJson<Record<string, unknown>>);
  }

  /**
   * Take a source's impressions and clicks out of the log, and out of the model too (`unlearn`). Needs the scope admin,
   * where the service asks for keys. `unlearn` is refused with 409 where records were compacted: the model cannot be
   * rebuilt without them.
   */
  erase(model: string, body: Erase, options: CallOptions = {}): Promise<Erasing> {
    const call = { method: "POST", path: ofModel(model, "/erase"), json: body, repeatable: true };
    return this.send(call, options, asJson<Erasing>);
  }

  /** List all live tests. Needs the scope admin, where the service asks for keys. */
  tests(options: CallOptions = {}): Promise<LiveTests> {
    const call = { method: "GET", path: "/v1/tests", repeatable: true };
    return this.send(call, options, asJson<LiveTests>);
  }

  /** A live test. Needs the scope admin, where the service asks for keys. */
  test(test: string, options: CallOptions = {}): Promise<LiveTestStanding> {
    const call = { method: "GET", path: ofTest(test, ""), repeatable: true };
    return this.send(call, options, asJson<LiveTestStanding>);
  }

  /** Begin a live test, or change it so that it counts anew. Needs the scope admin, where the service asks for keys. */
  putTest(test: string, body: LiveTest, options: CallOptions = {}): Promise<LiveTestStanding> {
    const call = { method: "PUT", path: ofTest(test, ""), json: body };
    return this.send(call, options, asJson<LiveTestStanding>);
  }

  /** Stop a live test. Needs the scope admin, where the service asks for keys. What it has counted stays. */
  stopTest(test: string, options: CallOptions = {}): Promise<LiveTestStanding> {
    const call = { method: "DELETE", path: ofTest(test, "") };
    return this.send(call, options, asJson<LiveTestStanding>);
  }

  /**
   * Rank documents by the arms of a live test, and log the list. Needs the scope serve, where the service asks for
   * keys.
   */
  rankTest(test: string, body: Rank, options: CallOptions = {}): Promise<RankedList> {
    const call = { method: "POST", path: ofTest(test, "/rank"), json: body };
    return this.send(call, options, asJson<RankedList>);
  }

  /**
   * Record clicks and other events on a list of a live test; answered when durable. Needs the scope serve, where the
   * service asks for keys.
   */
  feedbackTest(test: string, body: ListFeedback, options: CallOptions = {}): Promise<Given> {
    const call = { method: "POST", path: ofTest(test, "/feedback"), json: body, repeatable: true };
    return this.send(call, options, asJson<Given>);
  }

  /**
   * Let the first arm's model serve what the winner is, and stop the test. Needs the scope admin, where the service
   * asks for keys.
   */
  promote(test: string, body: Promote, options: CallOptions = {}): Promise<Promoted> {
    const call = { method: "POST", path: ofTest(test, "/promote"), json: body };
    return this.send(call, options, asJson<Promoted>);
  }

  /**
   * Models, traffic and alarms of now. Needs the scope admin, where the service asks for keys. Models come in pages of
   * 20: those whose name contains `filter`. One is told in detail, `model` or the first.
   */
  overview(
    query: { filter?: string; page?: number; model?: string } = {},
    options: CallOptions = {},
  ): Promise<Record<string, unknown>> {
    const call = { method: "GET", path: "/v1/overview", query, repeatable: true };
    return this.send(call, options, asJson<Record<string, unknown>>);
  }

  /**
   * The same as server-sent events, one a second. Needs the scope admin, where the service asks for keys. Models come
   * in pages of 20: those whose name contains `filter`. One is told in detail, `model` or the first.
   */
  live(
    query: { filter?: string; page?: number; model?: string } = {},
    options: CallOptions = {},
  ): AsyncGenerator<Record<string, unknown>> {
    const call = { method: "GET", path: "/v1/live", query, repeatable: true };
    return this.events(call, options);
  }

  /**
   * Counters of the last hours by the minute, or of the last month by the hour (`span=hours`). Needs the scope admin,
   * where the service asks for keys.
   */
  history(
    model: string,
    query: { span?: "minutes" | "hours" } = {},
    options: CallOptions = {},
  ): Promise<Record<string, unknown>> {
    const call = { method: "GET", path: ofModel(model, "/history"), query, repeatable: true };
    return this.send(call, options, asJson<Record<string, unknown>>);
  }

  /** The last queries, to be explained. Needs the scope admin, where the service asks for keys. */
  recent(model: string, options: CallOptions = {}): Promise<Record<string, unknown>> {
    const call = { method: "GET", path: ofModel(model, "/recent"), repeatable: true };
    return this.send(call, options, asJson<Record<string, unknown>>);
  }

  /** Alive. */
  alive(options: CallOptions = {}): Promise<Alive> {
    const call = { method: "GET", path: "/healthz", repeatable: true };
    return this.send(call, options, asJson<Alive>);
  }

  /**
   * Ready: everything is, or once was, compiled. Once ready, a process stays so while it compiles what a change of a
   * model needs.
   */
  ready(options: CallOptions = {}): Promise<Readiness> {
    const call = { method: "GET", path: "/readyz", repeatable: true, answers: [503] };
    return this.send(call, options, asJson<Readiness>);
  }

  /** For Prometheus. Needs the scope serve, where the service asks for keys. */
  metrics(options: CallOptions = {}): Promise<string> {
    const call = { method: "GET", path: "/metrics", repeatable: true };
    return this.send(call, options, asText);
  }
}
