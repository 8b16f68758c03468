import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { EventParser, type ServerEvent } from "./sse";
import { EventStream, type StreamState } from "./stream";

describe("the parser", () => {
  it("puts an event together from pieces cut anywhere", () => {
    const parser = new EventParser();
    const text = 'id: 7\ndata: {"a":1}\n\n: still here\n\nevent: x\ndata: one\ndata: two\n\n';
    const events = text.split("").flatMap((character) => parser.push(character));
    expect(events).toEqual([
      { id: "7", event: "message", data: '{"a":1}' },
      { id: "7", event: "x", data: "one\ntwo" },
    ]);
  });

  it("keeps an event that is not complete to itself", () => {
    expect(new EventParser().push("data: half\n")).toEqual([]);
  });
});

describe("the stream", () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  const answer = (text: string): Response =>
    new Response(text, { status: 200, headers: { "Content-Type": "text/event-stream" } });

  function opened(fetch: (url: string, init: RequestInit) => Promise<Response>) {
    const events: ServerEvent[] = [];
    const states: StreamState[] = [];
    const onLost = vi.fn();
    const stream = new EventStream({
      url: "/events",
      after: "3",
      onEvent: (event) => events.push(event),
      onState: (state) => states.push(state),
      onLost,
      fetch: fetch as typeof globalThis.fetch,
    });
    return { stream, events, states, onLost };
  }

  const placeOf = (init: RequestInit): string | null =>
    new Headers(init.headers).get("Last-Event-ID");

  it("asks after a cut for exactly what comes after the last event", async () => {
    const places: (string | null)[] = [];
    const { stream, events } = opened((_, init) => {
      places.push(placeOf(init));
      return Promise.resolve(answer(`id: ${String(3 + places.length)}\ndata: {}\n\n`));
    });
    await vi.advanceTimersByTimeAsync(1200);
    stream.close();
    expect(places.slice(0, 2)).toEqual(["3", "4"]);
    expect(events.map((event) => event.id).slice(0, 2)).toEqual(["4", "5"]);
  });

  it("says that the server stopped after several tries, and that it is live again", async () => {
    let is_up = false;
    const { stream, states } = opened(() =>
      is_up
        ? new Promise((resolve) => setTimeout(() => resolve(answer(": still here\n\n")), 0))
        : Promise.reject(new TypeError("gone")),
    );
    await vi.advanceTimersByTimeAsync(10_000);
    expect(states.slice(0, 2)).toEqual(["connecting", "reconnecting"]);
    expect(states.at(-1)).toBe("stopped");
    is_up = true;
    stream.retryNow();
    await vi.advanceTimersByTimeAsync(10);
    expect(states).toContain("live");
    stream.close();
  });

  it.each([401, 403, 404])("does not knock again where it is refused (%d)", async (status) => {
    const fetch = vi.fn(() => Promise.resolve(new Response("", { status })));
    const { states } = opened(fetch);
    await vi.advanceTimersByTimeAsync(20_000);
    expect(fetch).toHaveBeenCalledTimes(1);
    expect(states.at(-1)).toBe("refused");
  });

  it("tells when the ledger is another one", async () => {
    const { onLost } = opened(() => Promise.resolve(new Response("", { status: 409 })));
    await vi.advanceTimersByTimeAsync(10);
    expect(onLost).toHaveBeenCalledOnce();
  });

  it("is silent once it is closed", async () => {
    const fetch = vi.fn(() => Promise.reject(new TypeError("gone")));
    const { stream } = opened(fetch);
    stream.close();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(fetch.mock.calls.length).toBeLessThanOrEqual(1);
  });
});
