import "../page.css";
import "../dashboard/dashboard.css";
import "./tests.css";
import { json, Problem } from "../api";
import { el, fill } from "../dom";
import { number } from "../format";
import { frame } from "../frame";
import { Actions } from "./actions";
import type { Test } from "./answers";
import { Standing } from "./standing";
import { closest, headline, lead, remaining, sure } from "./words";

const EVERY = 3000; // milliseconds
const HEADS: [string, boolean][] = [["Test", false], ["State", false], ["Verdict", false], ["Lead", false], ["Sure", true], ["Lists", true], ["Still to go", false]];
const NONE = "There is no live test yet: PUT /v1/tests/NAME begins one.";

const page = frame("perturank", [["Dashboard", "/"], ["Live tests", "/tests"], ["API", "/docs"]]);
const none = el("p", { class: "card muted", hidden: true }, NONE);
const body = el("tbody");
const actions = new Actions(() => void look());
const standing = new Standing(actions.node);
const heads = HEADS.map(([name, isNumber]) => el("th", { scope: "col", class: isNumber && "number" }, name));
const table = el("table", { class: "models" }, el("thead", {}, el("tr", {}, ...heads)), body);
const all = el(
  "section",
  { class: "card", "aria-labelledby": "tests-title" },
  el("h2", { id: "tests-title" }, "Live tests"),
  el("div", { class: "scrolls", tabindex: 0, role: "region", "aria-labelledby": "tests-title" }, table),
);
let chosen = new URLSearchParams(location.search).get("test");
let shown = "";

page.main.append(none, all, actions.done, standing.node);
standing.node.hidden = true;

/** The chosen test, or the first that runs. */
function picked(tests: Test[]): Test | null {
  return tests.find((each) => each.test === chosen) ?? tests.find((each) => each.status === "running") ?? tests[0] ?? null;
}

function show(tests: Test[]): void {
  const test = picked(tests);
  none.hidden = tests.length > 0;
  all.hidden = tests.length === 0;
  standing.node.hidden = test === null;
  list(tests, test);
  if (test === null) return;
  actions.show(test);
  standing.show(test);
}

function list(tests: Test[], current: Test | null): void {
  const rows = tests.map((each) => {
    const confidence = each.lists > 0 ? (closest(each)?.confidence ?? null) : null;
    return [each.test, each.status, headline(each), lead(each), sure(confidence), number(each.lists), remaining(each)];
  });
  const now = JSON.stringify([rows, current?.test]);
  if (now === shown) return;
  const focused = document.activeElement?.closest("tbody") === body ? document.activeElement.textContent : null;
  shown = now;
  fill(body, ...rows.map(([name = "", ...texts]) => row(name, texts, name === current?.test)));
  if (focused !== null) [...body.querySelectorAll("button")].find((each) => each.textContent === focused)?.focus();
}

function row(name: string, texts: string[], isCurrent: boolean): HTMLElement {
  const button = el("button", { class: "link", "aria-pressed": String(isCurrent) }, name);
  button.addEventListener("click", () => {
    chosen = name;
    history.replaceState(null, "", `?test=${encodeURIComponent(name)}`);
    void look();
  });
  const cells = texts.map((text, i) => el("td", { class: HEADS[i + 1]?.[1] && "number" }, text));
  return el("tr", { class: isCurrent && "chosen" }, el("th", { scope: "row" }, button), ...cells);
}

/** Ask the service once. */
async function look(): Promise<void> {
  try {
    const { tests } = await json<{ tests: Test[] }>("/v1/tests");
    page.connection(null);
    show(tests);
  } catch (error) {
    page.connection(error instanceof Problem ? error.message : "the service does not answer");
  }
}

/** Go on asking while somebody looks. */
async function watch(): Promise<void> {
  for (;;) {
    if (!document.hidden) await look();
    await new Promise((resolve) => setTimeout(resolve, EVERY));
  }
}

void watch();
