import { afterEach, expect, test, vi } from "vitest";
import { noteServerDate, serverNow } from "./serverClock";

const DATE = "Mon, 30 Nov 2026 04:05:12 GMT";
const THERE_MS = Date.parse(DATE);

afterEach(() => {
  noteServerDate(new Date().toUTCString());
  vi.useRealTimers();
});

test("a browser that is two hours behind goes by the server's clock", () => {
  vi.useFakeTimers({ now: THERE_MS - 7_200_000 });
  noteServerDate(DATE);
  expect(Math.abs(serverNow() - THERE_MS)).toBeLessThan(1000);
  vi.advanceTimersByTime(60_000);
  expect(Math.abs(serverNow() - THERE_MS - 60_000)).toBeLessThan(1000);
});

test("a second of latency moves no clock, and nonsense is not believed", () => {
  vi.useFakeTimers({ now: THERE_MS + 1200 });
  noteServerDate(DATE);
  noteServerDate("yesterday");
  noteServerDate(null);
  expect(serverNow()).toBe(THERE_MS + 1200);
});
