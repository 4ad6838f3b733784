/** The frame of every page: a link past the head, the head with its state, and the main part. */
import { el, say } from "./dom";

export interface Frame {
  /** Where the page puts what it has. */
  main: HTMLElement;
  /** The head, for what the page can do as a whole. */
  head: HTMLElement;
  /** Say something else in place of the connection's state. */
  say: (text: string) => void;
  /** Say how the connection is: null when it is well. */
  connection: (broken: string | null) => void;
  /** Add links to other pages, where they are not there yet. */
  link: (links: Link[]) => void;
}

/** A name and a path. */
export type Link = [string, string];

/** Build the frame into the document. */
export function frame(title: string, links: Link[]): Frame {
  const state = el("span", { class: "badge", role: "status" }, "connecting");
  const main = el("main", { id: "main", tabindex: -1 });
  const items = el("ul", {}, ...links.map(item));
  const head = el(
    "header",
    { class: "top" },
    el("h1", {}, el("span", { class: "mark", "aria-hidden": "true" }), title),
    el("nav", { "aria-label": "Pages" }, items),
    state,
  );
  document.body.replaceChildren(el("a", { class: "skip", href: "#main" }, "To the content"), head, main);
  const link = (more: Link[]): void => {
    const news = more.filter(([, path]) => items.querySelector(`[href="${CSS.escape(path)}"]`) === null);
    items.append(...news.map(item));
  };
  const instead = (text: string): void => {
    state.className = "badge";
    say(state, text);
  };
  return { main, head, say: instead, connection: (broken) => connection(state, broken), link };
}

function item([name, path]: Link): HTMLElement {
  const here = path === location.pathname && "page";
  return el("li", {}, el("a", { href: path, "aria-current": here }, name));
}

function connection(state: HTMLElement, broken: string | null): void {
  state.className = broken === null ? "badge certain" : "badge alarm";
  say(state, broken === null ? "live" : `not live: ${broken}`);
}
