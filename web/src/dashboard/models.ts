/** The models, a page of them at a time, and the versions of the one that is looked at. */
import { el, fill, say } from "../dom";
import { counted, duration, number, percent } from "../format";
import type { Model, Moment, Pages } from "./answers";
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
  ["Reciprocal rank", true],
];
const NONE = "There is no model yet: the first list that is asked for makes one, or PUT /v1/models/NAME does.";
const NONE_FOUND = "No model has such a name.";
const PAUSE = 200; // milliseconds after the last letter of the filter
const ANEW_SINCE = 30 * 86_400_000; // milliseconds for which a row says that its model has begun anew

/** What the service is asked for. */
export interface View {
  filter: string;
  page: number;
  model: string | null;
}

interface Row {
  node: HTMLElement;
  button: HTMLElement;
  anew: HTMLElement;
  cells: HTMLElement[];
}

export class Models {
  readonly node: HTMLElement;
  readonly view: View = { filter: "", page: 1, model: new URLSearchParams(location.search).get("model") };
  private readonly body = el("tbody");
  private readonly versions = new Versions();
  private readonly filter = el("input", { type: "search", id: "filter", autocomplete: "off", spellcheck: "false" });
  private readonly before = el("button", { type: "button" }, "Previous");
  private readonly after = el("button", { type: "button" }, "Next");
  private readonly at = el("span", { class: "small muted", role: "status" });
  private readonly tools: HTMLElement;
  private rows = new Map<string, Row>();
  private names: string | null = null; // of the rows
  private timer = 0;

  constructor(private readonly onView: () => void) {
    const heads = HEADS.map(([name, isNumber]) => el("th", { scope: "col", class: isNumber && "number" }, name));
    const table = el("table", { class: "models" }, el("thead", {}, el("tr", {}, ...heads)), this.body);
    this.tools = el("div", { class: "row tools", hidden: true }, el("label", { for: "filter" }, "Filter by name"), this.filter, this.at, this.before, this.after);
    this.filter.addEventListener("input", () => {
      window.clearTimeout(this.timer);
      this.timer = window.setTimeout(() => this.look({ filter: this.filter.value.trim(), page: 1 }), PAUSE);
    });
    for (const [button, step] of [[this.before, -1], [this.after, 1]] as const) {
      button.addEventListener("click", () => button.getAttribute("aria-disabled") === "true" || this.look({ page: this.view.page + step }));
    }
    this.node = el(
      "section",
      { class: "card", "aria-labelledby": "models-title" },
      el("h2", { id: "models-title", tabindex: -1 }, "Models and versions"),
      el("p", { class: "small muted" }, "Counts and shares are of everything since the model was made."),
      this.tools,
      el("div", { class: "scrolls", tabindex: 0, role: "region", "aria-labelledby": "models-title" }, table),
      this.versions.node,
    );
  }

  private look(view: Partial<View>): void {
    Object.assign(this.view, view);
    this.onView();
  }

  /** Show them; rows stay as they are while the models do, so that clicks and the focus are not lost. */
  show(moment: Moment): void {
    const { models, pages, chosen } = moment;
    const names = JSON.stringify(models.map((each) => each.model));
    if (names !== this.names) this.build(models, pages);
    this.names = names;
    this.turn(pages);
    for (const each of models) this.tell(each, each.model === chosen?.model, moment.at);
    this.versions.show(chosen);
  }

  /** Say which page it is; a button that leads nowhere stays where it is, since it may have the focus. */
  private turn(pages: Pages): void {
    this.view.page = pages.page;
    this.tools.hidden = pages.models === pages.found && pages.of === 1 && this.view.filter === "";
    const found = this.view.filter === "" ? counted(pages.models, "model") : `${number(pages.found)} of ${counted(pages.models, "model")}`;
    say(this.at, `${found}, page ${pages.page} of ${pages.of}`);
    this.before.setAttribute("aria-disabled", String(pages.page <= 1));
    this.after.setAttribute("aria-disabled", String(pages.page >= pages.of));
  }

  private build(models: Model[], pages: Pages): void {
    this.rows = new Map(models.map((each) => [each.model, this.row(each.model)]));
    const none = el("tr", {}, el("td", { colspan: HEADS.length, class: "muted" }, pages.models > 0 ? NONE_FOUND : NONE));
    fill(this.body, ...(models.length > 0 ? [...this.rows.values()].map((row) => row.node) : [none]));
  }

  private row(model: string): Row {
    const button = el("button", { class: "link" }, model);
    button.addEventListener("click", () => {
      history.replaceState(null, "", `?model=${encodeURIComponent(model)}`);
      this.look({ model });
    });
    const anew = el("span", { class: "badge explored", hidden: true }, "begun anew");
    const cells = HEADS.slice(1).map(([, isNumber]) => el("td", { class: isNumber && "number" }));
    return { node: el("tr", {}, el("th", { scope: "row" }, button, anew), ...cells), button, anew, cells };
  }

  private tell(each: Model, isCurrent: boolean, now: number): void {
    const row = this.rows.get(each.model);
    if (row === undefined) return;
    const lists = Object.values(each.total.lists).reduce((sum, n) => sum + n, 0);
    const counts = [number(each.learned), number(lists), number(each.total.clicks)];
    const shares = [percent(each.total.certain_places), duration(each.lag), number(each.total.quality.shown?.rank)];
    const texts = [each.ranker, served(each, now), age(each.newest_at, now), ...counts, ...shares];
    row.node.classList.toggle("chosen", isCurrent);
    row.button.setAttribute("aria-pressed", String(isCurrent));
    row.anew.hidden = each.begun_anew === null || now - each.begun_anew.at > ANEW_SINCE;
    row.cells.forEach((cell, i) => say(cell, texts[i] ?? ""));
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
