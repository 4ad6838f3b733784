/** The switch of the simulated users, and the ranker beside. */
import { send } from "../api";
import { el } from "../dom";
import type { State } from "./state";

const USERS: [string, string][] = [
  ["perfect", "perfect: clicks by relevance alone"],
  ["navigational", "navigational: stops at what serves"],
  ["informational", "informational: clicks a lot besides"],
];
const RATES: [string, string][] = [
  ["1", "1 a second"],
  ["5", "5 a second"],
  ["20", "20 a second"],
  ["", "as fast as it learns"],
];
const BESIDE: [string, string][] = [
  ["", "nothing"],
  ["pdgd-neural", "PDGD with a network"],
  ["random", "random lists"],
];

/** The controls and a function that shows the state in them. */
export function controls(failed: (error: unknown) => void): { node: HTMLElement; update: (state: State) => void } {
  const on = el("input", { type: "checkbox", role: "switch", id: "users-on" });
  const user = choice("user", USERS);
  const rate = choice("rate", RATES);
  const beside = choice("beside", BESIDE);
  rate.value = "5";
  const users = () => {
    const body = { on: on.checked, user: user.value, rate: rate.value === "" ? null : Number(rate.value) };
    send("/play/users", body, "PUT").catch(failed);
  };
  for (const control of [on, user, rate]) control.addEventListener("change", users);
  beside.addEventListener("change", () => {
    send("/play/beside", { ranker: beside.value || null }, "PUT").catch(failed);
  });
  const node = el(
    "section",
    { class: "card controls", "aria-labelledby": "controls-title" },
    el("h2", { id: "controls-title" }, "Who else is searching"),
    el("div", { class: "row" }, on, el("label", { for: "users-on" }, "Simulated users look for known items")),
    field("Their clicks", user),
    field("Searches", rate),
    field("Put beside", beside),
  );
  const update = (state: State): void => {
    on.checked = state.simulating;
    if (state.simulating) {
      shown(user, state.user);
      shown(rate, state.rate === null ? "" : String(state.rate), `${state.rate} a second`);
    }
    shown(beside, state.beside ?? "");
  };
  return { node, update };
}

function choice(id: string, options: [string, string][]): HTMLSelectElement {
  return el("select", { id }, ...options.map(([value, name]) => el("option", { value }, name)));
}

function field(name: string, control: HTMLSelectElement): HTMLElement {
  return el("div", { class: "field" }, el("label", { for: control.id }, name), control);
}

/** Show a value that came from elsewhere, also one that is not among the choices; never while the reader chooses. */
function shown(control: HTMLSelectElement, value: string, name = value): void {
  if (document.activeElement === control || control.value === value) return;
  if (![...control.options].some((option) => option.value === value)) control.append(el("option", { value }, name));
  control.value = value;
}
