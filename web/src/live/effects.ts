/** What an entry of the ledger changes in what is shown: small patches where the entry says all,
 * a refresh of one thing where it does not. Never more than that. */
import type { QueryKey } from "@tanstack/react-query";
import { keys } from "../api/keys";
import type { Entry, TrialListed } from "../api/types";

export type TrialPatch = Partial<Omit<TrialListed, "id">>;

export type Effect =
  | { readonly do: "patch_trial"; readonly trial: string; readonly patch: TrialPatch }
  | { readonly do: "add_trial"; readonly trial: TrialListed }
  | { readonly do: "patch_study"; readonly patch: Readonly<Record<string, unknown>> }
  | { readonly do: "refresh"; readonly key: QueryKey; readonly within_ms: number };

const SOON_MS = 300;
const LATER_MS = 1500;
const PLOTS_MS = 3000;

type Handler = (study: string, entry: Entry) => readonly Effect[];

const refresh = (key: QueryKey, within_ms = SOON_MS): Effect => ({ do: "refresh", key, within_ms });
const trialPatch = (trial: string, patch: TrialPatch): Effect => ({
  do: "patch_trial",
  trial,
  patch,
});
const text = (value: unknown): string => (typeof value === "string" ? value : "");
// eslint-disable-next-line @typescript-eslint/no-unnecessary-type-parameters -- what its place takes
const orNull = <T>(value: unknown): T | null => (value ?? null) as T | null;

/** The value of an entry that has one, also where JSON has no number for it. */
function valueOf({ payload, non_finite }: Entry): TrialPatch {
  const place = non_finite.find((found) => found.path === "payload/value");
  return {
    value: orNull(payload.value),
    non_finite: place === undefined ? [] : [{ path: "value", value: place.value }],
  };
}

/** The trial that is open, whichever it is: only one that is looked at is fetched again. */
const openTrial = (study: string): Effect => refresh(keys.openTrials(study), SOON_MS);

const settled = (study: string): readonly Effect[] => [
  refresh(keys.study(study)),
  refresh(keys.plots(study), PLOTS_MS),
  openTrial(study),
];

const OUTCOMES: Readonly<Record<string, TrialListed["outcome"]>> = {
  keep: "kept",
  discard: "discarded",
};

/** A trial as its row is before anything of it ran: the entry has all of it. */
function proposedTrial(study: string, entry: Entry): TrialListed {
  const p = entry.payload;
  return {
    id: text(p.trial_id),
    study,
    number: Number(p.number),
    kind: p.trial_kind as TrialListed["kind"],
    state: "proposed",
    outcome: "proposed",
    reason: null,
    detail: "",
    value: null,
    candidate: text(p.candidate_id),
    params: (p.params ?? {}) as TrialListed["params"],
    seed: Number(p.seed),
    watermark: Number(p.watermark),
    finish_seq: null,
    splits: (p.splits ?? []) as TrialListed["splits"],
    family: orNull(p.family_id),
    stage: orNull(p.stage),
    created_at: entry.at,
    started_at: null,
    ended_at: null,
    wall_s: null,
    proposer: text(p.proposer),
    parent: orNull(p.parent_id),
    patched: (p.patch_digest ?? null) !== null,
    attempts: 0,
    scores: {},
    metrics: {},
    non_finite: [],
  };
}

const HANDLERS: Readonly<Record<string, Handler>> = {
  study_moved: (study, { payload }) => [
    {
      do: "patch_study",
      patch: {
        state: payload.new,
        reason: orNull(payload.reason),
        detail: text(payload.detail),
        paused_by: orNull(payload.paused_by),
      },
    },
    refresh(keys.study(study)),
    refresh(keys.notifications(study), LATER_MS),
  ],
  inputs_frozen: (study) => [refresh(keys.study(study)), refresh(keys.spec(study))],
  worker_claimed: (study) => [refresh(keys.study(study))],
  command_applied: (study) => [refresh(keys.study(study))],
  setting_changed: (study) => [refresh(keys.study(study)), refresh(keys.spec(study))],
  budget_changed: (study) => [refresh(keys.study(study)), refresh(keys.spec(study))],
  proposals_made: (study) => [refresh(keys.proposer(study), PLOTS_MS)],
  model_called: (study) => [refresh(keys.proposer(study), PLOTS_MS)],
  model_calls_settled: (study) => [refresh(keys.study(study), LATER_MS)],
  candidate_proposed: (study, entry) => [
    { do: "add_trial", trial: proposedTrial(study, entry) },
    refresh(keys.study(study)),
  ],
  attempt_launching: (study) => [openTrial(study)],
  attempt_started: (study, { payload, at }) => [
    openTrial(study),
    ...(payload.trial_starts === true
      ? [
          trialPatch(text(payload.trial_id), {
            state: "running",
            outcome: "running",
            started_at: at,
          }),
          refresh(keys.study(study)),
        ]
      : []),
  ],
  values_reported: (_, { payload }) => [refresh(keys.values(text(payload.trial_id)), SOON_MS)],
  attempt_exited: (study) => [openTrial(study)],
  attempt_ended: (study) => [openTrial(study)],
  artifact_recorded: (study, { payload }) => [
    openTrial(study),
    ...(payload.collects === true
      ? [trialPatch(text(payload.trial_id), { state: "evaluating", outcome: "evaluating" })]
      : []),
  ],
  artifact_released: (study) => [openTrial(study)],
  trial_evaluated: (study, entry) => [
    openTrial(study),
    trialPatch(text(entry.payload.trial_id), {
      ...(entry.payload.split === "search" ? valueOf(entry) : {}),
      ...(entry.payload.last === true ? { state: "deciding", outcome: "deciding" } : {}),
    }),
  ],
  trial_decided: (study, entry) => [
    trialPatch(text(entry.payload.trial_id), {
      state: "complete",
      outcome: OUTCOMES[text(entry.payload.verdict)] ?? "measured",
      reason: entry.payload.reason as TrialListed["reason"],
      ...valueOf(entry),
      finish_seq: Number(entry.payload.finish_seq),
      ended_at: entry.at,
    }),
    ...settled(study),
  ],
  trial_served: (study, entry) => [
    trialPatch(text(entry.payload.trial_id), {
      state: "complete",
      outcome: "served",
      ...valueOf(entry),
      finish_seq: Number(entry.payload.finish_seq),
      ended_at: entry.at,
    }),
    ...settled(study),
  ],
  trial_ended: (study, { payload, at }) => [
    trialPatch(text(payload.trial_id), {
      state: payload.new as TrialListed["state"],
      outcome: payload.new as TrialListed["outcome"],
      reason: payload.reason as TrialListed["reason"],
      detail: text(payload.detail),
      finish_seq: Number(payload.finish_seq),
      ended_at: at,
    }),
    ...settled(study),
  ],
  family_opened: (study) => gate(study),
  family_moved: (study) => gate(study),
  candidate_promoted: (study) => gate(study),
  conversion_opened: () => [refresh(keys.candidates(), LATER_MS)],
  conversion_measured: (study) => [openTrial(study)],
  conversion_ended: () => [refresh(keys.candidates(), LATER_MS)],
};

const gate = (study: string): readonly Effect[] => [
  refresh(keys.study(study)),
  refresh(keys.candidates(), LATER_MS),
  refresh(keys.promotions(), LATER_MS),
  refresh(keys.notifications(study), LATER_MS),
];

/** An unknown kind changes nothing but the list of events. */
export function effectsOf(study: string, entry: Entry): readonly Effect[] {
  return HANDLERS[entry.kind]?.(study, entry) ?? [];
}
