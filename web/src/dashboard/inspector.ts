/** The ranking inspector: a recent query, or pasted documents, looked into. */
import { json, Problem, send } from "../api";
import { el, fill, say } from "../dom";
import { clock } from "../format";
import type { Asked, Explained } from "./answers";
import { explained } from "./explained";

const DRAWS = 100;
const EXAMPLE = '[{"id": "a", "features": [0.1, 2.0]}, {"id": "b", "features": [0.3, 1.0]}]';

export class Inspector {
  readonly node: HTMLElement;
  private model: string | null = null;
  private readonly pick = el("select", { id: "recent" });
  private readonly pasted = el("textarea", { id: "pasted", placeholder: EXAMPLE, spellcheck: "false" });
  private readonly state = el("p", { class: "small muted", role: "status" });
  private readonly result = el("div", { class: "result" });

  constructor() {
    const look = el("button", { class: "primary", type: "submit" }, "Look into it");
    const again = el("button", { type: "button" }, "Refresh");
    again.addEventListener("click", () => void this.load());
    const form = el(
      "form",
      {},
      el("div", {}, el("label", { for: "recent" }, "A recent query"), el("div", { class: "row pick" }, this.pick, again)),
      el("div", {}, el("label", { for: "pasted" }, "or documents, as they are sent to /rank (JSON)"), this.pasted),
      el("div", { class: "row" }, look, this.state),
    );
    // What was done last counts, and the other says so: text that was left would else win unseen.
    this.pick.addEventListener("change", () => (this.pasted.value = ""));
    this.pasted.addEventListener("input", () => (this.pick.value = ""));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      void this.look();
    });
    this.node = el(
      "section",
      { class: "card inspector", "aria-labelledby": "inspector-title" },
      el("h2", { id: "inspector-title" }, "Why does it stand there?"),
      form,
      this.result,
    );
  }

  /** Look into another model. */
  choose(model: string): void {
    if (model === this.model) return;
    this.model = model;
    fill(this.result);
    void this.load();
  }

  private async load(): Promise<void> {
    if (this.model === null) return;
    try {
      const { queries } = await json<{ queries: Asked[] }>(`/v1/models/${encodeURIComponent(this.model)}/recent`);
      const none = el("option", { value: "" }, queries.length === 0 ? "none yet" : "none: use the documents below");
      fill(this.pick, ...queries.map((each) => el("option", { value: each.number }, named(each))), none);
      if (this.pasted.value.trim() !== "") this.pick.value = "";
      say(this.state, "");
    } catch (error) {
      this.fail(error);
    }
  }

  private async look(): Promise<void> {
    if (this.model === null) return;
    say(this.state, "looking …");
    try {
      const asks = this.asks();
      const answer = await send<Explained>(`/v1/models/${encodeURIComponent(this.model)}/explain`, { ...asks, draws: DRAWS });
      fill(this.result, ...explained(answer, Math.max(240, this.result.clientWidth)));
      say(this.state, `${answer.ranking.length} places of version ${answer.version}`);
    } catch (error) {
      this.fail(error);
    }
  }

  private asks(): { recent: number } | { documents: unknown } {
    const text = this.pasted.value.trim();
    if (text === "" && this.pick.value !== "") return { recent: Number(this.pick.value) };
    const sent: unknown = JSON.parse(text === "" ? "[]" : text);
    const inside = typeof sent === "object" && sent !== null && "documents" in sent ? sent.documents : sent;
    return { documents: inside };
  }

  private fail(error: unknown): void {
    const said = error instanceof Problem ? `${error.message}. ${error.detail}` : error instanceof SyntaxError ? `This is no JSON: ${error.message}` : "The service does not answer.";
    say(this.state, said);
  }
}

function named(asked: Asked): string {
  return `${clock(asked.at, true)} · ${asked.query ?? "(no text)"} · ${asked.documents} documents`;
}
