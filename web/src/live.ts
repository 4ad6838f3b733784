/** Server-sent events through fetch, since an EventSource cannot send a key; it connects again by itself. */
import { Problem, request } from "./api";

const FIRST_WAIT = 500;
const LONGEST_WAIT = 15_000;

export interface Live<T> {
  /** Called with every event's data. */
  onData: (data: T) => void;
  /** Called when the stream opens (null) and when it breaks (why). */
  onState: (broken: string | null) => void;
}

/** Follow a stream of JSON events until the returned function is called. */
export function follow<T>(path: string, live: Live<T>): () => void {
  const stop = new AbortController();
  void connected(path, live, stop.signal);
  return () => stop.abort();
}

async function connected<T>(path: string, live: Live<T>, signal: AbortSignal): Promise<void> {
  let wait = FIRST_WAIT;
  while (!signal.aborted) {
    try {
      const response = await request(path, { signal, headers: { Accept: "text/event-stream" } });
      live.onState(null);
      for await (const data of events(response)) {
        wait = FIRST_WAIT;
        live.onData(JSON.parse(data) as T);
      }
      live.onState("the stream ended");
    } catch (error) {
      if (signal.aborted) return;
      live.onState(error instanceof Problem ? error.message : "the service does not answer");
    }
    await new Promise((resolve) => setTimeout(resolve, wait));
    wait = Math.min(2 * wait, LONGEST_WAIT);
  }
}

/** The data of each event in turn. */
async function* events(response: Response): AsyncGenerator<string> {
  if (response.body === null) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split(/\r?\n\r?\n/);
    rest = blocks.pop() ?? "";
    for (const block of blocks) {
      const lines = block.split(/\r?\n/).filter((line) => line.startsWith("data:"));
      if (lines.length > 0) yield lines.map((line) => line.slice(5).trimStart()).join("\n");
    }
  }
}
