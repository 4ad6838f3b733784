/** Quality over time: how good the lists were, beside the best estimate and the caller's own order. */
import { LineChart, type Series } from "../charts";
import { el, fill, say } from "../dom";
import { clock, counted, day, number, signed } from "../format";
import type { Bucket, Chosen } from "./answers";
import { cost, isSmall, rank, reward, told, within, type Order, type Told } from "./estimates";
import { parted, type Gap } from "./history";

const TRAILING = { shown: 15, best: 15, own: 60 }; // buckets in an average: minutes are noisy, and the own order stays as it is
const NAMES: Record<Order, string> = { shown: "lists as shown", best: "best estimate", own: "your own order" };
const ORDERS = ["shown", "best", "own"] as const;
const RANK = "Reciprocal rank of the first click";
const REWARD = "Reward per search";
const FEW = "Few lists begin as your own order does, so they leave it open between two bounds.";
const SHADOW = 'To measure it, send a share of your searches with "mode": "shadow".';
const REACTIONS = {
  alarm: "The model goes on learning as before.",
  forget: "What the model had seen by then weighs a tenth.",
  challenger: "A fresh model was made to be tested beside it.",
};

export class QualityCharts {
  readonly node = el("div", { class: "grid quality" });
  readonly anew = el("p", { class: "notice", hidden: true });
  readonly drift = el("p", { class: "notice", hidden: true });
  private seconds = 60; // of a bucket
  private readonly price = el("strong", { class: "value" }, "–");
  private readonly sign = el("p", { class: "small" });
  private readonly span = el("h3", { id: "quality-span" }, "The three orders");
  private readonly body = el("tbody");
  private readonly hint = el("p", { class: "small" });
  private readonly ranks = this.chart(RANK);
  private readonly rewards = this.chart(REWARD);

  constructor() {
    const costs = el("div", { class: "cost" }, el("h3", {}, "Cost of exploration"), this.price, this.sign);
    const heads = ["Order", "Rank", "Reward", "Searches"].map((name, i) => el("th", { scope: "col", class: i > 0 && "number" }, name));
    const table = el("table", {}, el("thead", {}, el("tr", {}, ...heads)), this.body);
    const around = el("div", { class: "scrolls", tabindex: 0, role: "region", "aria-labelledby": "quality-span" }, table);
    const cards = [[this.ranks.node], [this.rewards.node], [costs, el("div", {}, this.span, around, this.hint)]];
    this.node.append(...cards.map((inside) => el("div", { class: "card" }, ...inside)));
  }

  private chart(title: string): LineChart {
    const empty = "no searches with known quality yet";
    return new LineChart({ title, value: number, x: (at) => this.when(at), xName: "From", height: 280, isClose: true, empty });
  }

  private when(at: number): string {
    return this.seconds < 3600 ? clock(at) : day(at, true);
  }

  /** Say that the model has begun anew, or that people want something else, where it is so. */
  showModel(model: Chosen | null): void {
    const drift = model?.drift ?? null;
    this.drift.hidden = drift === null;
    if (drift !== null) {
      const fell = `the reciprocal rank of the first click was ${number(drift.before)}, and ${number(drift.after)} over ${counted(drift.lists, "list")} after that`;
      say(this.drift, `Noticed on ${day(drift.at, true)}: people seem to want something else; ${fell}. ${REACTIONS[drift.reaction]}`);
    }
    const anew = model?.begun_anew ?? null;
    this.anew.hidden = anew === null;
    if (anew === null || model === null) return;
    const had = `It began to learn anew on ${day(anew.at, true)}. Generation ${anew.generation} before it had learned ${counted(anew.learned, "impression")}, up to version ${anew.version}.`;
    const back = `To go back: POST /v1/models/${model.model}/restore {"generation": ${anew.generation}}`;
    if (this.anew.textContent !== `${had} ${back}`) fill(this.anew, had, " ", el("code", {}, back));
  }

