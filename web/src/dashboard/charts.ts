/** What one model and the traffic look like over time. */
import { BarChart, LineChart } from "../charts";
import { el } from "../dom";
import { clock, day, duration, number, percent } from "../format";
import type { Bucket, Moment } from "./answers";
import { Events } from "./events";
import { parted } from "./history";

export class Charts {
  readonly node = el("div", { class: "grid" });
  private seconds = 60; // of a bucket
  private readonly events = new Events();
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

  constructor() {
    const card = (chart: LineChart | BarChart) => el("div", { class: "card" }, chart.node);
    this.node.append(card(this.traffic), card(this.clicks), this.events.node, ...[this.certain, this.lag, this.updates].map(card));
  }

  private when(at: number): string {
    return this.seconds < 3600 ? clock(at) : day(at, true);
  }

  /** Draw what changes every second. */
  showMoment(moment: Moment): void {
    const { rank, feedback } = moment.traffic;
    const seconds = rank.per_second.map((_, i) => i + 1 - rank.per_second.length);
    this.traffic.draw(seconds, [
      { name: "lists", values: rank.per_second },
      { name: "feedback", values: feedback.per_second },
    ]);
    const places = moment.chosen?.by_place ?? [];
    this.clicks.draw(
      places.map((each) => each.place),
      [
        { name: "clicks of those shown", values: places.map((each) => (each.shown > 0 ? each.clicks / each.shown : null)) },
        { name: "clicks", values: places.map((each) => each.clicks), onlyInTable: true, value: number },
        { name: "shown", values: places.map((each) => each.shown), onlyInTable: true, value: number },
      ],
    );
    this.events.show(moment.chosen);
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
  }
}
