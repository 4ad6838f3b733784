/** A search box that learns: results on one side, what is learned on the other. */
import "../page.css";
import "./play.css";
import { Problem, send } from "../api";
import { el, say } from "../dom";
import { number } from "../format";
import { frame } from "../frame";
import { follow } from "../live";
import { controls } from "./controls";
import { panels } from "./panels";
import { show } from "./results";
import type { Clicked, Found, List, Result, State } from "./state";

const EXAMPLES = ["join path components", "shuffle list in place", "absolute value", "parse arguments", "copy a file"];

const { main, connection } = frame("perturank play", [["Play", "/play"], ["Dashboard", "/"], ["API", "/docs"]]);
const input = el("input", { type: "search", id: "query", maxlength: 200, autocomplete: "off", spellcheck: "false" });
const form = el("form", { role: "search", class: "row search" }, input, el("button", { class: "primary" }, "Search"));
const told = el("p", { class: "small told", role: "status" }, "Click a result to say that it is what you were looking for.");
const faults = el("p", { class: "small faults", role: "alert" });
const size = el("p", { class: "small muted" });
const results = el("div", { class: "found", id: "results" });
const beside = panels();
const { node: switches, update: showSwitches } = controls(failed);

let state: State | null = null;
/** The click whose effect is waited for: its query, its document, and the version that it was made on. */
let waiting: { query: string; path: string; version: number } | null = null;
let newest = 0;

main.className = "play";
main.append(
  el(
    "div",
    { class: "searching" },
    el(
      "section",
      { class: "card", "aria-label": "Search" },
      el("label", { for: "query" }, "Search the documentation of Python's standard library"),
      form,
      el("div", { class: "row examples" }, el("span", { class: "small muted" }, "Try"), ...EXAMPLES.map(example)),
      size,
      told,
      faults,
    ),
    beside.effect,
    results,
  ),
  el("aside", { class: "watching", "aria-label": "What is learned" }, beside.numbers, switches, beside.charts, beside.lessons),
);
form.addEventListener("submit", (event) => {
  event.preventDefault();
  waiting = null;
  void search(input.value, null);
});
follow<State>("/play/events", { onData: update, onState: connection });

function example(text: string): HTMLElement {
  const button = el("button", { type: "button", class: "small" }, text);
  button.addEventListener("click", () => {
    input.value = text;
    form.requestSubmit();
  });
  return button;
}

/** Ask for results; only the answer to the newest question is shown. */
async function search(query: string, chosen: string | null): Promise<void> {
  if (query.trim() === "") return;
  const mine = ++newest;
  try {
    const found = await send<Found>("/play/search", { query });
    if (mine !== newest) return;
    const focused = document.activeElement?.closest(".results") !== null && document.activeElement !== document.body;
    show(results, found, state?.beside ?? null, chosen, choose);
    if (chosen === null) say(told, `${number(found.lists[0]?.results.length ?? 0)} results of ${number(found.candidates)} candidates for “${query}”.`);
    else if (focused) focusOn(chosen);
  } catch (error) {
    failed(error);
  }
}

/** Focus a document's title; the first one where exploration has left the document out of the new list. */
function focusOn(path: string): void {
  const title = results.querySelector<HTMLElement>(`[data-path="${CSS.escape(path)}"]`) ?? results.querySelector<HTMLElement>(".title");
  title?.focus();
}

async function choose(found: Found, list: List, result: Result): Promise<void> {
  try {
    const said = await send<Clicked>("/play/click", { search: found.search, model: list.model, path: result.path });
    if (said.status !== "recorded") return say(told, "This list has been learned already; search again.");
    const losers = said.lessons.map(([, loser]) => loser);
    const over = losers.length > 2 ? `${losers.slice(0, 2).join(", ")} and ${losers.length - 2} more` : losers.join(" and ");
    const preferred = losers.length > 0 ? `You preferred ${result.path} over ${over}.` : `You chose ${result.path}.`;
    const isFirst = list === found.lists[0]; // its effect is shown, and waited for
    say(told, `${preferred} ${isFirst ? "Learning …" : "The model beside learns it: search again to see."}`);
    if (isFirst) waiting = { query: found.query, path: result.path, version: said.version };
  } catch (error) {
    failed(error);
  }
}

function update(now: State): void {
  state = now;
  beside.update(now);
  showSwitches(now);
  say(faults, now.faults.join(" · "));
  say(size, `${number(now.documents)} modules, classes, functions and methods`);
  const effect = now.effect;
  if (waiting === null || effect === null || effect.query !== waiting.query || effect.clicked !== waiting.path) return;
  if (effect.versions[1] <= waiting.version) return;
  const { query, path } = waiting;
  waiting = null;
  say(told, `Learned: version ${effect.versions[1]}. The list below is the new one.`);
  void search(query, path);
}

function failed(error: unknown): void {
  say(told, error instanceof Problem ? `${error.message}: ${error.detail}` : "The service does not answer.");
}
