import { oneLine } from "../../format/text";
import { Notice } from "../../ui/States";
import { plural } from "../../format/numbers";
import css from "./Plan.module.css";
import type { Fault } from "./study";

/** All that is wrong with a study file, each by the key that it is about. */
export function Faults({ faults }: { readonly faults: readonly Fault[] }) {
  if (faults.length === 0) return null;
  return (
    <Notice tone="bad">
      <p>{plural(faults.length, "thing")} to change:</p>
      <ul className={css.faults}>
        {faults.map((fault, at) => (
          <li key={at}>
            {fault.field !== "" && !fault.detail.startsWith(fault.field) && (
              <code>{oneLine(fault.field, 100)}: </code>
            )}
            {oneLine(fault.detail, 700)}
          </li>
        ))}
      </ul>
    </Notice>
  );
}
