/** The models and their versions; one of them is looked at. */
import { el, fill, say } from "../dom";
import { duration, number, percent } from "../format";
import type { Model } from "./answers";
import { Versions } from "./versions";

const HEADS: [string, boolean][] = [
  ["Model", false],
  ["Ranker", false],
  ["Version", true],
  ["Newest came", true],
  ["Learned", true],
  ["Lists", true],
  ["Clicks", true],
  ["Certain places", true],
  ["Lag", true],
];
const NONE = "There is no model yet: the first list that is asked for makes one, or PUT /v1/models/NAME does.";

interface Row {
  node: HTMLElement;
  button: HTMLElement;
  cells: HTMLElement[];
}

export class Models {
  readonly node: HTMLElement;
  private readonly body = el("tbody");
  private readonly versions = new Versions();
  private rows = new Map<string, Row>();
  private names = ""; // of the rows
  private chosen: string | null = null;

  constructor(private readonly onChoice: () => void) {
    const heads = HEADS.map(([name, isNumber]) => el("th", { scope: "col", class: isNumber && "number" }, name));
    const table = el("table", { class: "models" }, el("thead", {}, el("tr", {}, ...heads)), this.body);
    this.node = el(
      "section",
      { class: "card", "aria-labelledby": "models-title" },
      el("h2", { id: "models-title" }, "Models and versions"),
      el("p", { class: "small muted" }, "Counts and shares are of everything since the model was made."),
      el("div", { class: "scrolls", tabindex: 0, role: "region", "aria-labelledby": "models-title" }, table),
      this.versions.node,
    );
  }

  /** The model that is looked at: the one chosen, or the first. */
  current(models: Model[]): Model | undefined {
    return models.find((each) => each.model === this.chosen) ?? models[0];
  }

  /** Show them; rows stay as they are while the models do, so that clicks and the focus are not lost. */
  show(models: Model[], now: number): void {
    const names = JSON.stringify(models.map((each) => each.model));
    if (names !== this.names) this.build(models);
    this.names = names;
    const current = this.current(models);
    for (const each of models) this.tell(each, each === current, now);
    this.versions.show(current);
  }

  private build(models: Model[]): void {
    this.rows = new Map(models.map((each) => [each.model, this.row(each.model)]));
    const none = el("tr", {}, el("td", { colspan: HEADS.length, class: "muted" }, NONE));
    fill(this.body, ...(models.length > 0 ? [...this.rows.values()].map((row) => row.node) : [none]));
  }

  private row(model: string): Row {
    const button = el("button", { class: "link" }, model);
    button.addEventListener("click", () => {
      this.chosen = model;
      this.onChoice();
    });
    const cells = HEADS.slice(1).map(([, isNumber]) => el("td", { class: isNumber && "number" }));
    return { node: el("tr", {}, el("th", { scope: "row" }, button), ...cells), button, cells };
  }

  private tell(each: Model, isCurrent: boolean, now: number): void {
    const row = this.rows.get(each.model);
    const lists = each.total.lists.learn + each.total.lists.exploit + each.total.lists.shadow + each.total.lists.own;
    const counts = [number(each.learned), number(lists), number(each.total.clicks)];
    const texts = [each.ranker, served(each, now), age(each.newest_at, now), ...counts, percent(each.total.certain_places), duration(each.lag)];
    row?.node.classList.toggle("chosen", isCurrent);
    row?.button.setAttribute("aria-pressed", String(isCurrent));
    row?.cells.forEach((cell, i) => say(cell, texts[i] ?? ""));
  }
}

/** The version that is served; beside a pinned one the newest, which else is served a moment after it came. */
function served(each: Model, now: number): string {
  if (each.pinned === null) return String(each.version);
  const pinned = `${each.version} pinned`;
  return each.version === each.newest ? pinned : `${pinned} (${age(each.published_at, now)}), newest ${each.newest}`;
}

function age(at: number | null, now: number): string {
  return at === null ? "–" : `${duration(Math.max(1, Math.round((now - at) / 1000)))} ago`;
}
