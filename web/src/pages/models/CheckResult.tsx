import type { Checked } from "../../api/queries/registry";
import { plural } from "../../format/numbers";
import { oneLine } from "../../format/text";
import { Notice } from "../../ui/States";
import css from "./Models.module.css";

/** What came of reading everything of a promotion again. */
export function CheckResult({ found }: { readonly found: Checked }) {
  if (found.ok) {
    return (
      <p className={css.checked} role="status">
        {`It is as it was promoted and signed: entry, chain, scores, every byte of the artifact, ${plural(found.signatures, "signature")}`}
        {found.key !== null && ` with key ${found.key.slice(0, 12)}…`}.
      </p>
    );
  }
  return (
    <div role="alert">
      <Notice tone="bad">
        <ul>
          {found.findings.map((finding, at) => (
            <li key={at}>
              <code>{oneLine(finding.where, 160)}</code>: {oneLine(finding.problem, 400)}
            </li>
          ))}
        </ul>
      </Notice>
    </div>
  );
}
