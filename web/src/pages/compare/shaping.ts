/** Several trials side by side: what differs, and what each scored. */
import type { Trial } from "../../api/types";
import { numberAt } from "../../format/finite";
import { own } from "../../format/own";

type Param = Trial["params"][string];

export interface ParamRow {
  readonly name: string;
  /** By trial; undefined where a trial has none of that name. */
  readonly values: readonly (Param | undefined)[];
  readonly differs: boolean;
}

/** Those that differ first, each group in the order of first occurrence. */
export function paramRows(trials: readonly Pick<Trial, "params">[]): readonly ParamRow[] {
  const names = [...new Set(trials.flatMap((trial) => Object.keys(trial.params)))];
  const rows = names.map((name) => {
    const values = trials.map((trial) => own(trial.params, name));
    return { name, values, differs: new Set(values).size > 1 };
  });
  return [...rows.filter((row) => row.differs), ...rows.filter((row) => !row.differs)];
}

export interface ScoreRow {
  readonly split: string;
  readonly metric: string;
  readonly values: readonly (number | null)[];
  /** Of how many items each is the mean; 0 where that is not said. */
  readonly items: readonly number[];
}

export function scoreRows(
  trials: readonly Pick<Trial, "evaluations" | "non_finite">[],
): readonly ScoreRow[] {
  const keys = new Map<string, { split: string; metric: string }>();
  for (const { evaluations } of trials) {
    for (const { split, scores } of evaluations) {
      for (const metric of Object.keys(scores)) {
        keys.set(`${split}/${metric}`, { split, metric });
      }
    }
  }
  return [...keys.values()].map(({ split, metric }) => {
    const found = trials.map(({ evaluations, non_finite }) => {
      const place = evaluations.findIndex(
        (one) => one.split === split && Object.hasOwn(one.scores, metric),
      );
      const evaluation = evaluations[place];
      return {
        value: numberAt(
          evaluation?.scores[metric],
          `evaluations/${String(place)}/scores/${metric}`,
          non_finite,
        ),
        items: evaluation?.items ?? 0,
      };
    });
    return {
      split,
      metric,
      values: found.map((one) => one.value),
      items: found.map((one) => one.items),
    };
  });
}

/** Where the best of a row stands, where there is something to choose. */
export function bestPlace(
  values: readonly (number | null)[],
  direction: "maximize" | "minimize",
): number | null {
  const finite = values.filter((value): value is number => value !== null && isFinite(value));
  if (new Set(finite).size < 2) return null;
  return values.indexOf(direction === "maximize" ? Math.max(...finite) : Math.min(...finite));
}
