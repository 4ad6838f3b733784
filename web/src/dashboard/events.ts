/** What people did with the documents of one model: its actions, how often each came, and what it was worth in money. */
import { el, fill } from "../dom";
import { number } from "../format";
import type { Chosen } from "./answers";

const HEADS: [string, boolean][] = [
  ["Action", false],
  ["Events", true],
  ["Of 100 lists", true],
  ["Sum of values", true],
];
const NONE = "no events yet";

export class Events {
  readonly node: HTMLElement;
  private readonly body = el("tbody");
  private shown = "";

  constructor() {
    const heads = HEADS.map(([name, isNumber]) => el("th", { scope: "col", class: isNumber && "number" }, name));
    const table = el("table", {}, el("thead", {}, el("tr", {}, ...heads)), this.body);
    const title = el("h3", { id: "events-title" }, "Events, since the model was made");
    this.node = el("div", { class: "card events" }, title, el("div", { class: "scrolls", tabindex: 0, role: "region", "aria-labelledby": "events-title" }, table));
  }

  show(model: Chosen | null): void {
    const lists = Object.values(model?.total.lists ?? {}).reduce((sum, n) => sum + n, 0);
    const events = Object.entries(model?.total.events ?? {}).sort(([, one], [, other]) => other - one);
    const rows = events.map(([action, n]) => [action, number(n), lists > 0 ? number((100 * n) / lists) : "–", number(model?.total.values[action])]);
    const now = JSON.stringify(rows);
    if (now === this.shown) return;
    this.shown = now;
    const none = el("tr", {}, el("td", { colspan: HEADS.length, class: "muted" }, NONE));
    fill(this.body, ...(rows.length > 0 ? rows.map(row) : [none]));
  }
}

function row([action, ...numbers]: string[]): HTMLElement {
  return el("tr", {}, el("th", { scope: "row" }, action), ...numbers.map((text) => el("td", { class: "number" }, text)));
}
