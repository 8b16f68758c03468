/** How many GPUs generate one update's rollouts in time. */
import { useMutation } from "@tanstack/react-query";
import { useState, type SubmitEvent } from "react";
import { Problem, problemText } from "../../api/problems";
import { sizeRollouts, type RolloutQuestion } from "../../api/queries/plans";
import { formatCount, plural } from "../../format/numbers";
import { Button } from "../../ui/Button";
import { Card } from "../../ui/Card";
import { TextField } from "../../ui/Field";
import { Faults } from "./Faults";
import css from "./Plan.module.css";
import { faultsOf } from "./study";

interface Input {
  readonly name: keyof RolloutQuestion;
  readonly label: string;
  readonly hint: string;
  readonly start: string;
}

const INPUTS: readonly Input[] = [
  { name: "prompts", label: "Prompts", hint: "of one update", start: "64" },
  { name: "group_size", label: "Group size", hint: "completions of each prompt", start: "8" },
  { name: "average_tokens", label: "Tokens", hint: "of a completion, on average", start: "512" },
  {
    name: "tokens_per_second",
    label: "Tokens a second",
    hint: "of one rollout GPU, measured on the real prompts",
    start: "2500",
  },
  { name: "window_s", label: "Window", hint: "seconds that rollouts may take", start: "60" },
];
const NAMES = INPUTS.map((input) => input.name);

type Values = Readonly<Record<keyof RolloutQuestion, string>>;

export function RolloutForm() {
  const [values, setValues] = useState<Values>(
    () => Object.fromEntries(INPUTS.map((input) => [input.name, input.start])) as Values,
  );
  const size = useMutation({ mutationFn: sizeRollouts });
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    // An empty field is no number: null, which the server refuses by the field's name.
    const entries = NAMES.map((name) => [
      name,
      values[name].trim() === "" ? null : Number(values[name]),
    ]);
    size.mutate(Object.fromEntries(entries) as RolloutQuestion);
  };
  const { error } = size;
  const found = error instanceof Problem ? error.findings : [];
  const { byField, rest } = faultsOf(found, "body.", NAMES);
  const others =
    error === null || found.length > 0 ? rest : [{ field: "", detail: problemText(error) }];
  return (
    <div className={css.results}>
      <Card
        title="Rollouts of one update"
        note="a lower bound: long tails, rewards and synchronisation come on top"
      >
        <form className={css.form} onSubmit={submit} noValidate>
          <div className={css.grid}>
            {INPUTS.map((input) => (
              <TextField
                key={input.name}
                label={input.label}
                hint={input.hint}
                inputMode="numeric"
                value={values[input.name]}
                onChange={(value) => setValues({ ...values, [input.name]: value })}
                problem={byField[input.name]}
              />
            ))}
          </div>
          <div className={css.foot}>
            <Button type="submit" look="strong" icon="plan" isBusy={size.isPending}>
              Size
            </Button>
          </div>
          <Faults faults={others} />
        </form>
      </Card>
      {size.data !== undefined && error === null && (
        <Card title="At least">
          <p className={css.big} role="status">
            {plural(size.data.gpus, "GPU")}
          </p>
          <p>{formatCount(size.data.tokens)} tokens to generate within the window</p>
        </Card>
      )}
    </div>
  );
}
