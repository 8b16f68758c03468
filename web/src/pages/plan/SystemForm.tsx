/** The architecture planner: axes of a post-training system, checked against each other. */
import { useMutation } from "@tanstack/react-query";
import { useState, type SubmitEvent } from "react";
import { Problem, problemText } from "../../api/problems";
import { checkStudy, priceStudy, type PlanPrice } from "../../api/queries/plans";
import { words } from "../../format/numbers";
import { Button } from "../../ui/Button";
import { Card } from "../../ui/Card";
import { SelectField, TextField } from "../../ui/Field";
import axes from "./axes.json";
import { Faults } from "./Faults";
import css from "./Plan.module.css";
import { Implied } from "./PriceResult";
import { faultsOf, studyAround, type Axes, type Fault } from "./study";

const MAIN = [
  "stage",
  "optimizer",
  "reward",
  "parameterization",
  "trainer",
  "rollout",
  "sync",
  "train_precision",
  "rollout_precision",
  "correction",
  "hardware",
  "deployment_quant",
] as const;
const COUNTS = ["group_size", "trainer_gpus", "rollout_gpus", "staleness_bound"] as const;
const VALUES: Readonly<Record<string, readonly string[]>> = axes;
const FURTHER = Object.keys(VALUES).filter((axis) => !MAIN.some((main) => main === axis));
const KNOWN = [...MAIN, ...COUNTS, ...FURTHER];

interface Answer {
  readonly problems: readonly Fault[];
  readonly plan: PlanPrice | null;
}

async function planSystem(stated: Axes): Promise<Answer> {
  const study = studyAround(stated);
  const checked = await checkStudy(study);
  if (!checked.valid) return { problems: checked.problems, plan: null };
  return { problems: [], plan: await priceStudy(study, null) };
}

export function SystemForm() {
  const [stated, setStated] = useState<Axes>({
    stage: "online_rl",
    optimizer: "grpo",
    reward: "verifier",
    trainer: "fsdp2",
    rollout: "colocated",
    group_size: "8",
  });
  const plan = useMutation({ mutationFn: planSystem });
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    plan.mutate(stated);
  };
  const { byField, rest } = faultsOf(plan.data?.problems ?? [], "program.plan.", KNOWN);
  const change = (axis: string, value: string) => setStated({ ...stated, [axis]: value });
  const select = (axis: string) => (
    <SelectField
      key={axis}
      label={words(axis)}
      value={stated[axis] ?? ""}
      onChange={(value) => change(axis, value)}
      problem={byField[axis]}
      options={[
        { value: "", label: "implied" },
        ...(VALUES[axis] ?? []).map((value) => ({ value, label: words(value) })),
      ]}
    />
  );
  return (
    <div className={css.results}>
      <Card
        title="System"
        note="One value on each axis makes a system; what is left open follows from the others"
      >
        <form className={css.form} onSubmit={submit} noValidate>
          <div className={css.grid}>
            {MAIN.map(select)}
            {COUNTS.map((axis) => (
              <TextField
                key={axis}
                label={words(axis)}
                inputMode="numeric"
                placeholder="implied"
                value={stated[axis] ?? ""}
                onChange={(value) => change(axis, value.trim())}
                problem={byField[axis]}
              />
            ))}
          </div>
          <details className={css.more} open={FURTHER.some((axis) => byField[axis]) || undefined}>
            <summary>Further axes</summary>
            <div className={css.grid}>{FURTHER.map(select)}</div>
          </details>
          <div className={css.foot}>
            <Button type="submit" look="strong" icon="plan" isBusy={plan.isPending}>
              Check the system
            </Button>
          </div>
          <Faults faults={[...rest, ...failure(plan.error)]} />
        </form>
      </Card>
      {plan.data?.plan !== undefined && plan.data.plan !== null && (
        <Implied plan={plan.data.plan} />
      )}
    </div>
  );
}

function failure(error: unknown): readonly Fault[] {
  if (error === null) return [];
  if (error instanceof Problem && error.findings.length > 0) return error.findings;
  return [{ field: "", detail: problemText(error) }];
}
