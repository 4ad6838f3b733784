import "../page.css";
import "./dashboard.css";
import { json } from "../api";
import { el, fill, say } from "../dom";
import { frame } from "../frame";
import { follow } from "../live";
import { Alarms } from "./alarms";
import type { Bucket, Moment } from "./answers";
import { Charts } from "./charts";
import { Inspector } from "./inspector";
import { Models } from "./models";
import { QualityCharts } from "./quality";
import { ShadowCharts } from "./shadow";
import { Tiles } from "./tiles";

const SPANS = {
  minutes: { name: "three hours", said: "in the last three hours", seconds: 60, kept: 180 },
  hours: { name: "a month", said: "in the last month", seconds: 3600, kept: 720 },
};
const ASKED_AGAIN = 60_000; // milliseconds after which hours are
type Span = "minutes" | "hours";

const page = frame("perturank", [["Dashboard", "/"], ["Live tests", "/tests"], ["API", "/docs"]]);
const [alarms, quality, shadow] = [new Alarms(), new QualityCharts(), new ShadowCharts()];
const [tiles, charts, inspector] = [new Tiles(), new Charts(), new Inspector()];
const models = new Models(watch);
const title = el("h2", { id: "quality" }, "Quality over time");
const another = el("a", { class: "small", href: "#models-title", hidden: true }, "Another model");
const rest = el("h2", { id: "over-time" }, "Clicks and learning");
const pause = el("button", { type: "button" }, "Pause");
const foot = el("footer", { class: "small muted" });

let latest: Moment | null = null;
let span: Span = "minutes";
let looked: string | null = null; // what was last asked for
let held: string | null = null; // what the buckets are of
let buckets = new Map<number, Bucket>();
let isBroken = false; // the stream
let leave: (() => void) | null = null; // ends the stream; null: the page is paused

const choices = (["minutes", "hours"] as const).map((each) => {
  const input = el("input", { type: "radio", name: "span", value: each, id: `span-${each}`, checked: each === span });
  input.addEventListener("change", () => {
    span = each;
    looked = null;
    if (latest) show(latest);
  });
  return el("span", {}, input, el("label", { for: `span-${each}` }, SPANS[each].name));
});
pause.addEventListener("click", () => {
  if (leave === null) return watch();
  leave();
  leave = null;
  page.say("paused");
  say(pause, "Resume");
});

page.head.append(pause);
page.main.append(
  alarms.node,
  alarms.spoken,
  el(
    "section",
    { class: "over-time", "aria-labelledby": "quality" },
    el("div", { class: "row" }, title, another, el("fieldset", { class: "switch" }, el("legend", { class: "hidden-visually" }, "How far back"), ...choices)),
    quality.anew,
    quality.drift,
    quality.node,
  ),
  shadow.node,
  tiles.node,
  models.node,
  el("section", { class: "over-time", "aria-labelledby": "over-time" }, rest, charts.node),
  inspector.node,
  foot,
);

/** Show a moment; where another model or span is looked at, or the past may have changed, ask for it. */
function show(moment: Moment): void {
  latest = moment;
  const model = moment.chosen;
  alarms.show(moment);
  quality.showModel(model);
  shadow.showModel(model);
  tiles.show(moment);
  models.show(moment);
  charts.showMoment(moment);
  say(title, model ? `Quality over time: ${model.model}` : "Quality over time");
  say(rest, model ? `Clicks and learning: ${model.model}` : "Clicks and learning");
  another.hidden = moment.pages.models < 2;
  fill(foot, `perturank ${moment.process.version}, process ${moment.process.pid}, up since ${new Date(moment.process.since).toLocaleString("en-GB")}.`);
  page.link(moment.process.pages.map((path) => [named(path), path]));
  if (model === null) return draw();
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
  const { seconds, kept, said } = SPANS[span];
  const oldest = (latest?.at ?? 0) - 1000 * seconds * kept;
  for (const start of buckets.keys()) if (start < oldest) buckets.delete(start);
  const past = [...buckets.values()].sort((one, other) => one.start - other.start);
  quality.showHistory(past, seconds, said);
  shadow.showHistory(past, seconds);
  charts.showHistory(past, seconds);
}

/** Follow what the reader looks at now, in place of what it was before; this also ends a pause. */
function watch(): void {
  leave?.();
  say(pause, "Pause");
  const { filter, page: number, model } = models.view;
  const asked = new URLSearchParams({ ...(filter && { filter }), ...(number > 1 && { page: String(number) }), ...(model !== null && { model }) }).toString();
  leave = follow<Moment>(asked === "" ? "/v1/live" : `/v1/live?${asked}`, {
    onData: show,
    onState: (broken) => {
      if (broken !== null || isBroken) looked = null; // what happened meanwhile is asked for
      isBroken = broken !== null;
      page.connection(broken);
    },
  });
}

watch();
