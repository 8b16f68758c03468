/** What a promotion gate computed, read from a family's evidence: its checks, its runs by side. */
import { formatNumber, plural, words } from "./numbers";
import { meanOf } from "./spread";

type Json = Readonly<Record<string, unknown>>;

export interface Gate {
  readonly state: string;
  readonly reason: string | null;
  readonly profile: Json;
  readonly evidence: Json;
}

export type Verdict = "passed" | "failed" | "waiting" | "unreached";

export interface Check {
  readonly id: string;
  readonly title: string;
  readonly verdict: Verdict;
  readonly detail: string;
}

export interface RunGroup {
  readonly id: string;
  readonly label: string;
  readonly side: "candidate" | "incumbent";
  readonly values: readonly number[];
  readonly failed: number;
  readonly candidate?: string;
}

export interface Comparison {
  readonly id: string;
  readonly title: string;
  readonly note: string;
  readonly groups: readonly RunGroup[];
  /** What the candidate's mean has to beat, where the gate drew such a line. */
  readonly bar: number | null;
}

const OPEN = "open";

export const numberOf = (value: unknown): number | null =>
  typeof value === "number" && Number.isFinite(value) ? value : null;

const numbersOf = (value: unknown): readonly number[] =>
  Array.isArray(value) ? value.flatMap((one) => numberOf(one) ?? []) : [];

const objectOf = (value: unknown): Json =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Json) : {};

export function intervalOf(evidence: Json): readonly [number, number] | null {
  const [low, high] = numbersOf(evidence.ci95);
  return low === undefined || high === undefined ? null : [low, high];
}

export const bestOf = (evidence: Json): string | null =>
  typeof evidence.best === "string" ? evidence.best : null;

/** The gate's questions in its order; each as far as it was answered. */
export function gateChecks(gate: Gate): readonly Check[] {
  const { evidence } = gate;
  return [
    poolCheck(gate),
    {
      id: "stage1",
      title: "Best of its family beats the bar",
      ...verdictOf(gate, "stage1_mean", "stage1_futility"),
      detail: against(evidence, "stage1_mean", numberOf(evidence.bar), "the bar"),
    },
    {
      id: "interim",
      title: "Still better halfway through stage 2",
      ...verdictOf(gate, "interim_mean", "interim_futility"),
      detail: against(evidence, "interim_mean", poolMean(evidence), "the incumbent"),
    },
    {
      id: "test",
      title: "Better by more than chance",
      ...verdictOf(gate, "p", "not_significant"),
      detail: testDetail(evidence),
    },
    {
      id: "confirm",
      title: "Confirmed on fresh runs of both",
      ...verdictOf(gate, "gain", "not_confirmed"),
      detail: gainDetail(evidence),
    },
    ...guardChecks(evidence),
  ];
}

function verdictOf(gate: Gate, key: string, failure: string): { readonly verdict: Verdict } {
  if (gate.reason === failure) return { verdict: "failed" };
  if (numberOf(gate.evidence[key]) !== null) return { verdict: "passed" };
  return { verdict: gate.state === OPEN ? "waiting" : "unreached" };
}

function poolCheck({ evidence, profile, reason, state }: Gate): Check {
  const runs = numbersOf(objectOf(evidence.pool).a).length;
  const wanted = numberOf(profile.n0);
  const verdict =
    reason === "pool_too_small"
      ? "failed"
      : runs > 0
        ? "passed"
        : state === OPEN
          ? "waiting"
          : "unreached";
  const of = wanted === null ? "" : ` of ${formatNumber(wanted)}`;
  return {
    id: "pool",
    title: "Incumbent measured",
    verdict,
    detail: runs === 0 ? "" : `${formatNumber(runs)}${of} runs`,
  };
}

function against(evidence: Json, key: string, bar: number | null, what: string): string {
  const value = numberOf(evidence[key]);
  if (value === null) return "";
  const base = `mean ${formatNumber(value)}`;
  return bar === null
    ? base
    : `${base} against ${what}'s ${formatNumber(bar)}`.replace("the bar's", "the bar at");
}

function poolMean(evidence: Json): number | null {
  return meanOf(numbersOf(objectOf(evidence.pool).b));
}

function testDetail(evidence: Json): string {
  const p = numberOf(evidence.p);
  if (p === null) return "";
  const alpha = numberOf(evidence.alpha);
  return `p = ${formatNumber(p, 3)}${alpha === null ? "" : `, passes at ${formatNumber(alpha)} or less`}`;
}

