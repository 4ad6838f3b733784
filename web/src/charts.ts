/** Charts as SVG, drawn by hand: a picture for the eye, and the same numbers as a table behind it. */
import { el, fill, svg, type Child } from "./dom";
import { linear, steps } from "./scale";

const ROUND = [1, 2, 5, 10, 15, 30, 60, 120, 240];
const MARGIN = { left: 44, right: 10, top: 8, bottom: 22 };

export interface Series {
  name: string;
  /** One for each x; null: nothing is known there. */
  values: (number | null)[];
  /** Stands in the table and not in the picture. */
  onlyInTable?: boolean;
  /** How its values are written, where not as the chart's. */
  value?: (value: number) => string;
  /** The ends of an interval around each value; null: without end. */
  band?: [number | null, number | null][];
}

export interface Look {
  title: string;
  height?: number;
  /** How a value is written, on the axis and in the table. */
  value: (value: number) => string;
  /** How an x is written. */
  x: (x: number) => string;
  /** What x is, for the table's head. */
  xName: string;
  /** The top of the axis, where it is known beforehand. */
  top?: number;
  /** The axis begins near the least value, so that small differences are seen; else at 0. */
  isClose?: boolean;
  /** What stands there before there is anything to draw. */
  empty?: string;
}

/** What both kinds of chart share: the caption, the legend, the picture, the table, and drawing anew at another width. */
abstract class Chart {
  readonly node: HTMLElement;
  protected xs: number[] = [];
  /** What is drawn. */
  protected series: Series[] = [];
  private tabled: Series[] = [];
  private readonly legend = el("div", { class: "legend", "aria-hidden": "true" });
  private readonly picture = el("div");
  private readonly table = el("div", { class: "scrolls", tabindex: 0 });
  private readonly details: HTMLDetailsElement;
  private width = 0;
  private isDrawn = false;
  private under: number | null = null; // the x under the pointer

  constructor(protected readonly look: Look) {
    this.table.setAttribute("role", "region");
    this.table.setAttribute("aria-label", `${look.title}, as a table`);
    this.details = el("details", {}, el("summary", {}, "As a table"), this.table);
    this.node = el("figure", { class: "chart" }, el("figcaption", {}, look.title), this.legend, this.picture, this.details);
    this.details.addEventListener("toggle", () => this.tabulate());
    new ResizeObserver(() => {
      if (this.picture.clientWidth !== this.width) this.paint();
    }).observe(this.picture);
    this.picture.addEventListener("pointermove", (event) => this.point(event));
    this.picture.addEventListener("pointerleave", () => this.pointed((this.under = null)));
  }

  /** Draw these series over these x. */
  draw(xs: number[], series: Series[]): void {
    [this.xs, this.tabled, this.isDrawn] = [xs, series, true];
    this.series = series.filter((each) => each.onlyInTable !== true);
    this.paint();
    this.tabulate();
  }

  /** Whether the last x has a name in any case, and what the legend says without a pointer is about it. */
  protected abstract readonly namesFromEnd: boolean;
  protected abstract marks(width: number, height: number, y: (value: number) => number): Node[];
  /** Where the x of this number stands. */
  protected abstract place(index: number, width: number): number;

  private paint(): void {
    this.width = this.picture.clientWidth;
    const [width, height] = [this.width || 400, this.look.height ?? 160];
    const known = this.series.flatMap((each) => [...each.values, ...ends(each)]).filter((value) => value !== null);
    const attributes = { role: "img", viewBox: `0 0 ${width} ${height}`, height, "aria-label": this.summary() };
    if (known.length === 0) {
      const text = svg("text", { class: "axis", x: width / 2, y: height / 2, "text-anchor": "middle" });
      fill(text, this.isDrawn ? (this.look.empty ?? "nothing yet") : "asking the service …");
      fill(this.picture, svg("svg", attributes, text));
    } else {
      const [least, most] = [Math.min(...known), Math.max(...known)];
      const ticks = steps(this.look.top ?? most, this.look.isClose === true && least < most ? least : Math.min(0, least));
      const y = linear(ticks[0] ?? 0, ticks.at(-1) ?? 1, height - MARGIN.bottom, MARGIN.top);
      const cursor = svg("line", { class: "cursor", y1: MARGIN.top, y2: height - MARGIN.bottom, visibility: "hidden" });
      fill(
        this.picture,
        svg("svg", attributes, ...this.rules(ticks, y, width), ...this.names(width, height), ...this.marks(width, height, y), cursor),
      );
    }
    this.pointed(this.under !== null && this.under < this.xs.length ? this.under : null);
  }

