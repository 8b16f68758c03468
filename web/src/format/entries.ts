/** Entries of the ledger in a sentence each. */
import type { Entry } from "../api/types";
import type { IconName } from "../ui/Icon";
import { formatNumber, plural, resourceName, words } from "./numbers";
import { stateLook, type Tone } from "./states";
import { oneLine } from "./text";

export interface Told {
  readonly icon: IconName;
  readonly tone: Tone;
  readonly text: string;
}

type Payload = Entry["payload"];
type Teller = (payload: Payload) => Told;

const told = (icon: IconName, tone: Tone, text: string): Told => ({ icon, tone, text });
const text = (value: unknown): string => (typeof value === "string" ? oneLine(value, 160) : "");
const code = (value: unknown): string => words(text(value));
const number = (value: unknown): string => (typeof value === "number" ? formatNumber(value) : "–");
const count = (value: unknown): number => (typeof value === "number" ? value : 0);

/** As the state's own badge looks. */
function asState(state: unknown, said: string): Told {
  const { icon, tone } = stateLook(text(state));
  return told(icon, tone, said);
}

/** A reason that only repeats the state says nothing. */
const because = (reason: unknown, state?: unknown): string =>
  typeof reason === "string" && reason !== state ? ` (${code(reason)})` : "";

const by = (whom: unknown): string => (text(whom) === "" ? "" : ` by ${text(whom)}`);

const OUTCOMES: Readonly<Record<string, string>> = { keep: "kept", discard: "discarded" };

const TELLERS: Readonly<Record<string, Teller>> = {
  study_submitted: (p) => told("flask", "info", `Submitted${by(p.actor)}`),
  study_imported: (p) =>
    told(
      "download",
      "info",
      `Imported ${plural(count(p.trials), "trial")} of ${text(p.name)} from ${text(p.source)}`,
    ),
  trial_imported: (p) =>
    asState(p.state, `${text(p.trial_id)} imported, ${code(p.state)}, value ${number(p.value)}`),
  study_moved: (p) => asState(p.new, `Study is ${code(p.new)}${because(p.reason, p.new)}`),
  inputs_frozen: (p) =>
    told("lock", "info", `Inputs frozen: ${plural(Object.keys(p.inputs ?? {}).length, "tree")}`),
  worker_claimed: (p) => told("system", "mute", `Claimed by worker ${text(p.owner)}`),
  command_applied: (p) =>
    p.refused === true
      ? told("ban", "warn", `${code(p.verb)} by ${text(p.actor)} was refused: ${text(p.detail)}`)
      : told("hand", "info", `${code(p.verb)} by ${text(p.actor)}`),
  budget_changed: (p) =>
    told("ruler", "info", `${resourceName(text(p.resource))} limited to ${number(p.limit)}`),
  setting_changed: (p) => told("ruler", "info", `${code(p.setting)} changed`),
  proposals_made: (p) =>
    told("dot", "mute", `Proposer gave ${String(count(p.given))} of ${String(count(p.asked))}`),
  proposer_waits: (p) =>
    text(p.detail) === ""
      ? told("play", "info", "Proposer goes on")
      : told("clock", "warn", `Proposer waits: ${text(p.detail)}`),
  model_calls_reserved: (p) => told("clock", "mute", `${number(p.tokens)} model tokens set aside`),
  model_called: (p) => told("dot", "mute", `Model ${text(p.model)} asked: ${code(p.outcome)}`),
  model_calls_settled: (p) => told("check", "mute", `${number(p.tokens)} model tokens used`),
  candidate_proposed: (p) =>
    told(
      "clock",
      "mute",
      `Trial ${number(p.number)} proposed${by(p.proposer)}${because(p.trial_kind)}`,
    ),
  attempt_launching: (p) => told("clock", "info", `Launching ${attempt(p)}`),
  attempt_started: (p) => told("play", "info", `Started ${attempt(p)}`),
  values_reported: (p) =>
    told("chart", "mute", `${plural(count(p.count), "value")} reported by ${attempt(p)}`),
  network_requested: (p) =>
    told(
      "link",
      count(p.refused) > 0 ? "warn" : "mute",
      `${plural(count(p.count), "network request")}, ${String(count(p.refused))} refused`,
    ),
  attempt_exited: (p) => told("drain", "info", `${attempt(p)} ended: ${code(p.cause)}`),
  attempt_ended: (p) => asState(p.new, `${attempt(p)} ${code(p.new)}${because(p.reason, p.new)}`),
  artifact_recorded: (p) => told("file", "info", `Stored ${code(p.role)} of ${attempt(p)}`),
  artifact_released: (p) =>
    told("file", "mute", `Let go of ${code(p.role)} of ${attempt(p)}${because(p.reason, "")}`),
  restore_accepted: (p) =>
    told("link", "warn", `An older ledger was accepted, ${String(count(p.lost))} entries lost`),
  trial_evaluated: (p) =>
    told("scale", "info", `Scored ${number(p.value)} on ${code(p.split)}: ${text(p.trial_id)}`),
  trial_decided: (p) => {
    const outcome = OUTCOMES[text(p.verdict)] ?? "measured";
    return asState(
      outcome,
      `${text(p.trial_id)} ${outcome}${because(p.reason, outcome)}, value ${number(p.value)}`,
    );
  },
  trial_served: (p) =>
    told("copy", "mute", `${text(p.trial_id)} answered from ${text(p.of_trial)}`),
  trial_ended: (p) =>
    asState(p.new, `${text(p.trial_id)} ${code(p.new)}${because(p.reason, p.new)}`),
  family_opened: (p) =>
    told("scale", "rare", `Family ${number(p.number)} opened for ${text(p.model)}`),
  holdout_used: (p) =>
    told("ruler", "rare", `Holdout used ${number(p.use)} of ${number(p.limit)} times`),
  family_moved: (p) => asState(p.new, `Promotion ${code(p.new)}${because(p.reason, p.new)}`),
  candidate_promoted: (p) =>
    told("flag", "good", `${text(p.candidate_id)} promoted for ${text(p.model)}`),
};

const attempt = (payload: Payload): string => text(payload.attempt_id) || "an attempt";

/** A kind that is not known is shown by its name. */
export function tellEntry(entry: Pick<Entry, "kind" | "payload">): Told {
  return TELLERS[entry.kind]?.(entry.payload) ?? told("dot", "mute", words(entry.kind));
}