function gainDetail(evidence: Json): string {
  const gain = numberOf(evidence.gain);
  if (gain === null) return "";
  const interval = intervalOf(evidence);
  const least = numberOf(evidence.min_effect) ?? 0;
  const parts = [
    `gain ${formatNumber(gain)}`,
    ...(interval === null
      ? []
      : [`95 % interval ${formatNumber(interval[0])} to ${formatNumber(interval[1])}`]),
    `has to be above ${formatNumber(least)}`,
  ];
  return parts.join(", ");
}

function guardChecks(evidence: Json): readonly Check[] {
  return Object.entries(objectOf(evidence.guards)).map(([metric, found]) => {
    const { drop, drop_bound95, holds, max_drop } = objectOf(found);
    const bound = numberOf(drop_bound95);
    const most = numberOf(max_drop);
    const measured = numberOf(drop);
    return {
      id: `guard:${metric}`,
      title: `Guard: ${words(metric)}`,
      verdict: holds === true ? "passed" : "failed",
      detail: [
        dropText(measured),
        ...(bound === null
          ? []
          : [`the drop is below ${formatNumber(bound)} with 95 % confidence`]),
        ...(most === null ? [] : [`${formatNumber(most)} is allowed`]),
      ].join(", "),
    };
  });
}

/** A drop below nought is a gain. */
function dropText(drop: number | null): string {
  if (drop === null) return "not measured";
  return drop > 0 ? `worse by ${formatNumber(drop)}` : `better by ${formatNumber(-drop)}`;
}

/** The runs that were compared, stage by stage, incumbent first. */
export function comparisons({ evidence }: Gate): readonly Comparison[] {
  const pool = objectOf(evidence.pool);
  const stage1 = Object.entries(objectOf(evidence.stage1));
  const best = bestOf(evidence);
  const stage2 = objectOf(evidence.stage2);
  const confirm = objectOf(evidence.confirm);
  const poolOn = (half: "a" | "b"): RunGroup => ({
    id: `pool-${half}`,
    label: "Incumbent",
    side: "incumbent",
    values: numbersOf(pool[half]),
    failed: 0,
  });
  const found: Comparison[] = [
    {
      id: "confirm",
      title: "Confirmation",
      note: "Fresh runs of both on the whole holdout: the gain is measured here and nowhere else",
      bar: null,
      groups: [
        group("old", "Incumbent", "incumbent", confirm.old, confirm.old_failed),
        group("new", "Candidate", "candidate", confirm.new, confirm.new_failed, best),
      ],
    },
    {
      id: "stage2",
      title: "Stage 2",
      note: "The chosen one on holdout items B: the test",
      bar: null,
      groups: [poolOn("b"), group("b", "Candidate", "candidate", stage2.b, stage2.failed, best)],
    },
    {
      id: "stage1",
      title: "Stage 1",
      note: "Every member of the family on holdout items A: the best is chosen",
      bar: numberOf(evidence.bar),
      groups: [
        poolOn("a"),
        ...stage1.map(([id, runs]) => {
          const { a, failed } = objectOf(runs);
          return group(`a:${id}`, "Candidate", "candidate", a, failed, id);
        }),
      ],
    },
  ];
  return found.filter((one) =>
    one.groups.some((g) => g.side === "candidate" && g.values.length > 0),
  );
}

function group(
  id: string,
  label: string,
  side: RunGroup["side"],
  values: unknown,
  failed: unknown,
  candidate: string | null = null,
): RunGroup {
  const base = { id, label, side, values: numbersOf(values), failed: numberOf(failed) ?? 0 };
  return candidate === null ? base : { ...base, candidate };
}

/** What became of the family in a sentence. */
export function endText({ state, reason }: Gate): string {
  switch (state) {
    case "open":
      return "Its replays are still running.";
    case "awaiting_approval":
      return "It passed every check. A person has to approve it.";
    case "promoted":
      return "It passed every check and is the incumbent since.";
    case "declined":
      return "It passed, and was declined.";
    default:
      return reason === null ? `It ended as ${words(state)}.` : `It ended: ${words(reason)}.`;
  }
}

/** `stage2:3` is the run with seed 3 of stage 2. */
export function stageText(stage: string | null, is_pool: boolean): string {
  if (is_pool) return "pool";
  if (stage === null) return "replay";
  const [name = "", index] = stage.split(":");
  if (name === "convert") return index === undefined ? "conversion" : `conversion ${index}`;
  const spaced = words(name.replace(/^stage(\d)/, "stage $1"));
  return index === undefined ? spaced : `${spaced}, seed ${index}`;
}

export const failedText = (failed: number): string =>
  failed === 0 ? "" : `${plural(failed, "run")} failed and counted as the worst value seen`;
