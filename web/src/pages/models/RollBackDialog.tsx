import { useState } from "react";
import type { Incumbent } from "../../api/queries/promotions";
import { rollBack } from "../../api/queries/registry";
import { shortId } from "../../format/lineage";
import { oneLine } from "../../format/text";
import { FormDialog } from "../../ui/Dialog";
import { TextAreaField } from "../../ui/Field";
import { useChange } from "./useChange";

interface RollBackDialogProps {
  readonly model: string;
  readonly to: Incumbent;
  readonly current: Incumbent;
  readonly onClose: () => void;
}

/** Giving the pointer to an earlier candidate again, with the reason. */
export function RollBackDialog({ model, to, current, onClose }: RollBackDialogProps) {
  const [note, setNote] = useState("");
  // What the reader saw when they asked: whoever moved it meanwhile was first.
  const [expected] = useState(current.seq);
  const change = useChange(
    () => rollBack(model, { to: to.seq, expected, note }),
    (made) =>
      `Candidate ${shortId(made.candidate)} is the incumbent again, as number ${String(made.seq)}`,
    onClose,
  );
  return (
    <FormDialog
      title={`Roll ${oneLine(model, 60)} back to ${String(to.seq)}?`}
      verb="Roll back"
      isDangerous
      isReady={note.trim() !== ""}
      isBusy={change.isBusy}
      problem={change.problem}
      isOver={change.isOver}
      onConfirm={() => change.ask(undefined)}
      onClose={onClose}
    >
      <p>
        Candidate <code>{shortId(to.candidate)}</code> becomes the incumbent in place of{" "}
        <code>{shortId(current.candidate)}</code>: studies submitted from now on have to beat it.
        What was promoted then is read first, every byte of it. Aliases stay where they are.
      </p>
      <TextAreaField
        label="Why"
        hint="for those who look later; it goes into the ledger with your name"
        value={note}
        maxLength={2000}
        required
        onChange={setNote}
      />
    </FormDialog>
  );
}
