/** The results of a search, as one list a model: every title is a button that teaches. */
import { el, fill, type Child } from "../dom";
import { number } from "../format";
import type { Found, List, Marked, Result } from "./state";

export type Choose = (found: Found, list: List, result: Result) => void;

/** Show the lists; `chosen` is the document that was clicked before. */
export function show(place: HTMLElement, found: Found, beside: string | null, chosen: string | null, choose: Choose): void {
  const lists = found.lists.map((list, i) => {
    const name = i === 0 ? "Learning" : (beside ?? "Beside");
    const items = list.results.map((result, at) => item(result, at + 1, result.path === chosen, () => choose(found, list, result)));
    return el(
      "section",
      { class: "list", "aria-label": `${name}: results` },
      el("h2", { class: "row" }, name, el("span", { class: "badge" }, `version ${number(list.version)}`)),
      el("ol", { class: "results" }, ...items),
    );
  });
  const none = el("p", { class: "card muted" }, "Nothing in the library has any of these words.");
  fill(place, ...(lists.length > 0 ? [legend(), el("div", { class: "lists" }, ...lists)] : [none]));
}

/** What the marks mean. */
function legend(): HTMLElement {
  return el("p", { class: "small muted legend-line" }, certainty(true), " all rankers agree on what stands here; ", certainty(false), " they do not: others could have stood here");
}

function item(result: Result, place: number, chosen: boolean, choose: () => void): HTMLElement {
  const title = el("button", { type: "button", class: "title", "data-path": result.path }, ...marked(result.title));
  title.addEventListener("click", choose);
  return el(
    "li",
    { class: chosen ? "result chosen" : "result" },
    el("span", { class: "place", "aria-hidden": "true" }, place),
    el(
      "div",
      {},
      el("div", { class: "row head" }, title, certainty(result.certain), moved(result.bm25, place), chosen && el("span", { class: "badge" }, "your choice")),
      el("div", { class: "mono small muted signature" }, result.kind, result.signature && ` ${result.signature}`),
      el("p", { class: "small" }, ...marked(result.lines)),
    ),
  );
}

function certainty(certain: boolean): HTMLElement {
  return el("span", { class: certain ? "badge certain" : "badge explored" }, certain ? "certain" : "explored");
}

/** How far from BM25's own place. */
function moved(bm25: number, place: number): Child {
  const by = bm25 - place;
  if (by === 0) return el("span", { class: "small muted" }, "as BM25");
  return el("span", { class: "small muted" }, `${by > 0 ? "↑" : "↓"} ${Math.abs(by)} from BM25`);
}

/** Text in parts; those that match are marked. */
export function marked(parts: Marked): Child[] {
  return parts.map(([text, matches]) => (matches ? el("mark", {}, text) : text));
}
