/** Why each document stands where it does: scores, certain orders, free sets, and what chance would show. */
import { el, svg } from "../dom";
import { number, percent } from "../format";
import { linear } from "../scale";
import type { Draws, Explained, Place } from "./answers";
import { layered } from "./graph";

const STRIP = { width: 150, height: 18 };
const MOST_FREE = 8;
const WIDE = 900; // pixels for two things side by side
const GAP = 28;

/** The answer as elements, to be shown in so many pixels. */
export function explained(answer: Explained, width: number): HTMLElement[] {
  const half = width >= WIDE ? (width - GAP) / 2 : width;
  return [
    el("p", { class: "row" }, ...facts(answer)),
    el("div", {}, el("h3", {}, "The best estimate, place by place"), places(answer.ranking)),
    el(
      "div",
      { class: width >= WIDE && "halves" },
      answer.draws && el("div", {}, el("h3", {}, `What ${answer.draws.lists} lists would show`), drawn(answer.draws)),
      answer.graph && layered(answer.graph, answer.documents, half),
    ),
  ];
}

function facts(answer: Explained): HTMLElement[] {
  const said = [`version ${answer.version}`];
  if (answer.certain_pairs !== null) said.push(`${percent(answer.certain_pairs)} of the pairs have a certain order`);
  else said.push("this ranker knows no certain orders");
  if (answer.draws) said.push(variety(answer.draws));
  return said.map((text) => el("span", { class: "badge" }, text));
}

function variety(draws: Draws): string {
  return draws.different === 1 ? `the same list in ${draws.lists} draws` : `${draws.different} different lists in ${draws.lists} draws`;
}

function places(ranking: Place[]): HTMLElement {
  const all = ranking.flatMap((each) => each.scores);
  const [least, most] = [Math.min(...all), Math.max(...all)];
  const n = ranking[0]?.scores.length ?? 1;
  const heads = ["Place", "Document", "Score", n === 1 ? "Its ranker's score" : `The ${n} rankers' scores`, "Could have stood here"];
  const rows = ranking.map((each, i) =>
    el(
      "tr",
      {},
      el("td", {}, i + 1),
      el("th", { scope: "row", class: "id" }, each.id),
      el("td", { class: "number" }, number(each.score)),
      el("td", {}, strip(each.scores, least, most)),
      el("td", {}, free(each)),
    ),
  );
  const head = el("tr", {}, ...heads.map((name) => el("th", { scope: "col", class: name === "Score" && "number" }, name)));
  return scrolling("The best estimate, place by place", el("table", { class: "places" }, el("thead", {}, head), el("tbody", {}, ...rows)));
}

function strip(scores: number[], least: number, most: number): SVGElement {
  const x = linear(least, most, 6, STRIP.width - 6);
  const middle = STRIP.height / 2;
  const label = scores.map(number).join(", ");
  const dots = scores.map((score) => svg("circle", { class: "dot", cx: least === most ? STRIP.width / 2 : x(score), cy: middle, r: 4 }));
  const line = svg("line", { class: "rule", x1: 0, x2: STRIP.width, y1: middle, y2: middle });
  return svg("svg", { class: "strip", role: "img", "aria-label": label, width: STRIP.width, height: STRIP.height }, svg("title", {}, label), line, ...dots);
}

function free(each: Place): HTMLElement {
  if (each.free === undefined) return el("span", { class: "muted" }, "–");
  if (each.certain === true) return el("span", { class: "badge certain" }, "certain");
  const more = each.free.length - MOST_FREE;
  const names = each.free.slice(0, MOST_FREE).join(", ") + (more > 0 ? ` and ${more} more` : "");
  return el("span", {}, el("span", { class: "badge explored" }, `${each.free.length} free`), " ", el("span", { class: "id" }, names));
}

function drawn(draws: Draws): HTMLElement {
  const n = draws.documents[0]?.places.length ?? 0;
  const heads = Array.from({ length: n }, (_, i) => el("th", { scope: "col", class: "number" }, i + 1));
  const rows = draws.documents.map((each) =>
    el(
      "tr",
      {},
      el("th", { scope: "row", class: "id" }, each.id),
      ...each.places.map((count) => el("td", { class: `heat heat-${level(count / draws.lists)}` }, count > 0 ? count : "")),
    ),
  );
  const table = el("table", { class: "draws" }, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Document"), ...heads)), el("tbody", {}, ...rows));
  return scrolling(`How often each document stands at each place in ${draws.lists} lists`, table);
}

function level(share: number): number {
  return share === 0 ? 0 : Math.min(5, 1 + Math.floor(share * 5));
}

function scrolling(label: string, table: HTMLElement): HTMLElement {
  return el("div", { class: "scrolls", tabindex: 0, role: "region", "aria-label": label }, table);
}
