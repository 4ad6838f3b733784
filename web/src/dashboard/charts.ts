/** What one model and the traffic look like over time. */
import { BarChart, LineChart } from "../charts";
import { el, say } from "../dom";
import { clock, day, duration, number, percent } from "../format";
import type { Bucket, Exploration, Model, Moment } from "./answers";

const TRAILING = 15; // buckets over which reciprocal ranks are averaged: single minutes are noisy

const FAR = 4; // buckets
const FEWEST = 10; // lists
const NOTHING = { certain_places: null, uncertain_pairs: null, lag: null, largest_lag: null, update_seconds: null, exploration: null };
type Nothing = { start: number } & typeof NOTHING;

export class Charts {
  readonly node = el("div", { class: "grid" });
  private seconds = 60; // of a bucket
  private readonly cost = el("p", { class: "small muted" });
  private readonly traffic = new LineChart({
    title: "Requests a second, of this process",
    value: number,
    x: (x) => (x === 0 ? "now" : `−${-x} s`),
    xName: "Seconds",
  });
  private readonly clicks = new BarChart({
    title: "Clicks per place, since the model was made",
    value: percent,
    x: String,
    xName: "Place",
    empty: "no clicks yet",
  });
  private readonly certain = new LineChart({
    title: "Certain orders",
    value: (share) => percent(share),
    x: (at) => this.when(at),
    xName: "From",
    top: 1,
    empty: "no lists that might explore yet",
  });
  private readonly lag = new LineChart({
    title: "From click to version",
    value: duration,
    x: (at) => this.when(at),
    xName: "From",
    empty: "nothing learned yet",
  });
  private readonly updates = new LineChart({
    title: "Time of a batch's learning",
    value: duration,
    x: (at) => this.when(at),
    xName: "From",
    empty: "nothing learned yet",
  });
  private readonly ranks = new LineChart({
    title: "Cost of exploration",
    value: number,
    x: (at) => this.when(at),
    xName: "From",
    empty: "no lists with known probabilities yet",
  });

  constructor() {
    const cards = [this.traffic, this.clicks, this.certain, this.lag, this.ranks, this.updates].map((chart) => el("div", { class: "card" }, chart.node));
    cards[4]?.append(this.cost);
    this.node.append(...cards);
  }

  private when(at: number): string {
    return this.seconds < 3600 ? clock(at) : day(at, true);
  }

  /** Draw what changes every second. */
  showMoment(moment: Moment, model: Model | undefined): void {
    const { rank, feedback } = moment.traffic;
    const seconds = rank.per_second.map((_, i) => i + 1 - rank.per_second.length);
    this.traffic.draw(seconds, [
      { name: "lists", values: rank.per_second },
      { name: "feedback", values: feedback.per_second },
    ]);
    const places = model?.total.by_place ?? [];
    this.clicks.draw(
      places.map((each) => each.place),
      [
        { name: "clicks of those shown", values: places.map((each) => (each.shown > 0 ? each.clicks / each.shown : null)) },
        { name: "clicks", values: places.map((each) => each.clicks), onlyInTable: true, value: number },
        { name: "shown", values: places.map((each) => each.shown), onlyInTable: true, value: number },
      ],
    );
    say(this.cost, priced(model?.total.exploration));
  }

  /** Draw what changes every minute, or every hour. */
  showHistory(past: Bucket[], seconds: number): void {
    this.seconds = seconds;
    const buckets = parted(past, 1000 * seconds);
    const xs = buckets.map((each) => each.start);
    this.certain.draw(xs, [
      { name: "places", values: buckets.map((each) => each.certain_places) },
      { name: "pairs, sampled", values: buckets.map((each) => (each.uncertain_pairs === null ? null : 1 - each.uncertain_pairs)) },
    ]);
    this.lag.draw(xs, [
      { name: "mean", values: buckets.map((each) => each.lag) },
      { name: "longest", values: buckets.map((each) => each.largest_lag) },
    ]);
    this.updates.draw(xs, [{ name: "mean", values: buckets.map((each) => each.update_seconds) }]);
    this.ranks.draw(xs, [
      { name: "best estimate's order", values: trailing(buckets, "best") },
      { name: "lists as shown", values: trailing(buckets, "shown") },
    ]);
  }
}

/** The buckets with nothing put between two that are far apart, so that no line joins them. */
function parted(buckets: Bucket[], width: number): (Bucket | Nothing)[] {
  return buckets.flatMap((each, i) => {
    const before = buckets[i - 1];
    const isFar = before !== undefined && each.start - before.start > FAR * width;
    return isFar ? [{ start: before.start + width, ...NOTHING }, each] : [each];
  });
}

function priced(price: Exploration | null | undefined): string {
  if (!price) return "The cost is known where a ranker knows the probability of its lists.";
  if (price.lists < FEWEST) return `The cost needs ${FEWEST} lists to be told from chance; there ${price.lists === 1 ? "is" : "are"} ${price.lists}.`;
  const within = `${number(price.cost)} ± ${number(1.96 * price.error)} of it (95 %)`;
  return `Reciprocal rank of the first click. Since the model was made, over ${number(price.lists)} lists, exploration cost ${within}.`;
}

function trailing(buckets: (Bucket | Nothing)[], name: "best" | "shown"): (number | null)[] {
  return buckets.map((at, i) => {
    if (at.exploration === null) return null;
    const known = buckets.slice(Math.max(0, i + 1 - TRAILING), i + 1).flatMap((each) => each.exploration ?? []);
    const lists = known.reduce((sum, each) => sum + each.lists, 0);
    return lists > 0 ? known.reduce((sum, each) => sum + each[name] * each.lists, 0) / lists : null;
  });
}
