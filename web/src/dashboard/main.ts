import "../page.css";
import "./dashboard.css";
import { json } from "../api";
import { el, fill } from "../dom";
import { frame } from "../frame";
import { follow } from "../live";
import { Alarms } from "./alarms";
import type { Bucket, Moment } from "./answers";
import { Charts } from "./charts";
import { Inspector } from "./inspector";
import { Models } from "./models";
import { Tiles } from "./tiles";

const SPANS = { minutes: { name: "three hours", seconds: 60, kept: 180 }, hours: { name: "a month", seconds: 3600, kept: 720 } };
const ASKED_AGAIN = 60_000; // milliseconds after which hours are
type Span = "minutes" | "hours";

const page = frame("perturank", [["Dashboard", "/"], ["API", "/docs"]]);
const [alarms, tiles, charts, inspector] = [new Alarms(), new Tiles(), new Charts(), new Inspector()];
const models = new Models(() => latest && show(latest));
const title = el("h2", { id: "over-time" }, "Over time");
const foot = el("footer", { class: "small muted" });

let latest: Moment | null = null;
let span: Span = "minutes";
let looked: string | null = null; // what was last asked for
let held: string | null = null; // what the buckets are of
let buckets = new Map<number, Bucket>();

const choices = (["minutes", "hours"] as const).map((each) => {
  const input = el("input", { type: "radio", name: "span", value: each, id: `span-${each}`, checked: each === span });
  input.addEventListener("change", () => {
    span = each;
    looked = null;
    if (latest) show(latest);
  });
  return el("span", {}, input, el("label", { for: `span-${each}` }, SPANS[each].name));
});

page.main.append(
  alarms.node,
  alarms.spoken,
  tiles.node,
  models.node,
  el(
    "section",
    { class: "over-time", "aria-labelledby": "over-time" },
    el("div", { class: "row" }, title, el("fieldset", { class: "switch" }, el("legend", { class: "hidden-visually" }, "How far back"), ...choices)),
    charts.node,
  ),
  inspector.node,
  foot,
);

/** Show a moment; where another model or span is looked at, or the past may have changed, ask for it. */
function show(moment: Moment): void {
  latest = moment;
  const model = models.current(moment.models);
  alarms.show(moment);
  tiles.show(moment, model);
  models.show(moment.models, moment.at);
  charts.showMoment(moment, model);
  fill(title, model ? `Over time: ${model.model}` : "Over time");
  fill(foot, `perturank ${moment.process.version}, process ${moment.process.pid}, up since ${new Date(moment.process.since).toLocaleString("en-GB")}.`);
  page.link(moment.process.pages.map((path) => [named(path), path]));
  if (model === undefined) return;
  inspector.choose(model.model);
  const about = `${span} ${model.model}`;
  const wanted = span === "minutes" ? about : `${about} ${Math.floor(moment.at / ASKED_AGAIN)}`; // moments bring minutes alone
  if (wanted !== looked) {
    looked = wanted;
    void load(model.model, about);
  } else if (span === "minutes" && held === about) {
    for (const each of model.minutes) buckets.set(each.start, each);
    draw();
  }
}

async function load(model: string, about: string): Promise<void> {
  const asked = looked;
  try {
    const answer = await json<{ buckets: Bucket[] }>(`/v1/models/${encodeURIComponent(model)}/history?span=${span}`);
    if (looked !== asked) return;
    held = about;
    buckets = new Map(answer.buckets.map((each) => [each.start, each]));
    draw();
  } catch {
    looked = null; // the next moment asks again; whether the service is there, the stream says
  }
}

/** The name of a page: /play is Play. */
function named(path: string): string {
  return path.slice(1, 2).toUpperCase() + path.slice(2);
}

function draw(): void {
  const { seconds, kept } = SPANS[span];
  const oldest = (latest?.at ?? 0) - 1000 * seconds * kept;
  for (const start of buckets.keys()) if (start < oldest) buckets.delete(start);
  charts.showHistory([...buckets.values()].sort((one, other) => one.start - other.start), seconds);
}

follow<Moment>("/v1/live", {
  onData: show,
  onState: (broken) => {
    looked = null; // what happened meanwhile is asked for
    page.connection(broken);
  },
});
