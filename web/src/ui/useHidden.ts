import { useMemo, useState } from "react";
import { readStored, writeStored } from "../app/storage";

/** Which columns are hidden: at first the given ones, then what was chosen on this machine. */
export function useHidden(
  key: string,
  first: ReadonlySet<string>,
): [ReadonlySet<string>, (id: string, is_hidden: boolean) => void] {
  const [choices, setChoices] = useState(() => readChoices(key));
  const hidden = useMemo(() => {
    const found = new Set(first);
    for (const [id, is_hidden] of Object.entries(choices)) {
      if (is_hidden) found.add(id);
      else found.delete(id);
    }
    return found;
  }, [first, choices]);
  const choose = (id: string, is_hidden: boolean) => {
    const next = { ...choices, [id]: is_hidden };
    setChoices(next);
    writeStored(key, next);
  };
  return [hidden, choose];
}

function readChoices(key: string): Readonly<Record<string, boolean>> {
  const stored = readStored(key);
  if (typeof stored !== "object" || stored === null) return {};
  return Object.fromEntries(Object.entries(stored).map(([id, value]) => [id, value === true]));
}
