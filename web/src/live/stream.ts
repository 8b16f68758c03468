/** One stream of events that stays open: it resumes after the last event it got, waits longer
 * from try to try, and says how it stands. */
import { EventParser, type ServerEvent } from "./sse";

export type StreamState = "connecting" | "live" | "reconnecting" | "stopped" | "refused";

interface StreamOptions {
  readonly url: string;
  /** Where to begin; null: with what happens from now on. */
  readonly after: string | null;
  readonly onEvent: (event: ServerEvent) => void;
  readonly onState: (state: StreamState) => void;
  /** The server's ledger ends before our place: it is another one, and all that is known is old. */
  readonly onLost?: () => void;
  /** In place of the network, for tests. */
  readonly fetch?: typeof fetch;
}

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 8000;
/** Tries that fail in a row until the server counts as stopped. */
const TRIES = 3;
/** The server sends a comment at least every 15 seconds; silence beyond this is a dead line. */
const SILENCE_MS = 45_000;

export class EventStream {
  readonly #options: StreamOptions;
  readonly #fetch: typeof fetch;
  #last: string | null;
  #failures = 0;
  #is_closed = false;
  #abort: AbortController | undefined;
  #wake: (() => void) | undefined;

  constructor(options: StreamOptions) {
    this.#options = options;
    this.#fetch = options.fetch ?? ((...given) => fetch(...given));
    this.#last = options.after;
    void this.#run();
  }

  /** The id of the last event that was handed on. */
  get last(): string | null {
    return this.#last;
  }

  close(): void {
    this.#is_closed = true;
    this.#abort?.abort();
    this.#wake?.();
  }

  /** Do not wait any longer. */
  retryNow(): void {
    this.#wake?.();
  }

  async #run(): Promise<void> {
    this.#options.onState("connecting");
    while (!this.#is_closed) {
      const is_refused = await this.#connect();
      if (this.#isOver()) return;
      if (is_refused) {
        this.#options.onState("refused");
        return;
      }
      this.#failures += 1;
      this.#options.onState(this.#failures > TRIES ? "stopped" : "reconnecting");
      await this.#pause(Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** (this.#failures - 1)));
    }
  }

  #isOver(): boolean {
    return this.#is_closed;
  }

  /** True when the server will not have us: trying again is of no use. */
  async #connect(): Promise<boolean> {
    const abort = new AbortController();
    this.#abort = abort;
    const headers: Record<string, string> = { Accept: "text/event-stream" };
    if (this.#last !== null) headers["Last-Event-ID"] = this.#last;
    try {
      const response = await this.#fetch(this.#options.url, {
        headers,
        signal: abort.signal,
        cache: "no-store",
      });
      if (response.status === 409) this.#options.onLost?.();
      if ([401, 403, 404, 409].includes(response.status)) return true;
      if (!response.ok || response.body === null) return false;
      this.#failures = 0;
      this.#options.onState("live");
      await this.#read(response.body, abort);
    } catch {
      // Cut, refused or silent: all of it means to try again.
    } finally {
      abort.abort();
    }
    return false;
  }

  async #read(body: ReadableStream<Uint8Array>, abort: AbortController): Promise<void> {
    const parser = new EventParser();
    const decoder = new TextDecoder();
    const reader = body.getReader();
    for (;;) {
      const silence = setTimeout(() => abort.abort(), SILENCE_MS);
      const { done, value } = await reader.read().finally(() => clearTimeout(silence));
      if (done) return;
      for (const event of parser.push(decoder.decode(value, { stream: true }))) {
        if (this.#is_closed) return;
        this.#last = event.id ?? this.#last;
        this.#options.onEvent(event);
      }
    }
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
