import { expect, it } from "vitest";
import { tellEntry } from "./entries";

const said = (kind: string, payload: object) => tellEntry({ kind, payload } as never);

it("an entry is told in a sentence, and looks as its state does", () => {
  expect(
    said("trial_decided", { trial_id: "s-t3", verdict: "keep", reason: "better", value: 0.5 }),
  ).toEqual({
    icon: "check",
    tone: "good",
    text: "s-t3 kept (better), value 0.5",
  });
  expect(said("study_moved", { new: "paused", reason: "paused_by_operator" }).text).toBe(
    "Study is paused (paused by operator)",
  );
  expect(said("family_moved", { new: "passed", reason: "passed" }).text).toBe("Promotion passed");
  expect(said("study_moved", { new: "cancelled", reason: "cancelled" }).text).toBe(
    "Study is cancelled",
  );
});

it("a kind that is not known is shown by its name", () => {
  expect(said("a_new_kind", {})).toEqual({ icon: "dot", tone: "mute", text: "a new kind" });
});

it("an entry of any shape is told without a slip of the program", () => {
  const kinds = [
    "study_submitted",
    "inputs_frozen",
    "worker_claimed",
    "command_applied",
    "budget_changed",
    "proposals_made",
    "proposer_waits",
    "model_calls_reserved",
    "model_called",
    "candidate_proposed",
    "attempt_launching",
    "attempt_started",
    "values_reported",
    "network_requested",
    "attempt_exited",
    "attempt_ended",
    "artifact_recorded",
    "artifact_released",
    "restore_accepted",
    "trial_evaluated",
    "trial_decided",
    "trial_served",
    "trial_ended",
    "family_opened",
    "holdout_used",
    "family_moved",
    "candidate_promoted",
  ];
  for (const kind of kinds)
    for (const payload of [{}, { value: null, new: 3, attempt_id: {}, number: "x", verdict: [] }])
      expect(said(kind, payload).text, kind).not.toMatch(/undefined|NaN|\[object|null/);
});

it("what a candidate named is one line and moves nothing", () => {
  const { text } = said("candidate_proposed", {
    number: 4,
    proposer: `<b>\u202ex\n${"y".repeat(999)}`,
    trial_kind: "search",
  });
  expect(text).toContain("<b>‹U+202E›x y");
  expect(text.length).toBeLessThan(220);
});
