/** A pasted study file: whether it is valid, what it implies, what all of it costs. */
import { useMutation } from "@tanstack/react-query";
import { useId, useState, type SubmitEvent } from "react";
import { Problem, problemText } from "../../api/problems";
import { priceStudy } from "../../api/queries/plans";
import { Button } from "../../ui/Button";
import { Card } from "../../ui/Card";
import { TextField } from "../../ui/Field";
import { Faults } from "./Faults";
import css from "./Plan.module.css";
import { PriceResult } from "./PriceResult";
import { readStudy, type Fault } from "./study";

const EXAMPLE = `name: demo
objective: {metric: score, direction: maximize}
program:
  kind: command
  argv: [python, train.py]
space:
  learning_rate: {type: float, low: 1e-6, high: 1e-3, log: true}
evaluator:
  bundle: evaluator
  argv: [python, evaluate.py]
  splits: {search: search.jsonl, holdout: holdout.jsonl}
  metrics: {score: {low: 0, high: 1}}
budget: {trials: 40, wall_time: 8h}
promotion: {model: demo, profile: quick}
`;

export function PriceForm() {
  const id = useId();
  const [text, setText] = useState("");
  const [wall, setWall] = useState("");
  const [unread, setUnread] = useState<string | null>(null);
  const price = useMutation({
    mutationFn: (asked: { study: Record<string, unknown>; wall_s: number | null }) =>
      priceStudy(asked.study as Parameters<typeof priceStudy>[0], asked.wall_s),
  });
  const wall_s = wall.trim() === "" ? null : Number(wall);
  const is_wall_wrong = wall_s !== null && !(wall_s > 0);
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    if (is_wall_wrong) return;
    const { study, problem } = readStudy(text);
    setUnread(problem ?? null);
    price.reset();
    if (study !== undefined) price.mutate({ study, wall_s });
  };
  return (
    <div className={css.results}>
      <Card
        title="Study file"
        note="YAML or JSON, as for arl submit; its paths are not opened"
        actions={
          <Button look="quiet" icon="file" onClick={() => setText(EXAMPLE)}>
            Example
          </Button>
        }
      >
        <form className={css.form} onSubmit={submit}>
          <div>
            <label className="visually-hidden" htmlFor={id}>
              Study file
            </label>
            <textarea
              id={id}
              className={css.text}
              value={text}
              spellCheck={false}
              autoComplete="off"
              placeholder="name: demo …"
              onChange={(event) => setText(event.target.value)}
            />
          </div>
          <div className={css.foot}>
            <TextField
              label="Seconds of one trial with its evaluation"
              inputMode="decimal"
              value={wall}
              onChange={setWall}
              placeholder="90"
              problem={is_wall_wrong ? "a number above 0, or nothing" : undefined}
            />
            <Button type="submit" look="strong" icon="plan" isBusy={price.isPending}>
              Check and price
            </Button>
          </div>
          <Faults faults={faults(unread, price.error)} />
        </form>
      </Card>
      {price.data !== undefined && <PriceResult plan={price.data} />}
    </div>
  );
}

function faults(unread: string | null, error: unknown): readonly Fault[] {
  if (unread !== null) return [{ field: "", detail: unread }];
  if (error === null) return [];
  if (error instanceof Problem && error.findings.length > 0) return error.findings;
  return [{ field: "", detail: problemText(error) }];
}
