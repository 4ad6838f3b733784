/** The frame of every page: a link past the head, the head with its state, and the main part. */
import { el, say } from "./dom";

export interface Frame {
  /** Where the page puts what it has. */
  main: HTMLElement;
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
  document.body.replaceChildren(
    el("a", { class: "skip", href: "#main" }, "To the content"),
    el(
      "header",
      { class: "top" },
      el("h1", {}, el("span", { class: "mark", "aria-hidden": "true" }), title),
      el("nav", { "aria-label": "Pages" }, items),
      state,
    ),
    main,
  );
  const link = (more: Link[]): void => {
    const news = more.filter(([, path]) => items.querySelector(`[href="${CSS.escape(path)}"]`) === null);
    items.append(...news.map(item));
  };
  return { main, connection: (broken) => connection(state, broken), link };
}

function item([name, path]: Link): HTMLElement {
  const here = path === location.pathname && "page";
  return el("li", {}, el("a", { href: path, "aria-current": here }, name));
}

function connection(state: HTMLElement, broken: string | null): void {
  state.className = broken === null ? "badge certain" : "badge alarm";
  say(state, broken === null ? "live" : `not live: ${broken}`);
}
