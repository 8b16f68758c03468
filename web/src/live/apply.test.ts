import { QueryClient, QueryObserver } from "@tanstack/react-query";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { keys } from "../api/keys";
import { entry, listedTrial } from "../test/documents";
import { EntryApplier, EVENTS_KEPT, patchPages, withNewest, type TrialPages } from "./apply";
import { effectsOf } from "./effects";

const NEWEST = { sort: "number", order: "desc", is_newest_first: true };
const BY_VALUE = { sort: "value", order: "desc", is_newest_first: false };

function pages(...numbers: number[][]): TrialPages {
  return {
    pages: numbers.map((items) => ({ items: items.map((n) => listedTrial(n)), next_cursor: null })),
    pageParams: numbers.map(() => null),
  };
}

const DECIDED = {
  trial_id: "s1-2",
  candidate_id: "s1-c2",
  trial_kind: "search",
  verdict: "keep",
  reason: "better",
  value: 0.7,
  compared_with: null,
  margin: 0.1,
  noise_floor: 0.01,
  finish_seq: 3,
};

const PROPOSED = {
  trial_id: "s1-4",
  number: 4,
  trial_kind: "search",
  candidate_id: "s1-c4",
  params: { lr: 0.2 },
  proposer: "tpe",
  seed: 9,
  watermark: 3,
  splits: ["search"],
};

describe("pages of trials", () => {
  it("rows that no entry is about stay the very same objects", () => {
    const before = pages([3, 2], [1, 0]);
    const after = patchPages(before, [], new Map([["s1-2", { outcome: "kept" as const }]]));
    expect(after.pages[0]?.items[1]?.outcome).toBe("kept");
    expect(after.pages[0]?.items[0]).toBe(before.pages[0]?.items[0]);
    expect(after.pages[1]).toBe(before.pages[1]);
  });

  it("a trial that is listed already is not put on top again", () => {
    const after = patchPages(pages([3, 2]), [listedTrial(3), listedTrial(4)], new Map());
    expect(after.pages[0]?.items.map((trial) => trial.number)).toEqual([4, 3, 2]);
  });

  it("an older trial that is heard of again is not put on top", () => {
    const before = pages([9, 8]);
    const after = patchPages(before, [listedTrial(2), listedTrial(10)], new Map());
    expect(after.pages[0]?.items.map((trial) => trial.number)).toEqual([10, 9, 8]);
  });
});

