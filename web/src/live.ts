/** Server-sent events through fetch, since an EventSource cannot send a key; it connects again by itself. */
import { Problem, request } from "./api";

const FIRST_WAIT = 500;
const LONGEST_WAIT = 15_000;
const LONGEST_SILENCE = 20_000; // every stream has something to say within ten seconds, or it is cut on its way

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

async function connected<T>(path: string, live: Live<T>, stop: AbortSignal): Promise<void> {
  let wait = FIRST_WAIT;
  while (!stop.aborted) {
    const silence = new Silence();
    const signal = AbortSignal.any([stop, silence.signal]);
    try {
      const response = await request(path, { signal, headers: { Accept: "text/event-stream" } });
      live.onState(null);
      for await (const data of events(response, () => silence.broken())) {
        wait = FIRST_WAIT;
        live.onData(JSON.parse(data) as T);
      }
      live.onState("the stream ended");
    } catch (error) {
      if (stop.aborted) return;
      const unheard = silence.signal.aborted ? `nothing was heard for ${LONGEST_SILENCE / 1000} s` : "the service does not answer";
      live.onState(error instanceof Problem ? error.message : unheard);
    } finally {
      silence.end();
    }
    await new Promise((resolve) => setTimeout(resolve, wait));
    wait = Math.min(2 * wait, LONGEST_WAIT);
  }
}

/** Aborts its signal when nothing has broken it for too long: a connection can be gone without a word. */
class Silence {
  private readonly line = new AbortController();
  private timer = 0;

  constructor() {
    this.broken();
  }

  get signal(): AbortSignal {
    return this.line.signal;
  }

  broken(): void {
    this.end();
    this.timer = window.setTimeout(() => this.line.abort(), LONGEST_SILENCE);
  }

  end(): void {
    window.clearTimeout(this.timer);
  }
}

/** The data of each event in turn; whatever comes, also a comment, is a sign of life. */
async function* events(response: Response, onSign: () => void): AsyncGenerator<string> {
  if (response.body === null) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    onSign();
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