  private rules(ticks: number[], y: (value: number) => number, width: number): Node[] {
    const isZero = (tick: number) => tick === 0 && (ticks[0] ?? 0) < 0; // both signs are drawn
    return ticks.flatMap((tick) => [
      svg("line", { class: isZero(tick) ? "rule zero" : "rule", x1: MARGIN.left, x2: width - MARGIN.right, y1: y(tick), y2: y(tick) }),
      svg("text", { class: "axis", x: MARGIN.left - 8, y: y(tick) + 4, "text-anchor": "end" }, this.look.value(tick)),
    ]);
  }

  private names(width: number, height: number): Node[] {
    const most = Math.max(2, Math.floor((width - MARGIN.left - MARGIN.right) / this.wide()));
    const every = ROUND.find((each) => each * most >= this.xs.length) ?? Math.ceil(this.xs.length / most);
    const last = this.xs.length - 1;
    const indices = this.namesFromEnd ? this.xs.map((_, i) => last - i) : this.xs.map((_, i) => i);
    const middles: number[] = [];
    return indices.flatMap((i, turn) => {
      if (turn % every !== 0) return [];
      const isCut = this.place(i, width) + this.wide() / 2 > width + 12; // the name would end outside
      const middle = isCut ? width - this.wide() / 2 + 12 : this.place(i, width);
      if (Math.abs(middle - (middles.at(-1) ?? Infinity)) < this.wide()) return []; // points need not be evenly spaced
      middles.push(middle);
      return [svg("text", { class: "axis", x: isCut ? width : middle, y: height - 5, "text-anchor": isCut ? "end" : "middle" }, this.look.x(this.xs[i] ?? 0))];
    });
  }

  /** How much room the name of an x takes. */
  private wide(): number {
    return 24 + 6.5 * Math.max(0, ...[this.xs[0], this.xs.at(-1)].map((x) => (x === undefined ? 0 : this.look.x(x).length)));
  }

  /** What a screen reader says in place of the picture. */
  private summary(): string {
    const last = this.series.map((each) => {
      const value = each.values.findLast((one) => one !== null);
      return value === undefined || value === null ? `${each.name}: nothing yet` : `${each.name}: ${this.look.value(value)}`;
    });
    return `${this.look.title}. At the end, ${last.join("; ") || "nothing yet"}.`;
  }

  private tabulate(): void {
    if (!this.details.open) return;
    const head = el("tr", {}, el("th", { scope: "col" }, this.look.xName));
    head.append(...this.tabled.map((each) => el("th", { scope: "col", class: "number" }, each.name)));
    const rows = this.xs.map((x, i) => {
      const cells = this.tabled.map((each) => el("td", { class: "number" }, this.written(each.values[i], each.value)));
      return el("tr", {}, el("th", { scope: "row" }, this.look.x(x)), ...cells);
    });
    fill(this.table, el("table", {}, el("thead", {}, head), el("tbody", {}, ...rows)));
  }

  private written(value: number | null | undefined, as = this.look.value): string {
    return value === null || value === undefined ? "–" : as(value);
  }

  private point(event: PointerEvent): void {
    const x = event.clientX - this.picture.getBoundingClientRect().left;
    const distances = this.xs.map((_, i) => Math.abs(this.place(i, this.width) - x));
    this.under = distances.length > 0 ? distances.indexOf(Math.min(...distances)) : null;
    this.pointed(this.under);
  }

  /** Show the values at the pointer in the legend; without a pointer, the last ones. */
  private pointed(index: number | null): void {
    const cursor = this.picture.querySelector(".cursor");
    cursor?.setAttribute("visibility", index === null ? "hidden" : "visible");
    if (index !== null) for (const end of ["x1", "x2"]) cursor?.setAttribute(end, String(this.place(index, this.width)));
    const entries: Child[] = this.series.map((each, i) => {
      const last = this.namesFromEnd ? each.values.findLast((one) => one !== null) : undefined;
      const value = index === null ? last : each.values[index];
      const key = el("span", { class: `key series-${i + 1}` });
      return el("span", {}, key, each.name, " ", value !== undefined && el("b", {}, this.written(value)));
    });
    const at = index === null ? undefined : this.xs[index];
    fill(this.legend, ...entries, at !== undefined && el("span", {}, this.look.x(at)));
  }
}