describe("entries", () => {
  let client: QueryClient;
  let applier: EntryApplier;
  beforeEach(() => {
    vi.useFakeTimers();
    client = new QueryClient();
    applier = new EntryApplier(client, "s1");
  });
  afterEach(() => {
    applier.close();
    client.clear();
    vi.useRealTimers();
  });

  it("a decision is seen in the row at once, with how long the trial took", () => {
    client.setQueryData(keys.trialList("s1", NEWEST), pages([3, 2]));
    applier.add(entry(10, "trial_decided", DECIDED));
    applier.flush();
    const shown = client.getQueryData<TrialPages>(keys.trialList("s1", NEWEST));
    expect(shown?.pages[0]?.items[1]).toMatchObject({ outcome: "kept", value: 0.7, wall_s: 30 });
  });

  it("a proposal and its start in one burst are one new row that runs", () => {
    client.setQueryData(keys.trialList("s1", NEWEST), pages([3, 2]));
    applier.add(entry(10, "candidate_proposed", PROPOSED));
    applier.add(entry(11, "attempt_started", { trial_id: "s1-4", trial_starts: true }));
    applier.flush();
    const first = client.getQueryData<TrialPages>(keys.trialList("s1", NEWEST))?.pages[0]?.items[0];
    expect(first).toMatchObject({ number: 4, state: "running", proposer: "tpe" });
  });

  it("a new trial is not guessed into a list in another order", () => {
    client.setQueryData(keys.trialList("s1", BY_VALUE), pages([3, 2]));
    applier.add(entry(10, "candidate_proposed", PROPOSED));
    applier.flush();
    const shown = client.getQueryData<TrialPages>(keys.trialList("s1", BY_VALUE));
    expect(shown?.pages[0]?.items).toHaveLength(2);
  });

  it("a thousand entries refresh a thing once", () => {
    const refresh = vi.spyOn(client, "invalidateQueries");
    for (let seq = 0; seq < 1000; seq += 1) applier.add(entry(seq, "trial_decided", DECIDED));
    vi.advanceTimersByTime(10_000);
    const asked = refresh.mock.calls.map(([filters]) => JSON.stringify(filters?.queryKey));
    expect(asked.filter((key) => key === JSON.stringify(keys.study("s1")))).toHaveLength(1);
    expect(new Set(asked).size).toBe(asked.length);
  });

  it("a list whose answer was under way is asked for again: that answer may be older", async () => {
    let answer: (shown: TrialPages) => void = () => undefined;
    const asked = vi.fn(() => new Promise<TrialPages>((resolve) => (answer = resolve)));
    const key = keys.trialList("s1", NEWEST);
    const observer = new QueryObserver(client, { queryKey: key, queryFn: asked });
    const stop = observer.subscribe(() => undefined);
    applier.add(entry(10, "trial_decided", DECIDED));
    applier.flush();
    answer(pages([3, 2]));
    await vi.advanceTimersByTimeAsync(10_000);
    expect(asked).toHaveBeenCalledTimes(2);
    stop();
  });

  it("a list that is whole is not asked for again", async () => {
    const asked = vi.fn(() => Promise.resolve(pages([3, 2])));
    const key = keys.trialList("s1", NEWEST);
    const observer = new QueryObserver(client, { queryKey: key, queryFn: asked });
    const stop = observer.subscribe(() => undefined);
    await vi.advanceTimersByTimeAsync(10);
    applier.add(entry(10, "trial_decided", DECIDED));
    applier.flush();
    await vi.advanceTimersByTimeAsync(10_000);
    expect(asked).toHaveBeenCalledTimes(1);
    stop();
  });

  it("what was heard before the page was left is kept, and what was to be refreshed is", () => {
    const refresh = vi.spyOn(client, "invalidateQueries");
    client.setQueryData(keys.trialList("s1", NEWEST), pages([3, 2]));
    applier.add(entry(10, "trial_decided", DECIDED));
    applier.close();
    const shown = client.getQueryData<TrialPages>(keys.trialList("s1", NEWEST));
    expect(shown?.pages[0]?.items[1]).toMatchObject({ outcome: "kept" });
    const asked = refresh.mock.calls.map(([filters]) => JSON.stringify(filters?.queryKey));
    expect(asked).toContain(JSON.stringify(keys.plots("s1")));
    vi.advanceTimersByTime(10_000);
    expect(refresh.mock.calls).toHaveLength(asked.length);
  });

  it("nothing is refreshed as a whole", () => {
    const kinds = [
      "study_moved",
      "trial_decided",
      "trial_ended",
      "family_moved",
      "values_reported",
    ];
    for (const kind of kinds) {
      for (const effect of effectsOf("s1", entry(1, kind, DECIDED))) {
        if (effect.do === "refresh") expect(effect.key.length).toBeGreaterThan(0);
      }
    }
  });

  it("a value that is no number is kept as what it is", () => {
    client.setQueryData(keys.trialList("s1", NEWEST), pages([2]));
    applier.add({
      ...entry(10, "trial_evaluated", { trial_id: "s1-2", split: "search", value: null }),
      non_finite: [{ path: "payload/value", value: "nan" }],
    });
    applier.flush();
    const row = client.getQueryData<TrialPages>(keys.trialList("s1", NEWEST))?.pages[0]?.items[0];
    expect(row?.non_finite).toEqual([{ path: "value", value: "nan" }]);
  });

  it("an unknown kind of a newer server does no harm", () => {
    expect(effectsOf("s1", entry(1, "made_up_later", {}))).toEqual([]);
  });
});

it("events are kept once each, the newest first, and not without end", () => {
  const shown = [entry(5, "a", {}), entry(4, "a", {})];
  const added = [entry(5, "a", {}), entry(6, "b", {}), entry(7, "c", {})];
  expect(withNewest(shown, added).map((one) => one.seq)).toEqual([7, 6, 5, 4]);
  const many = Array.from({ length: 300 }, (_, seq) => entry(seq, "a", {}));
  expect(withNewest([], many)).toHaveLength(EVENTS_KEPT);
});
