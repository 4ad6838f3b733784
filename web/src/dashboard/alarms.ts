/** What somebody should look at now; read out when it changes. */
import { el, fill } from "../dom";
import type { Moment } from "./answers";

export class Alarms {
  readonly node = el("section", { class: "alarms", "aria-label": "Alarms", "aria-live": "polite" });
  private shown = "";

  show(moment: Moment): void {
    const said = JSON.stringify([moment.alarms.map((alarm) => [alarm.name, alarm.model]), moment.compiling > 0]);
    if (said === this.shown && moment.alarms.length === 0) return;
    this.shown = said;
    const notes = moment.alarms.map((alarm) =>
      el(
        "div",
        { class: "notice alarm" },
        el("strong", {}, alarm.model === null ? alarm.says : `${alarm.model}: ${alarm.says}`),
        " ",
        el("span", {}, alarm.remedy),
      ),
    );
    if (moment.compiling > 0) {
      notes.push(el("div", { class: "notice" }, "Getting ready: lists of some lengths are still being compiled, their first answer is slow."));
    }
    if (notes.length === 0) notes.push(el("div", { class: "notice well" }, "No alarms."));
    fill(this.node, ...notes);
  }
}
