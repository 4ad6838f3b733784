/** The models and their versions; one of them is looked at. */
import { el, fill } from "../dom";
import { duration, number, percent } from "../format";
import type { Model } from "./answers";

const HEADS: [string, boolean][] = [
  ["Model", false],
  ["Ranker", false],
  ["Version", true],
  ["Learned", true],
  ["Newest", true],
  ["Lists", true],
  ["Clicks", true],
  ["Certain places", true],
  ["Lag", true],
];

export class Models {
  readonly node: HTMLElement;
  private readonly body = el("tbody");
  private chosen: string | null = null;

  constructor(private readonly onChoice: (model: string) => void) {
    const heads = HEADS.map(([name, isNumber]) => el("th", { scope: "col", class: isNumber && "number" }, name));
    const table = el("table", { class: "models" }, el("thead", {}, el("tr", {}, ...heads)), this.body);
    this.node = el(
      "section",
      { class: "card", "aria-labelledby": "models-title" },
      el("h2", { id: "models-title" }, "Models and versions"),
      el("div", { class: "scrolls", tabindex: 0, role: "region", "aria-labelledby": "models-title" }, table),
    );
  }

  /** The model that is looked at: the one chosen, or the first. */
  current(models: Model[]): Model | undefined {
    return models.find((each) => each.model === this.chosen) ?? models[0];
  }

  show(models: Model[], now: number): void {
    const focused = document.activeElement instanceof HTMLElement ? document.activeElement.dataset["model"] : undefined;
    const current = this.current(models);
    fill(this.body, ...models.map((each) => this.row(each, each === current, now)));
    if (models.length === 0) {
      const text = "There is no model yet: the first list that is asked for makes one, or PUT /v1/models/NAME does.";
      fill(this.body, el("tr", {}, el("td", { colspan: HEADS.length, class: "muted" }, text)));
    }
    if (focused !== undefined) this.button(focused)?.focus();
  }

  private button(model: string): HTMLButtonElement | undefined {
    return [...this.body.querySelectorAll("button")].find((each) => each.dataset["model"] === model);
  }

  private row(each: Model, isCurrent: boolean, now: number): HTMLElement {
    const button = el("button", { class: "link", "aria-pressed": isCurrent ? "true" : "false" }, each.model);
    button.dataset["model"] = each.model;
    button.addEventListener("click", () => {
      this.chosen = each.model;
      this.onChoice(each.model);
    });
    const age = each.published_at === null ? "–" : `${duration(Math.max(1, Math.round((now - each.published_at) / 1000)))} ago`;
    const lists = each.total.lists.learn + each.total.lists.exploit + each.total.lists.shadow;
    const cells = [number(each.learned), age, number(lists), number(each.total.clicks), percent(each.total.certain_places), duration(each.lag)];
    return el(
      "tr",
      { class: isCurrent && "chosen" },
      el("th", { scope: "row" }, button),
      el("td", {}, each.ranker),
      el("td", { class: "number" }, each.version, each.pinned !== null && el("span", { class: "badge explored" }, "pinned")),
      ...cells.map((text) => el("td", { class: "number" }, text)),
    );
  }
}
