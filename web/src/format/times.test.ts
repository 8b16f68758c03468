import { expect, it } from "vitest";
import { formatMoment, formatRelative, formatSpan } from "./times";

const NOW = "2026-05-04T12:00:00.000+00:00";
const at = (iso: string) => formatRelative(iso, Date.parse(NOW));

it("how long ago is said in one unit, and a date when that says more", () => {
  expect(at("2026-05-04T11:59:58Z")).toBe("just now");
  expect(at("2026-05-04T11:59:18Z")).toBe("42 s ago");
  expect(at("2026-05-04T11:00:01Z")).toBe("59 min ago");
  expect(at("2026-05-03T12:00:01Z")).toBe("23 h ago");
  expect(at("2026-04-20T12:00:00Z")).toBe("14 d ago");
  expect(at("2026-05-04T12:03:00Z")).toBe("in 3 min");
  expect(at("2024-01-15T12:00:00Z")).toBe("2024-01-15");
});

it("what is no moment is shown as it is", () => {
  expect(at("soon")).toBe("soon");
  expect(formatMoment("soon")).toBe("soon");
});

it("a span reaches to now while it is open", () => {
  expect(formatSpan("2026-05-04T11:58:30Z", null, Date.parse(NOW))).toBe("1 min 30 s");
  expect(formatSpan("2026-05-04T11:58:30Z", "2026-05-04T11:58:31Z", Date.parse(NOW))).toBe("1 s");
});
