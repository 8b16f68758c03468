import { expect, it } from "vitest";
import type { LogRange } from "../../api/queries/logs";
import { earlierPlace, firstRange, MOST_CHARACTERS, withEarlier, withNewer } from "./logState";

function range(offset: number, text: string, is_over = false): LogRange {
  const next_offset = offset + text.length;
  return { attempt: "a", offset, next_offset, size_bytes: next_offset, text, is_over };
}

it("what comes is put behind what is there", () => {
  const log = withNewer(firstRange(range(100, "abc")), range(103, "def", true));
  expect(log).toMatchObject({ text: "abcdef", begin: 100, end: 106, is_over: true });
});

it("a range that was asked for twice is shown once", () => {
  const log = firstRange(range(0, "abc"));
  expect(withNewer(withNewer(log, range(3, "d")), range(3, "d")).text).toBe("abcd");
});

it("the part before is put in front, once", () => {
  const log = firstRange(range(100, "abc"));
  expect(earlierPlace(log)).toEqual({ offset: 0, limit: 100 });
  const whole = withEarlier(log, range(0, "x".repeat(100)));
  expect(whole.begin).toBe(0);
  expect(withEarlier(whole, range(0, "x".repeat(100))).text).toHaveLength(103);
});

it("a log that grows without end does not fill the memory", () => {
  let log = firstRange(range(0, ""));
  for (let at = 0; at < 30; at += 1) log = withNewer(log, range(log.end, "x".repeat(65_536)));
  expect(log.text.length).toBe(MOST_CHARACTERS);
  expect(log.begin + log.text.length).toBe(log.end);
});
