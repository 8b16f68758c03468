import { useState } from "react";
import type { Incumbent } from "../../api/queries/promotions";
import { setAlias, type Alias } from "../../api/queries/registry";
import { shortId } from "../../format/lineage";
import { oneLine } from "../../format/text";
import { FormDialog } from "../../ui/Dialog";
import { SelectField, TextField } from "../../ui/Field";
import { useChange } from "./useChange";

interface AliasDialogProps {
  readonly model: string;
  readonly aliases: readonly Alias[];
  readonly positions: readonly Incumbent[];
  /** The alias that is moved; without one a new one is made. */
  readonly moved?: Alias | undefined;
  /** What it is to name at first. */
  readonly to?: number | undefined;
  readonly onClose: () => void;
}

/** Letting an alias, new or known, name a promotion. */
export function AliasDialog(props: AliasDialogProps) {
  const { model, aliases, positions, moved, onClose } = props;
  const [alias, setName] = useState(moved?.alias ?? "");
  const [number, setNumber] = useState(
    String(props.to ?? positions.find((one) => one.seq !== moved?.promotion)?.seq ?? ""),
  );
  const [note, setNote] = useState("");
  // What the reader saw when they asked: whoever changed it meanwhile was first.
  const [seen] = useState(aliases);
  const names = seen.find((one) => one.alias === alias)?.promotion ?? null;
  const change = useChange(
    () => setAlias(model, { alias, promotion: Number(number), expected: names, note }),
    (made) => `@${made.alias} names ${String(made.promotion)} now`,
    onClose,
  );
  const is_same = names !== null && String(names) === number;
  return (
    <FormDialog
      title={
        moved === undefined
          ? `Name a promotion of ${oneLine(model, 60)}`
          : `Move @${oneLine(moved.alias, 64)}`
      }
      verb={names === null ? "Set the alias" : "Move the alias"}
      isReady={alias.trim() !== "" && number !== "" && !is_same}
      isBusy={change.isBusy}
      problem={change.problem}
      isOver={change.isOver}
      onConfirm={() => change.ask(undefined)}
      onClose={onClose}
    >
      {moved === undefined && (
        <TextField
          label="Alias"
          hint={
            names === null
              ? `like production; what asks for ${oneLine(model, 40)}@production gets what it names`
              : `it names ${String(names)} now, and is moved`
          }
          value={alias}
          maxLength={64}
          autoComplete="off"
          spellCheck={false}
          required
          onChange={setName}
        />
      )}
      <SelectField
        label="Names"
        {...(is_same ? { problem: "it names this one already" } : {})}
        value={number}
        onChange={setNumber}
        options={positions.map((one, at) => ({
          value: String(one.seq),
          label: `${String(one.seq)} · ${shortId(one.candidate)}${at === 0 ? " (in place)" : ""}`,
        }))}
      />
      <TextField label="Why" hint="optional" value={note} maxLength={2000} onChange={setNote} />
    </FormDialog>
  );
}

interface RemoveAliasDialogProps {
  readonly model: string;
  readonly alias: Alias;
  readonly onClose: () => void;
}

export function RemoveAliasDialog({ model, alias, onClose }: RemoveAliasDialogProps) {
  const [note, setNote] = useState("");
  const [expected] = useState(alias.promotion);
  const change = useChange(
    () => setAlias(model, { alias: alias.alias, promotion: null, expected, note }),
    () => `@${alias.alias} names nothing now`,
    onClose,
  );
  return (
    <FormDialog
      title={`Take @${oneLine(alias.alias, 64)} away?`}
      verb="Remove the alias"
      isDangerous
      isBusy={change.isBusy}
      problem={change.problem}
      isOver={change.isOver}
      onConfirm={() => change.ask(undefined)}
      onClose={onClose}
    >
      <p>
        What asks for{" "}
        <code>
          {oneLine(model, 60)}@{oneLine(alias.alias, 64)}
        </code>{" "}
        is told that there is no such alias. Its history stays in the ledger.
      </p>
      <TextField label="Why" hint="optional" value={note} maxLength={2000} onChange={setNote} />
    </FormDialog>
  );
}
