/** The last versions of the model that is looked at, where the reader has opened them. */
import { json } from "../api";
import { el, fill, say } from "../dom";
import { clock, day, number } from "../format";
import type { Model, Version, VersionList } from "./answers";

const LISTED = 20;
const HEADS: [string, boolean][] = [
  ["Version", true],
  ["Came", false],
  ["Learned", true],
  ["", false],
];
const DAY = 86_400_000;

export class Versions {
  readonly node: HTMLDetailsElement;
  private readonly title = el("summary", {}, "Versions");
  private readonly body = el("tbody");
  private model: Model | null = null;
  private listed = ""; // what the list was asked for
  private isAsking = false;

  constructor() {
    const heads = HEADS.map(([name, isNumber]) => el("th", { scope: "col", class: isNumber && "number" }, name || el("span", { class: "hidden-visually" }, "State")));
    const table = el("table", {}, el("thead", {}, el("tr", {}, ...heads)), this.body);
    const around = el("div", { class: "scrolls", tabindex: 0, role: "region", "aria-label": `The last ${LISTED} versions` }, table);
    this.node = el("details", { class: "versions" }, this.title, around);
    this.node.addEventListener("toggle", () => this.show(this.model));
  }

  /** Keep to this model; its versions are asked for when they are others than those listed. */
  show(model: Model | null): void {
    this.model = model;
    this.node.hidden = model === null || model.newest === 0;
    if (model === null) return;
    say(this.title, `The last ${LISTED} versions of ${model.model}`);
    const wanted = JSON.stringify([model.model, model.newest, model.version, model.pinned]);
    if (this.node.open && !this.isAsking && wanted !== this.listed) void this.load(model.model, wanted);
  }

  private async load(model: string, wanted: string): Promise<void> {
    this.isAsking = true;
    try {
      const answer = await json<VersionList>(`/v1/models/${encodeURIComponent(model)}/versions?limit=${LISTED}`);
      if (this.model?.model === model) fill(this.body, ...answer.versions.map((each) => row(each, answer)));
      this.listed = wanted;
    } catch {
      this.listed = ""; // the next moment asks again
    } finally {
      this.isAsking = false;
    }
  }
}

function row(each: Version, all: VersionList): HTMLElement {
  const when = Date.now() - each.at > DAY ? day(each.at, true) : clock(each.at, true);
  return el(
    "tr",
    {},
    el("th", { scope: "row", class: "number" }, number(each.version)),
    el("td", {}, when),
    el("td", { class: "number" }, number(each.learned)),
    el(
      "td",
      {},
      each.version === all.served && el("span", { class: "badge certain" }, "served"),
      each.version === all.pinned && el("span", { class: "badge explored" }, "pinned"),
      each.stored && el("span", { class: "badge" }, "stored"),
    ),
  );
}
