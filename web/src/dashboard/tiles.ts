/** The numbers of this moment, large. */
import { el, say } from "../dom";
import { bytes, counted, duration, number, percent } from "../format";
import type { Moment, Traffic } from "./answers";

const SECONDS = 10;

interface Tile {
  value: HTMLElement;
  note: HTMLElement;
}

export class Tiles {
  readonly node = el("dl", { class: "tiles" });
  private readonly tiles = new Map<string, Tile>();

  constructor() {
    for (const name of ["Lists a second", "Feedback a second", "Time of a list", "Learning lag", "Certain places", "Log"]) {
      const tile = { value: el("span", { class: "value" }, "–"), note: el("span", { class: "note" }) };
      this.tiles.set(name, tile);
      this.node.append(el("div", { class: "card tile" }, el("dt", {}, name), el("dd", {}, tile.value, tile.note)));
    }
  }

  show(moment: Moment): void {
    const model = moment.chosen;
    const { rank, feedback } = moment.traffic;
    this.tell("Lists a second", number(rate(rank)), `over ${SECONDS} s`);
    this.tell("Feedback a second", number(rate(feedback)), model ? `${counted(model.total.clicks, "click")} since the model was made` : "");
    this.tell("Time of a list", duration(rank.p99), rank.p99 === null ? "no lists in a minute" : `99 of 100; half: ${duration(rank.p50)}`);
    const after = model?.total.lag;
    this.tell("Learning lag", model ? duration(model.lag) : "–", after ? `mean since it was made ${duration(after)}` : "nothing learned yet");
    const minute = model?.minutes.findLast((each) => each.certain_places !== null);
    this.tell("Certain places", percent(minute?.certain_places), `latest minute; since it was made ${percent(model?.total.certain_places)}`);
    const { room, position } = moment.log;
    this.tell("Log", bytes(moment.log.bytes), `${number(position)} entries${room === null ? "" : `, ${bytes(room)} free`}`);
  }

  private tell(name: string, value: string, note: string): void {
    const tile = this.tiles.get(name);
    if (tile === undefined) return;
    say(tile.value, value);
    say(tile.note, note);
  }
}

function rate(traffic: Traffic): number {
  return traffic.per_second.slice(-SECONDS).reduce((sum, n) => sum + n, 0) / SECONDS;
}
