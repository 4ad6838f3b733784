/** What stands beside the results, live: how well it goes, what was learned last, and what a click has done. */
import { LineChart } from "../charts";
import { el, fill } from "../dom";
import { number, percent } from "../format";
import type { Curve, Effect, State } from "./state";

const WHO: Record<string, string> = { you: "You" };

export interface Panels {
  numbers: HTMLElement;
  effect: HTMLElement;
  lessons: HTMLElement;
  charts: HTMLElement;
  update: (state: State) => void;
}

/** The panels, and a function that shows the state in them. */
export function panels(): Panels {
  const numbers = el("section", { class: "card tiles", "aria-label": "Numbers" });
  const effect = el("section", { class: "card effect", "aria-labelledby": "effect-title" });
  const lessons = el("section", { class: "card", "aria-labelledby": "lessons-title" });
  const [ranks, charts] = curves();
  let last = "";
  const update = (state: State): void => {
    fill(numbers, ...tiles(state));
    fill(lessons, el("h2", { id: "lessons-title" }, "Last lessons"), lessonList(state));
    const now = JSON.stringify(state.effect);
    if (now !== last) fill(effect, el("h2", { id: "effect-title" }, "What your last click did"), ...effectOf(state.effect));
    last = now;
    ranks(state);
  };
  return { numbers, effect, lessons, charts, update };
}

function tiles(state: State): HTMLElement[] {
  const of = (share: number | null) => percent(share);
  return [
    tile("Version", number(state.version), "version"),
    tile("Known items searched", number(state.outcome.searches)),
    tile("Wanted document at place 1", of(state.success.learned)),
    tile("by BM25", of(state.success.bm25)),
    ...(state.beside === null ? [] : [tile(`by ${state.beside}`, of(state.success.beside))]),
  ];
}

function tile(name: string, value: string, id?: string): HTMLElement {
  return el("div", { class: "tile" }, el("span", { class: "small muted" }, name), el("b", { id }, value));
}

function lessonList(state: State): HTMLElement {
  if (state.lessons.length === 0) return el("p", { class: "small muted" }, "Nothing yet: click a result.");
  const items = state.lessons.map((each) =>
    el(
      "li",
      { class: "small" },
      WHO[each.who] ?? `A ${each.who} user`,
      " preferred ",
      el("b", {}, each.winner),
      " over ",
      el("span", {}, each.loser),
      el("span", { class: "muted" }, ` for “${each.query}”`),
    ),
  );
  return el("ul", { class: "lessons" }, ...items);
}

function effectOf(effect: Effect | null): HTMLElement[] {
  if (effect === null) return [el("p", { class: "small muted" }, "Search, and click what you were looking for.")];
  const [before, after] = effect.places;
  const moved = el(
    "p",
    { class: "moved" },
    el("b", {}, effect.clicked),
    ` for “${effect.query}”: `,
    el("b", { class: "mono" }, `${place(before)} → ${place(after)}`),
  );
  const more = [
    el("p", { class: "small muted" }, `version ${effect.versions[0]} → ${effect.versions[1]}`),
    effect.lead !== null && effect.over !== null && el("p", { class: "small" }, `Its lead over ${effect.over}: ${signed(effect.lead[0])} → ${signed(effect.lead[1])}`),
    effect.uncertain[0] !== null && el("p", { class: "small" }, `Pairs without a certain order: ${percent(effect.uncertain[0])} → ${percent(effect.uncertain[1])}`),
  ].filter((each) => each !== false);
  return [moved, ...more, twoLists(effect)];
}

function twoLists(effect: Effect): HTMLElement {
  const [before, after] = effect.lists;
  const rows = after.map((path, i) => {
    const was = before.indexOf(path) + 1;
    const by = was === 0 ? "new" : was === i + 1 ? "" : `was ${was}`;
    const mine = path === effect.clicked && "chosen";
    return el("tr", { class: mine }, el("td", { class: "number" }, i + 1), el("td", { class: "mono" }, path), el("td", { class: "muted" }, by));
  });
  return el("details", {}, el("summary", {}, "The list without exploration, now"), el("table", { class: "small" }, el("tbody", {}, ...rows)));
}

function place(at: number | null): string {
  return at === null ? "below 10" : `place ${at}`;
}

function signed(value: number | null): string {
  return value === null ? "–" : `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}`;
}

function curves(): [(state: State) => void, HTMLElement] {
  const x = { x: (n: number) => number(n), xName: "searches" };
  const crowd = "switch on simulated users";
  const click = "click a result";
  const ranks = new LineChart({ title: "Reciprocal rank of the wanted document, over the last 200 searches", value: number, top: 1, height: 190, empty: `${crowd}: they know what they want`, ...x });
  const places = new LineChart({ title: "Mean clicked place", value: number, height: 130, empty: click, ...x });
  const clicked = new LineChart({ title: "Reciprocal rank of the first click", value: number, top: 1, height: 130, empty: click, ...x });
  const share = (value: number) => `${Math.round(100 * value)} %`;
  const uncertain = new LineChart({ title: "Pairs without a certain order", value: share, height: 130, empty: `${click}, or ${crowd}`, ...x });
  const small = el("div", { class: "grid small-charts" }, places.node, clicked.node);
  const node = el("section", { class: "card charts", "aria-label": "Curves" }, ranks.node, uncertain.node, small);
  const update = (state: State): void => {
    const { learned, bm25, beside } = state.curves;
    const series: [string, Curve][] = [
      ["learning", learned],
      ["BM25's order", bm25],
    ];
    if (beside.some((value) => value !== null)) series.push([state.beside ?? "beside", beside]);
    drawKnown(ranks, state.searches, series);
    drawKnown(places, state.searches, [["place", state.curves["clicked place"]]]);
    drawKnown(clicked, state.searches, [["first click", state.curves["reciprocal clicked place"]]]);
    drawKnown(uncertain, state.searches, [["share", state.curves.uncertain]]);
  };
  return [update, node];
}

/** Draw the points at which the first series is known: between two searches that say something there is a line. */
function drawKnown(chart: LineChart, xs: number[], series: [string, Curve][]): void {
  const known = xs.flatMap((_, i) => ((series[0]?.[1][i] ?? null) === null ? [] : [i]));
  const at = <T>(all: T[]): T[] => known.flatMap((i) => all.slice(i, i + 1));
  chart.draw(at(xs), series.map(([name, values]) => ({ name, values: at(values) })));
}
