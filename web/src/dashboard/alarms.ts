/** What somebody should look at now; read out when another alarm comes or one goes, not when its numbers move. */
import { el, fill, say } from "../dom";
import { number } from "../format";
import type { Alarm, Moment } from "./answers";

const WELL = "No alarms.";
const COMPILING = "Getting ready: lists of some lengths are still being compiled, their first answer is slow.";

export class Alarms {
  readonly node = el("section", { class: "alarms", "aria-label": "Alarms" });
  readonly spoken = el("p", { class: "hidden-visually", role: "status" });
  private shown = "";

  show(moment: Moment): void {
    const said = JSON.stringify([moment.alarms, moment.more_alarms, moment.compiling > 0]);
    if (said !== this.shown) fill(this.node, ...notices(moment));
    this.shown = said;
    const names = moment.alarms.map((alarm) => (alarm.model === null ? alarm.name : `${alarm.name} of ${alarm.model}`));
    const more = moment.more_alarms > 0 ? " and more" : "";
    say(this.spoken, names.length === 0 ? WELL : `Alarms: ${names.join(", ")}${more}.`);
  }
}

function notices(moment: Moment): HTMLElement[] {
  const notes = moment.alarms.map(notice);
  if (moment.more_alarms > 0) notes.push(el("div", { class: "notice alarm" }, `And ${number(moment.more_alarms)} more: /metrics names them all.`));
  if (moment.compiling > 0) notes.push(el("div", { class: "notice" }, COMPILING));
  return notes.length > 0 ? notes : [el("div", { class: "notice well" }, WELL)];
}

function notice(alarm: Alarm): HTMLElement {
  const says = alarm.model === null ? alarm.says : `${alarm.model}: ${alarm.says}`;
  return el("div", { class: "notice alarm" }, el("strong", {}, says), " ", el("span", {}, alarm.remedy));
}
