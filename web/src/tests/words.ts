/** A live test in words: who leads, by how much, how surely, and for how long it would go on. */
import { counted, day, duration, number, percent, signed } from "../format";
import type { Arm, Comparison, Interval, Test } from "./answers";

/** +0.01 to +0.21. */
export function within([low, high]: Interval): string {
  return `${low === null ? "−∞" : signed(low)} to ${high === null ? "∞" : signed(high)}`;
}

/** The comparison that says most of the leader: with the arm that it is least surely ahead of. */
export function closest(test: Test): Comparison | null {
  const own = test.comparisons.filter((each) => test.leader === null || each.one === test.leader || each.other === test.leader);
  return own.reduce<Comparison | null>((least, each) => (least === null || each.confidence < least.confidence ? each : least), null);
}

/** The same comparison as seen by one of its arms. */
export function seenBy(each: Comparison, arm: string): Comparison {
  if (each.one === arm) return each;
  const [low, high] = each.interval;
  const turned: Interval = [high === null ? null : -high, low === null ? null : -low];
  return { ...each, one: each.other, other: each.one, difference: -each.difference, interval: turned };
}

export function headline(test: Test): string {
  if (test.winner !== null) return `${test.winner} has won`;
  if (test.lists === 0) return "Nothing has counted yet";
  return test.leader === null ? "Nobody leads" : `${test.leader} leads`;
}

/** By how much the leader is ahead. */
export function lead(test: Test): string {
  const pair = closest(test);
  if (pair === null || test.leader === null) return "–";
  const seen = seenBy(pair, test.leader);
  return `${signed(seen.difference)} a list over ${seen.other}`;
}

/** In what interval that lies. */
export function interval(test: Test): string {
  const pair = closest(test);
  if (pair === null || test.leader === null) return "A list counts when its window has closed.";
  const level = 1 - (test.spec.level ?? 0.05);
  return `${within(seenBy(pair, test.leader).interval)} with ${percent(level)}, whenever you look`;
}

/** How long it would still take. */
export function remaining(test: Test): string {
  if (test.winner !== null) return "decided";
  if (test.status === "stopped") return "stopped";
  const open = test.comparisons.filter((each) => !each.decided);
  const lists = open.map((each) => each.lists_more);
  if (lists.length === 0 || lists.some((each) => each === null)) return "not foreseeable";
  const seconds = open.map((each) => each.seconds_more);
  const longest = Math.max(...lists.map((each) => each ?? 0));
  const time = seconds.some((each) => each === null) ? "" : `, ${duration(Math.max(...seconds.map((each) => each ?? 0)))}`;
  return `${counted(longest, "more list")}${time}`;
}

/** How sure it is that there is a difference; what is nearly certain is not called certain. */
export function sure(confidence: number | null): string {
  return confidence !== null && confidence > 0.999 ? "over 99.9 %" : percent(confidence);
}

/** What its state is, since when. */
export function state(test: Test): string {
  const end = test.promoted === null ? "stopped" : `stopped, ${test.promoted} promoted`;
  const decided = test.decided_at === null ? "" : `, decided on ${day(test.decided_at, true)} after ${counted(test.decided_after ?? 0, "list")}`;
  return `${test.status === "running" ? "running" : end} since ${day(test.since, true)}${decided}`;
}

const LEARNS = { own: "its own documents", all: "all that is shown", none: "nothing" };

/** What an arm learns from. */
export function learning(arm: Arm): string {
  return arm.reason === null ? LEARNS[arm.learns] : `nothing: ${arm.reason}`;
}

/** What a list earns in an arm: in a split of its own lists, else of all. */
export function earned(test: Test, arm: Arm): string {
  const lists = test.spec.method === "split" ? arm.lists : test.lists;
  return lists > 0 ? number(arm.credit / lists) : "–";
}