/** Lines over x; an x need not be evenly spaced. */
export class LineChart extends Chart {
  protected readonly namesFromEnd = true;

  protected place(index: number, width: number): number {
    const [first, last] = [this.xs[0] ?? 0, this.xs.at(-1) ?? 1];
    const across = linear(first, last, MARGIN.left + 14, width - MARGIN.right - 14);
    return first === last ? (MARGIN.left + width - MARGIN.right) / 2 : across(this.xs[index] ?? 0);
  }

  protected marks(width: number, height: number, y: (value: number) => number): Node[] {
    const bands = this.series.flatMap((each, i) => (each.band === undefined ? [] : [this.band(each.band, `series-${i + 1}`, width, height, y)]));
    return [...bands, ...this.series.flatMap((each, i) => this.trace(each, `series-${i + 1}`, width, height, y))];
  }

  /** The interval around a line; the first ones are far too wide for the picture, and cut at its ends. */
  private band(ends: [number | null, number | null][], kind: string, width: number, height: number, y: (value: number) => number): Node {
    const [top, bottom] = [MARGIN.top, height - MARGIN.bottom];
    const at = (i: number, value: number | null, end: number) =>
      `${this.place(i, width).toFixed(1)},${(value === null ? end : Math.min(bottom, Math.max(top, y(value)))).toFixed(1)}`;
    const [lows, highs] = [ends.map(([low], i) => at(i, low, bottom)), ends.map(([, high], i) => at(i, high, top))];
    return svg("polygon", { class: `band ${kind}`, points: [...lows, ...highs.reverse()].join(" ") });
  }

  private trace(each: Series, kind: string, width: number, height: number, y: (value: number) => number): Node[] {
    return stretches(each.values).flatMap((indices): Node[] => {
      const points = indices.map((i) => `${this.place(i, width).toFixed(1)},${y(each.values[i] ?? 0).toFixed(1)}`);
      const [first, last] = [indices[0] ?? 0, indices.at(-1) ?? 0];
      if (first === last) {
        return [svg("circle", { class: `dot ${kind}`, cx: this.place(first, width), cy: y(each.values[first] ?? 0), r: 2.5 })];
      }
      const base = height - MARGIN.bottom;
      const around = `${this.place(first, width)},${base} ${points.join(" ")} ${this.place(last, width)},${base}`;
      const area = this.series.length === 1 && each.band === undefined ? [svg("polygon", { class: `area ${kind}`, points: around })] : [];
      return [...area, svg("polyline", { class: `trace ${kind}`, points: points.join(" ") })];
    });
  }
}

/** Bars side by side, one group for each x. */
export class BarChart extends Chart {
  protected readonly namesFromEnd = false;

  protected place(index: number, width: number): number {
    return MARGIN.left + (index + 0.5) * this.room(width);
  }

  protected marks(width: number, height: number, y: (value: number) => number): Node[] {
    const wide = Math.max(2, Math.min(40, (this.room(width) * 0.7) / this.series.length));
    const base = height - MARGIN.bottom;
    return this.series.flatMap((each, s) =>
      each.values.map((value, i) => {
        const left = this.place(i, width) + (s - this.series.length / 2) * wide;
        const top = y(value ?? 0);
        return svg("rect", {
          class: `bar series-${s + 1}`,
          x: left + 0.5,
          y: top,
          width: wide - 1,
          height: Math.max(0, base - top),
          rx: Math.min(3, wide / 4),
        });
      }),
    );
  }

  private room(width: number): number {
    return (width - MARGIN.left - MARGIN.right) / Math.max(1, this.xs.length);
  }
}

/** What the axis must reach of a series' band: all of the last interval; of earlier ones, half as far from 0 as all else goes. */
function ends(each: Series): (number | null)[] {
  const last = each.band?.at(-1) ?? [];
  if (each.values.every((value) => value === null)) return last;
  const most = Math.max(...[...each.values, ...last].map((value) => Math.abs(value ?? 0))) / 2;
  const cut = (end: number) => Math.min(most, Math.max(-most, end));
  return [...last, ...(each.band ?? []).flatMap(([low, high]) => [cut(low ?? -most), cut(high ?? most)])];
}

/** The runs of neighbouring indices whose values are known. */
function stretches(values: (number | null)[]): number[][] {
  const found: number[][] = [];
  values.forEach((value, i) => {
    if (value === null) return;
    if (i > 0 && values[i - 1] !== null && found.length > 0) found.at(-1)?.push(i);
    else found.push([i]);
  });
  return found;
}
