/** One live test: its verdict, its course, its arms, comparisons and periods. */
import { LineChart } from "../charts";
import { el, fill, say } from "../dom";
import { clock, counted, day, duration, number, signed } from "../format";
import type { Test } from "./answers";
import { closest, earned, headline, interval, lead, learning, remaining, state, sure, within } from "./words";

const DRAWN = 4; // comparisons: as many colours as there are
const DAY = 86_400_000;

type Head = [string, boolean];
const ARMS: Head[] = [["Arm", false], ["Version", true], ["Lists", true], ["Credit", true], ["A list", true], ["Learns from", false], ["Learned", true]];
const PAIRS: Head[] = [["Arms", false], ["Difference", true], ["Interval", true], ["Sure", true], ["Lists more", true], ["Time more", true], ["State", false]];
const PERIODS: Head[] = [["Period", false], ["From", false], ["Lists", true], ["Leads", false], ["Winner", false]];

/** A table with a title, whose rows are texts; it changes only where they do. */
class Table {
  readonly node: HTMLElement;
  private readonly body = el("tbody");
  private shown = "";

  constructor(title: string, id: string, private readonly heads: Head[]) {
    const head = heads.map(([name, isNumber]) => el("th", { scope: "col", class: isNumber && "number" }, name));
    const table = el("table", {}, el("thead", {}, el("tr", {}, ...head)), this.body);
    const around = el("div", { class: "scrolls", tabindex: 0, role: "region", "aria-labelledby": id }, table);
    this.node = el("div", { class: "card events" }, el("h3", { id }, title), around);
  }

  show(rows: string[][]): void {
    const now = JSON.stringify(rows);
    if (now === this.shown) return;
    this.shown = now;
    fill(this.body, ...rows.map((texts) => el("tr", {}, ...texts.map((text, i) => this.cell(text, i)))));
  }

  private cell(text: string, i: number): HTMLElement {
    const kind = this.heads[i]?.[1] && "number";
    return i === 0 ? el("th", { scope: "row", class: kind }, text) : el("td", { class: kind }, text);
  }
}

/** The numbers that decide, large. */
class Verdict {
  readonly node = el("dl", { class: "tiles" });
  private readonly tiles = ["Verdict", "Lead", "Sure", "Still to go"].map((name) => {
    const tile = { value: el("span", { class: "value" }, "–"), note: el("span", { class: "note" }) };
    this.node.append(el("div", { class: "card tile" }, el("dt", {}, name), el("dd", {}, tile.value, tile.note)));
    return tile;
  });

  show(test: Test): void {
    const confidence = test.lists > 0 ? (closest(test)?.confidence ?? null) : null;
    const rate = test.winner === null && test.status === "running" ? test.lists_per_second : null;
    const texts: [string, string][] = [
      [headline(test), state(test)],
      [lead(test), interval(test)],
      [sure(confidence), "that there is a difference at all"],
      [remaining(test), rate === null ? "" : `at ${number(rate)} lists a second, if the difference stays`],
    ];
    texts.forEach(([value, note], i) => {
      const tile = this.tiles[i];
      if (tile === undefined) return;
      say(tile.value, value);
      say(tile.note, note);
    });
  }
}

export class Standing {
  readonly node = el("section", { class: "over-time standing", "aria-labelledby": "test-title" });
  private readonly title = el("h2", { id: "test-title" });
  private readonly about = el("p", { class: "small muted" });
  private readonly spoken = el("p", { class: "hidden-visually", role: "status" });
  private readonly verdict = new Verdict();
  private readonly arms = new Table("Arms, in this period", "arms-title", ARMS);
  private readonly pairs = new Table("Comparisons", "pairs-title", PAIRS);
  private readonly periods = new Table("Periods", "periods-title", PERIODS);
  private isLong = false; // the series: its times are then written with the day
  private readonly chart = new LineChart({
    title: "What a list earns more with the first arm than with another",
    value: signed,
    x: (at) => (this.isLong ? day(at, true) : clock(at, true)),
    xName: "At",
    height: 280,
    empty: "no list has counted yet",
  });

  constructor(actions: HTMLElement) {
    this.node.append(
      el("div", { class: "row" }, this.title, actions),
      this.about,
      this.spoken,
      this.verdict.node,
      el("div", { class: "card" }, this.chart.node),
      this.arms.node,
      this.pairs.node,
      this.periods.node,
    );
  }

  show(test: Test): void {
    say(this.title, test.test);
    const method = test.spec.method === "split" ? "Each source sees the lists of one arm" : "Lists of all arms are interleaved";
    const left = test.uncounted > 0 ? ` ${counted(test.uncounted, "list")} did not count: shown in your own order, or of arms as they were before a change.` : "";
    say(this.about, `${method}. ${counted(test.lists, "list")} counted in period ${test.period}.${left}`);
    say(this.spoken, test.winner === null ? "" : `${headline(test)}.`);
    this.verdict.show(test);
    this.draw(test);
    this.arms.show(
      test.arms.map((each) => [each.arm, number(each.version), number(each.lists), number(each.credit), earned(test, each), learning(each), number(each.learned)]),
    );
    this.pairs.show(
      test.comparisons.map((each) => [
        `${each.one} over ${each.other}`,
        signed(each.difference),
        within(each.interval),
        sure(each.confidence),
        each.decided ? "–" : number(each.lists_more),
        each.decided ? "–" : duration(each.seconds_more),
        each.decided ? "decided" : "open",
      ]),
    );
    this.periods.show(
      test.periods.map((each) => [number(each.number), each.since === null ? "–" : day(each.since, true), number(each.lists), each.leader ?? "–", each.winner ?? "–"]),
    );
  }

  /** The first arm beside each other one. */
  private draw(test: Test): void {
    const [first, last] = [test.series[0]?.at ?? 0, test.series.at(-1)?.at ?? 0];
    this.isLong = last - first > DAY;
    const shown = test.comparisons.map((each, i) => ({ ...each, i })).filter((each) => each.one === test.spec.arms[0]).slice(0, DRAWN);
    this.chart.draw(
      test.series.map((each) => each.at),
      [
        ...shown.map(({ one, other, i }) => ({
          name: `${one} over ${other}`,
          values: test.series.map((each) => each.differences[i] ?? null),
          band: test.series.map((each) => each.intervals[i] ?? [null, null] as [null, null]),
        })),
        ...shown.flatMap(({ other, i }) =>
          ([0, 1] as const).map((end) => ({
            name: `${other}, ${end === 0 ? "low" : "high"}`,
            values: test.series.map((each) => each.intervals[i]?.[end] ?? null),
            onlyInTable: true,
          })),
        ),
        { name: "lists", values: test.series.map((each) => each.lists), onlyInTable: true, value: number },
      ],
    );
  }
}
