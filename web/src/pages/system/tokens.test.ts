import { expect, it } from "vitest";
import { lifetimeSeconds, tokenState } from "./tokens";

it("tells a revoked token from an expired one", () => {
  expect(tokenState({ is_valid: true, revoked_at: null }).word).toBe("valid");
  expect(tokenState({ is_valid: false, revoked_at: null }).word).toBe("expired");
  expect(tokenState({ is_valid: false, revoked_at: "2026-01-01T00:00:00Z" }).word).toBe("revoked");
});

it("asks for seconds, or for no end", () => {
  expect(lifetimeSeconds("30")).toBe(2_592_000);
  expect(lifetimeSeconds("")).toBeNull();
});
