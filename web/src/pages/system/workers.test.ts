import { describe, expect, it } from "vitest";
import type { Lease, Worker } from "../../api/queries/system";
import { liveWorkers, workerRows, workersNote } from "./workers";

const lease = (study: string): Lease => ({
  study,
  name: study,
  state: "running",
  fence: 1,
  expires_at: null,
  is_valid: true,
});
const worker = (owner: string, state: Worker["state"], ...studies: string[]): Worker => ({
  owner,
  state,
  seen_at: null,
  leases: studies.map(lease),
});
const WORKERS = [
  worker("a", "driving", "s1", "s2"),
  worker("b", "idle"),
  worker("c", "gone"),
] as const;

describe("the workers", () => {
  it("count those that live, and say how many there are of each kind", () => {
    expect(liveWorkers(WORKERS)).toBe(2);
    expect(workersNote(WORKERS)).toBe("1 driving, 1 idle, 1 gone");
    expect(workersNote([])).toBe("none is at work");
  });

  it("have a row for each study, and one without any", () => {
    expect(workerRows(WORKERS).map((row) => [row.worker.owner, row.lease?.study])).toEqual([
      ["a", "s1"],
      ["a", "s2"],
      ["b", undefined],
      ["c", undefined],
    ]);
  });
});
