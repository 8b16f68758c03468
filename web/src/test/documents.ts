/** Documents of the API with defaults, for tests. */
import type { Entry, TrialListed } from "../api/types";

export function entry(seq: number, kind: string, payload: Entry["payload"]): Entry {
  return { seq, kind, payload, at: "2026-05-04T09:30:00.000+00:00", non_finite: [] };
}

export function listedTrial(number: number, changes: Partial<TrialListed> = {}): TrialListed {
  return {
    id: `s1-${String(number)}`,
    study: "s1",
    number,
    kind: "search",
    state: "running",
    outcome: "running",
    reason: null,
    detail: "",
    value: null,
    candidate: `s1-c${String(number)}`,
    params: { lr: 0.1 },
    seed: 1,
    watermark: 0,
    finish_seq: null,
    splits: ["search"],
    family: null,
    stage: null,
    created_at: "2026-05-04T09:29:00.000+00:00",
    started_at: "2026-05-04T09:29:30.000+00:00",
    ended_at: null,
    wall_s: null,
    proposer: "random",
    parent: null,
    patched: false,
    attempts: 1,
    scores: {},
    metrics: {},
    non_finite: [],
    ...changes,
  };
}
