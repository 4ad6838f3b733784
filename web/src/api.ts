/** Requests to the service; where it asks for a key, the page asks its reader, once a tab. */
import { el, say } from "./dom";

const KEY = "perturank key";
const SENDABLE = /^[!-~]+$/; // a header takes nothing else

/** What the service refused, in its own words (RFC 9457). */
export class Problem extends Error {
  constructor(readonly status: number, title: string, readonly detail: string) {
    super(title);
  }
}

let asking: Promise<void> | null = null;

/** The answer to a request, after a key has been asked for where one is needed; refusals are thrown as Problem. */
export async function request(path: string, options: RequestInit = {}): Promise<Response> {
  for (;;) {
    const used = sessionStorage.getItem(KEY);
    const headers = new Headers(options.headers);
    if (used !== null) headers.set("Authorization", `Bearer ${used}`);
    const response = await fetch(path, { ...options, headers });
    if (response.ok) return response;
    if (response.status === 401 || (response.status === 403 && used !== null)) {
      // another request may have brought a new key meanwhile
      if (sessionStorage.getItem(KEY) === used) await newKey(used !== null);
      continue;
    }
    throw await problem(response);
  }
}

/** The answer as JSON. */
export async function json<T>(path: string, options: RequestInit = {}): Promise<T> {
  return (await (await request(path, options)).json()) as T;
}

/** The answer to JSON that is sent. */
export function send<T>(path: string, body: unknown, method = "POST"): Promise<T> {
  return json<T>(path, { method, body: JSON.stringify(body), headers: { "Content-Type": "application/json" } });
}

async function problem(response: Response): Promise<Problem> {
  const said = (await response.json().catch(() => ({}))) as { title?: string; detail?: string };
  return new Problem(response.status, said.title ?? `the service answered ${response.status}`, said.detail ?? "");
}

function newKey(refused: boolean): Promise<void> {
  asking ??= askForKey(refused).finally(() => (asking = null));
  return asking;
}

function askForKey(refused: boolean): Promise<void> {
  const input = el("input", { type: "password", id: "key", autocomplete: "off", required: true, "aria-describedby": "key-wrong" });
  const wrong = el("p", { class: "small wrong", role: "alert", id: "key-wrong" }, refused && "That key is not known here, or may not do this.");
  const form = el(
    "form",
    {},
    el("h2", { id: "key-title" }, "This service asks for a key"),
    wrong,
    el("label", { for: "key" }, "API key"),
    input,
    el("p", { class: "small muted" }, "It is kept in this tab alone. A new one: ", el("code", {}, "perturank keys add NAME --scope admin")),
    el("button", { class: "primary" }, "Use this key"),
  );
  const dialog = el("dialog", { "aria-labelledby": "key-title" }, form);
  document.body.append(dialog);
  dialog.addEventListener("cancel", (event) => event.preventDefault()); // without a key there is nothing to see
  dialog.addEventListener("close", () => dialog.isConnected && dialog.showModal()); // a second Esc is not asked about
  dialog.showModal();
  return new Promise((resolve) => {
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const key = input.value.trim();
      if (!SENDABLE.test(key)) return say(wrong, "This is no key: it has a space, or a sign that no key has. Copy it once more.");
      sessionStorage.setItem(KEY, key);
      dialog.remove();
      resolve();
    });
  });
}
