/** The facts beside a trial's curves. */
import type { Trial } from "../../api/types";
import { numberAt } from "../../format/finite";
import { formatCount, plural, words } from "../../format/numbers";
import { oneLine } from "../../format/text";
import { StateBadge } from "../../ui/Badge";
import { Card } from "../../ui/Card";
import { JsonView } from "../../ui/Code";
import { KeyValue } from "../../ui/KeyValue";
import { CandidateLink, Digest, Moment, NumberValue } from "../../ui/Values";
import { ParamsList } from "../study/ParamsList";
import css from "./Trial.module.css";

interface CardProps {
  readonly trial: Trial;
}

const VERDICTS: Readonly<Record<string, string>> = {
  keep: "kept",
  discard: "discarded",
  measured: "measured",
};

/** What screening said, and by how much. */
export function DecisionCard({ trial }: CardProps) {
  const { decision } = trial;
  if (decision === null) return null;
  return (
    <Card
      title="Decision"
      actions={<StateBadge state={VERDICTS[decision.verdict] ?? decision.verdict} />}
    >
      <KeyValue
        facts={[
          { name: "Why", value: words(decision.reason) },
          {
            name: "Margin",
            value: (
              <NumberValue value={numberAt(decision.margin, "decision/margin", trial.non_finite)} />
            ),
          },
          {
            name: "Noise floor",
            value: (
              <NumberValue
                value={numberAt(decision.noise_floor, "decision/noise_floor", trial.non_finite)}
              />
            ),
          },
          {
            name: "Compared with",
            value:
              decision.compared_with === null ? (
                "the baseline"
              ) : (
                <CandidateLink id={decision.compared_with} />
              ),
          },
        ]}
      />
    </Card>
  );
}

export function ParamsCard({ trial }: CardProps) {
  return (
    <Card title="Parameters">
      <ParamsList params={trial.params} />
    </Card>
  );
}

/** Scores by split; the evaluator that gave them is named by its digest. */
export function ScoresCard({ trial }: CardProps) {
  const rows = trial.evaluations.flatMap((evaluation, index) =>
    Object.entries(evaluation.scores).map(([metric, value]) => ({
      key: `${evaluation.attempt}/${metric}`,
      split: evaluation.split,
      metric,
      value: numberAt(value, `evaluations/${String(index)}/scores/${metric}`, trial.non_finite),
    })),
  );
  const first = trial.evaluations[0];
  if (first === undefined) return null;
  return (
    <Card
      title="Scores"
      note={first.items > 0 ? `${plural(first.items, "item")} scored singly` : undefined}
    >
      <table className={css.scores}>
        <thead>
          <tr>
            <th scope="col" className={css.split}>
              Split
            </th>
            <th scope="col">Metric</th>
            <th scope="col" className={css.number}>
              Score
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.key}>
              <td className={css.split}>{words(row.split)}</td>
              <th scope="row">{oneLine(row.metric, 80)}</th>
              <td className={css.number}>
                <NumberValue value={row.value} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <KeyValue
        facts={[
          { name: "Evaluator", value: <Digest value={first.bundle} /> },
          { name: "Artifact", value: <Digest value={first.artifact} /> },
        ]}
      />
    </Card>
  );
}

export function NetworkCard({ trial }: CardProps) {
  if (trial.network === null) return null;
  return (
    <Card title="Network" note="What its proxy let through and refused.">
      <JsonView value={trial.network} what="network requests" />
    </Card>
  );
}

export function IdentityCard({ trial }: CardProps) {
  return (
    <Card title="Identity">
      <KeyValue
        facts={[
          { name: "Trial", value: <Digest value={trial.id} what="id" /> },
          { name: "Candidate", value: <CandidateLink id={trial.candidate} /> },
          trial.parent !== null && {
            name: "Made from",
            value: <CandidateLink id={trial.parent} />,
          },
          { name: "Had seen", value: `${formatCount(trial.watermark)} finished trials` },
          trial.finish_seq !== null && {
            name: "Finished as",
            value: `number ${formatCount(trial.finish_seq)}`,
          },
          { name: "Splits", value: trial.splits.map(words).join(", ") },
          { name: "Started", value: <Moment at={trial.started_at} /> },
          { name: "Ended", value: <Moment at={trial.ended_at} /> },
        ]}
      />
    </Card>
  );
}
