/** What lists in shadow mode say of the ranker, for whoever has not switched it on. */
import { LineChart } from "../charts";
import { el, say } from "../dom";
import { clock, counted, day, number, percent, signed } from "../format";
import type { Bucket, Chosen, Shadow } from "./answers";
import { parted, type Gap } from "./history";

const VERDICTS = {
  better: "Your visitors would have found what they clicked sooner. Switch it on for a share of the searches, or begin a live test.",
  worse: "Your visitors would have found what they clicked later. Let it learn on, and look at its features.",
  open: "The clicks do not say yet which order is better. A live test does.",
};
const ASSUMES =
  "Of the documents that your visitors saw, in the ranker's order. It assumes that lower places are read no more often than the first, and that your order is no worse than chance.";

export class ShadowCharts {
  readonly node = el("section", { class: "over-time shadow", "aria-labelledby": "shadow", hidden: true });
  private seconds = 60; // of a bucket
  private readonly title = el("h2", { id: "shadow" }, "Shadow mode");
  private readonly value = el("strong", { class: "value" });
  private readonly verdict = el("p", { class: "small" });
  private readonly basis = el("p", { class: "small muted" });
  private readonly gain = this.chart("Gain in the reciprocal rank of the first click", signed);
  private readonly agreement = this.chart("Agreement with your order", percent, 1);

  constructor() {
    const told = el("div", { class: "gain" }, el("h3", {}, "Would the ranker do better?"), this.value, this.verdict, this.basis, el("p", { class: "small muted" }, ASSUMES));
    const cards = [this.gain.node, this.agreement.node, told].map((inside) => el("div", { class: "card" }, inside));
    this.node.append(this.title, el("div", { class: "grid quality" }, ...cards));
  }

  private chart(title: string, value: (value: number) => string, top?: number): LineChart {
    const look = { title, value, x: (at: number) => this.when(at), xName: "Up to", height: 200, empty: "no lists in shadow mode yet" };
    return new LineChart(top === undefined ? look : { ...look, top });
  }

  private when(at: number): string {
    return this.seconds < 3600 ? clock(at) : day(at, true);
  }

  /** Say what is known of a model now; the part is there where it has lists in shadow mode. */
  showModel(model: Chosen | null): void {
    const known = model?.total.shadow ?? null;
    this.node.hidden = known === null;
    if (known === null || model === null) return;
    say(this.title, `Shadow mode: ${model.model}`);
    say(this.value, `${signed(known.least)} to ${signed(known.most)}`);
    say(this.verdict, VERDICTS[known.verdict]);
    const within = `With 95 %, whenever you look: ${signed(known.low)} to ${signed(known.high)}, from ${counted(known.lists, "search", "es")}.`;
    say(this.basis, `${within} ${percent(1 - known.overlap)} of the ranker's documents were on no visitor's page, and are not judged.`);
  }

  /** Draw what changes every minute, or every hour. */
  showHistory(past: Bucket[], seconds: number): void {
    this.seconds = seconds;
    const buckets = parted(past, 1000 * seconds).filter((each) => each.shadow !== null);
    const xs = buckets.map((each) => each.start + 1000 * seconds);
    const of = (name: keyof Omit<Shadow, "verdict">) => buckets.map((each: Bucket | Gap) => each.shadow?.[name] ?? null);
    this.gain.draw(xs, [
      { name: "at least", values: of("least"), band: buckets.map((each) => [each.shadow?.low ?? null, each.shadow?.high ?? null]) },
      { name: "at most", values: of("most") },
      { name: "low (95 %)", values: of("low"), onlyInTable: true },
      { name: "high (95 %)", values: of("high"), onlyInTable: true },
      { name: "searches", values: of("lists"), onlyInTable: true, value: number },
    ]);
    this.agreement.draw(xs, [
      { name: "documents in both lists", values: of("overlap") },
      { name: "rank-biased overlap", values: of("agreement") },
    ]);
  }
}