  /** Draw what changes every minute, or every hour; `name` says how long that is in all. */
  showHistory(past: Bucket[], seconds: number, name: string): void {
    this.seconds = seconds;
    const buckets = parted(past, 1000 * seconds);
    const xs = buckets.map((each) => each.start);
    this.ranks.draw(xs, this.series(buckets, rank));
    this.rewards.draw(xs, this.series(buckets, reward));
    const known = ORDERS.map((order) => ({ order, quality: told(past.map((each) => each.quality), order) }));
    this.tellCost(past, known[1]?.quality ?? null, name);
    say(this.span, `The three orders, ${name}`);
    fill(this.body, ...known.map(({ order, quality }) => row(order, quality)));
    const own = known[2]?.quality ?? null;
    say(this.hint, own !== null && !isSmall(own) && rank(own, "own") === null ? `${FEW} ${SHADOW}` : "");
  }

  private series(buckets: (Bucket | Gap)[], of: (quality: Told | null, order: Order) => number | null): Series[] {
    const over = (order: Order) => buckets.map((at, i) => (at.quality === null ? null : told(trailing(buckets, i, TRAILING[order]), order)));
    const lines = ORDERS.map((order) => ({ name: NAMES[order], values: over(order).map((each) => of(each, order)) }));
    const searches = over("shown").map((each) => each?.lists ?? null);
    return [...lines, { name: "searches behind it", values: searches, onlyInTable: true, value: number }];
  }

  private tellCost(past: Bucket[], best: Told | null, name: string): void {
    const price = cost(past);
    const isTold = price !== null && best !== null && rank(best, "best") !== null;
    say(this.price, isTold ? `${signed(price.cost)} ± ${number(price.within)}` : "–");
    say(this.sign, isTold ? `${meaning(price.cost, price.within)} ${basis(price.lists, name)}` : untold(price?.lists ?? 0));
  }
}

function trailing(buckets: (Bucket | Gap)[], end: number, n: number): Bucket["quality"][] {
  return buckets.slice(Math.max(0, end + 1 - n), end + 1).flatMap((each) => each.quality ?? []);
}

/** What the sign of the cost means. */
function meaning(cost: number, within: number): string {
  if (Math.abs(cost) <= within) return "Too small to be told from 0: the lists as shown were about as good as the best estimate would have been.";
  return cost > 0
    ? "Positive: the lists as shown earned less than the best estimate would have. That is the price of learning; it falls as orders become certain."
    : "Negative: the lists as shown earned more than the best estimate would have. It still has to learn what exploration finds, or your readers do not go down the list.";
}

function basis(lists: number, name: string): string {
  return `In reciprocal rank of the first click, over ${counted(lists, "search", "es")} ${name} (95 %).`;
}

function untold(lists: number): string {
  if (lists === 0) return "Known where lists explore, and the ranker knows the probability of its lists.";
  return `Cannot be told from ${counted(lists, "search", "es")}: too few lists agree with the best estimate so far.`;
}

/** What is known of an order: its reciprocal rank as an interval, or bounds where that is too wide. */
function row(order: Order, quality: Told | null): HTMLElement {
  const cells = quality === null ? ["–", "–", "0"] : [ranked(quality, order), number(reward(quality, order)), number(quality.lists)];
  const how = el("span", { class: "how" }, quality === null ? "not known yet" : quality.how);
  return el("tr", {}, el("th", { scope: "row" }, NAMES[order], how), ...cells.map((text) => el("td", { class: "number" }, text)));
}

function ranked(quality: Told, order: Order): string {
  const half = within(quality);
  if (order !== "shown" && isSmall(quality)) return "too few";
  if (rank(quality, order) !== null) return `${number(quality.rank)} ± ${number(half)}`;
  return `${number(Math.max(0, quality.rank - half))} to ${number(Math.min(1, quality.rank + half))}`;
}
