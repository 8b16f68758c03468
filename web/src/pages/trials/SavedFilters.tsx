/** Filters under a name, kept on this machine. */
import { useState } from "react";
import { readStored, writeStored } from "../../app/storage";
import { Button } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import { SelectField, TextField } from "../../ui/Field";
import { isFiltered, readTrialsSearch, type TrialsSearch } from "./search";
import css from "./Trials.module.css";

interface SavedFiltersProps {
  readonly study: string;
  readonly search: TrialsSearch;
  readonly onChoose: (search: TrialsSearch) => void;
}

type Saved = Readonly<Record<string, TrialsSearch>>;

function readSaved(key: string): Saved {
  const stored = readStored(key);
  if (typeof stored !== "object" || stored === null) return {};
  return Object.fromEntries(
    Object.entries(stored).map(([name, search]) => [
      name,
      readTrialsSearch(search as Record<string, unknown>),
    ]),
  );
}

export function SavedFilters({ study, search, onChoose }: SavedFiltersProps) {
  const key = `arl.filters.${study}`;
  const [saved, setSaved] = useState(() => readSaved(key));
  const [name, setName] = useState<string | null>(null);
  const names = Object.keys(saved);
  const current = names.find((one) => JSON.stringify(saved[one]) === JSON.stringify(search)) ?? "";
  const keep = (next: Saved) => {
    setSaved(next);
    writeStored(key, next);
  };
  return (
    <span className={css.saved}>
      {names.length > 0 && (
        <SelectField
          label="Saved filters"
          isLabelHidden
          value={current}
          onChange={(chosen) => onChoose(saved[chosen] ?? {})}
          options={[
            { value: "", label: "Saved filters" },
            ...names.map((one) => ({ value: one, label: one })),
          ]}
        />
      )}
      {isFiltered(search) && current === "" && (
        <Button look="quiet" onClick={() => setName("")}>
          Save filter
        </Button>
      )}
      {current !== "" && (
        <Button
          look="quiet"
          onClick={() =>
            keep(Object.fromEntries(Object.entries(saved).filter(([one]) => one !== current)))
          }
        >
          Forget it
        </Button>
      )}
      {name !== null && (
        <Dialog
          title="Save this filter"
          onClose={() => setName(null)}
          actions={
            <Button
              look="strong"
              disabled={name.trim() === ""}
              onClick={() => {
                keep({ ...saved, [name.trim()]: search });
                setName(null);
              }}
            >
              Save
            </Button>
          }
        >
          <TextField
            label="Name"
            value={name}
            maxLength={60}
            onChange={setName}
            hint="Kept in this browser, for this study."
          />
        </Dialog>
      )}
    </span>
  );
}
