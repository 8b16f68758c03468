import { useState } from "react";
import type { Incumbent } from "../../api/queries/promotions";
import { addNote } from "../../api/queries/registry";
import { FormDialog } from "../../ui/Dialog";
import { TextAreaField } from "../../ui/Field";
import { useChange } from "./useChange";

interface NoteDialogProps {
  readonly model: string;
  readonly of: Incumbent;
  readonly onClose: () => void;
}

/** Writing down what is to be remembered of a promotion. */
export function NoteDialog({ model, of, onClose }: NoteDialogProps) {
  const [note, setNote] = useState("");
  const change = useChange(
    () => addNote(model, of.seq, note),
    () => "Noted",
    onClose,
  );
  return (
    <FormDialog
      title={`Note on incumbent ${String(of.seq)}`}
      verb="Add the note"
      isReady={note.trim() !== ""}
      isBusy={change.isBusy}
      problem={change.problem}
      isOver={change.isOver}
      onConfirm={() => change.ask(undefined)}
      onClose={onClose}
    >
      <TextAreaField
        label="Note"
        hint="it stays in the ledger with your name, and cannot be taken back"
        value={note}
        maxLength={2000}
        required
        onChange={setNote}
      />
    </FormDialog>
  );
}
