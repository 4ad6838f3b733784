/** Promote and stop: each asks once more, says what it will do, and afterwards what it did. */
import { json, Problem, send } from "../api";
import { el, fill, say } from "../dom";
import type { Promoted, Test } from "./answers";

export class Actions {
  readonly node = el("div", { class: "row actions" });
  readonly done = el("p", { class: "notice well", role: "status", hidden: true });
  private readonly promote = el("button", { type: "button", class: "primary" }, "Promote …");
  private readonly stop = el("button", { type: "button" }, "Stop …");
  private test: Test | null = null;

  constructor(private readonly onDone: () => void) {
    this.promote.addEventListener("click", () => this.test && this.askToPromote(this.test));
    this.stop.addEventListener("click", () => this.test && this.askToStop(this.test));
    this.node.append(this.promote, this.stop);
  }

  show(test: Test): void {
    if (this.test !== null && this.test.test !== test.test) this.done.hidden = true;
    this.test = test;
    this.node.hidden = test.status === "stopped";
  }

  private askToPromote(test: Test): void {
    const arms = test.spec.arms.map((arm) => el("option", { value: arm, selected: arm === (test.winner ?? test.leader) }, arm));
    const choice = el("select", { id: "promoted" }, ...arms);
    const says = el("p", { class: "small" });
    const tell = () => {
      const hasWon = choice.value === test.winner ? "" : " It has not won: the difference may be chance.";
      say(says, `${test.spec.arms[0]} will serve what ${choice.value} is, and the test stops. The answer says how to take it back.${hasWon}`);
    };
    choice.addEventListener("change", tell);
    tell();
    const path = `/v1/tests/${encodeURIComponent(test.test)}/promote`;
    confirm("Promote an arm", "Promote", [el("label", { for: "promoted" }, "Arm"), choice, says], async () => {
      const answer = await send<Promoted>(path, { arm: choice.value });
      fill(this.done, `${answer.arm} is promoted: ${answer.model} ${answer.did}. To take it back: `, el("code", {}, answer.undo));
      this.end();
    });
  }

  private askToStop(test: Test): void {
    const says = el("p", { class: "small" }, `No more lists are shown by ${test.test}; what it has counted stays. Searches that still ask it are refused.`);
    confirm("Stop the test", "Stop it", [says], async () => {
      await json(`/v1/tests/${encodeURIComponent(test.test)}`, { method: "DELETE" });
      fill(this.done, `${test.test} is stopped.`);
      this.end();
    });
  }

  private end(): void {
    this.done.hidden = false;
    this.onDone();
  }
}

/** Ask once more; the dialog stays open where the service refuses, and says why. */
function confirm(title: string, does: string, inside: HTMLElement[], act: () => Promise<void>): void {
  const wrong = el("p", { class: "small wrong", role: "alert" });
  const sure = el("button", { class: "primary" }, does);
  const cancel = el("button", { type: "button" }, "Cancel");
  const form = el("form", {}, el("h2", { id: "confirm-title" }, title), ...inside, wrong, el("div", { class: "row" }, sure, cancel));
  const dialog = el("dialog", { "aria-labelledby": "confirm-title" }, form);
  document.body.append(dialog);
  dialog.addEventListener("close", () => dialog.remove());
  cancel.addEventListener("click", () => dialog.close());
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    sure.disabled = true;
    act()
      .then(() => dialog.close())
      .catch((error: unknown) => say(wrong, error instanceof Problem ? `${error.message}: ${error.detail}` : "The service does not answer. Try it again."))
      .finally(() => (sure.disabled = false));
  });
  dialog.showModal();
  cancel.focus();
}
