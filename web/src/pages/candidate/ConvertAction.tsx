/** Making something of a promoted candidate's model: asked for here, judged by the evaluator. */
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { keys } from "../../api/keys";
import { Problem, problemText } from "../../api/problems";
import { useBarred } from "../../api/queries/access";
import { convertCandidate } from "../../api/queries/candidates";
import { METHODS, wantedOf, type Entered, type Method } from "../../format/conversions";
import { visible } from "../../format/text";
import { Button } from "../../ui/Button";
import { FormDialog } from "../../ui/Dialog";
import { SelectField, TextField } from "../../ui/Field";
import { useToast } from "../../ui/Toasts";
import { faultsOf } from "../plan/study";

interface ConvertActionProps {
  readonly candidate: string;
  /** Whether the gate promoted it. */
  readonly isPromoted: boolean;
}

export function ConvertAction({ candidate, isPromoted }: ConvertActionProps) {
  const [is_asked, setAsked] = useState(false);
  const may_not = useBarred("submit");
  const barred = may_not ?? (isPromoted ? null : "Only a promoted candidate's model is converted");
  return (
    <>
      <Button icon="gear" barred={barred} onClick={() => setAsked(true)}>
        Convert
      </Button>
      {is_asked && <ConvertDialog candidate={candidate} onClose={() => setAsked(false)} />}
    </>
  );
}

const NAMES = ["margin", "seeds", "group_size", "calibration_rows"];

interface ConvertDialogProps {
  readonly candidate: string;
  readonly onClose: () => void;
}

function ConvertDialog({ candidate, onClose }: ConvertDialogProps) {
  const [entered, setEntered] = useState<Entered>({
    method: "merge",
    margin: "",
    seeds: "",
    group_size: "",
    calibration_rows: "",
  });
  const client = useQueryClient();
  const say = useToast();
  const convert = useMutation({
    mutationFn: async () => {
      const command = await convertCandidate(candidate, wantedOf(entered));
      if (command.answer === "refused") throw new Error(command.detail);
      return command;
    },
    onSuccess: ({ answer }) => {
      say(
        "good",
        answer === "applied"
          ? "It is converted and judged on the holdout: the figures appear here"
          : "It was asked for; the worker of the study will do it",
      );
      onClose();
    },
    onSettled: () => void client.invalidateQueries({ queryKey: keys.candidate(candidate) }),
  });
  const found = convert.error instanceof Problem ? convert.error.findings : [];
  const { byField, rest } = faultsOf(found, "body.", NAMES);
  const said = rest.map((fault) => fault.detail).join("; ");
  const problem =
    convert.error === null || (found.length > 0 && said === "")
      ? undefined
      : visible(said === "" ? problemText(convert.error) : said);
  const field = (name: Exclude<keyof Entered, "method">, label: string, hint: string) => (
    <TextField
      label={label}
      hint={hint}
      inputMode="decimal"
      value={entered[name]}
      onChange={(value) => setEntered({ ...entered, [name]: value })}
      problem={byField[name]}
    />
  );
  const { method } = entered;
  return (
    <FormDialog
      title="Convert the promoted model?"
      verb="Convert and judge"
      isBusy={convert.isPending}
      problem={problem}
      onConfirm={() => convert.mutate()}
      onClose={onClose}
    >
      <p>
        A trial of its own converts the model, measures it beside the unconverted one, and asks the
        frozen evaluator on the holdout. It may be served only if it is no worse by the margin.
      </p>
      <SelectField
        label="What is made of it"
        value={method}
        onChange={(value) => setEntered({ ...entered, method: value as Method })}
        options={METHODS}
      />
      {field(
        "margin",
        "Margin",
        "how much worse is still no worse; empty: 2 % of the objective's range",
      )}
      {field("seeds", "Runs", "of the winner that are converted and judged together; empty: 1")}
      {method !== "merge" &&
        method !== "keep" &&
        method !== "int8" &&
        field("group_size", "Group size", "weights that share a scale; empty: 32")}
      {(method === "gptq" || method === "awq") &&
        field("calibration_rows", "Calibration rows", "of the training data; empty: 128")}
    </FormDialog>
  );
}
