import type { Trial } from "../../api/types";
import { plural } from "../../format/numbers";
import { Tag } from "../../ui/Badge";
import { Card } from "../../ui/Card";
import { Digest, NumberValue } from "../../ui/Values";
import css from "./Trial.module.css";

/** What the trial left in the store. */
export function ArtifactsCard({ trial }: { readonly trial: Trial }) {
  if (trial.artifacts.length === 0) return null;
  return (
    <Card title="Artifacts">
      <ul className={css.files}>
        {trial.artifacts.map((artifact) => (
          <li
            key={`${artifact.attempt}/${artifact.role}/${artifact.digest}`}
            className={css.artifact}
          >
            <span>
              <Tag>{artifact.role}</Tag> <NumberValue value={artifact.size_bytes} unit="bytes" />
              <span className={css.small}> in {plural(artifact.files, "file")}</span>
            </span>
            <Digest value={artifact.digest} />
          </li>
        ))}
      </ul>
    </Card>
  );
}
