import { useQuery } from "@tanstack/react-query";
import { artifactsQuery, fileAddress } from "../../api/queries/artifacts";
import type { Trial } from "../../api/types";
import { plural } from "../../format/numbers";
import { oneLine } from "../../format/text";
import { Tag } from "../../ui/Badge";
import { Card } from "../../ui/Card";
import { Digest, NumberValue } from "../../ui/Values";
import css from "./Trial.module.css";

const FILES_SHOWN = 12;

/** What the trial left in the store; its files are fetched by digest. */
export function ArtifactsCard({ trial }: { readonly trial: Trial }) {
  const found = useQuery({ ...artifactsQuery(trial.id), enabled: trial.artifacts.length > 0 });
  if (trial.artifacts.length === 0) return null;
  const items = found.data?.items;
  return (
    <Card title="Artifacts">
      <ul className={css.files}>
        {trial.artifacts.map((artifact, index) => {
          const listing = items?.[index];
          return (
            <li
              key={`${artifact.attempt}/${artifact.role}/${artifact.digest}`}
              className={css.artifact}
            >
              <span>
                <Tag>{artifact.role}</Tag> <NumberValue value={artifact.size_bytes} unit="bytes" />
                <span className={css.small}> in {plural(artifact.files, "file")}</span>{" "}
                {artifact.let_go === null
                  ? listing?.is_stored === false && <Tag tone="warn">no longer stored</Tag>
                  : letGo(artifact.let_go)}
              </span>
              <Digest value={artifact.digest} />
              {artifact.let_go === null && listing?.is_stored === true && (
                <ul className={css.listing}>
                  {listing.listed.slice(0, FILES_SHOWN).map((file) => (
                    <li key={file.path}>
                      <a href={fileAddress(artifact.digest, file.path)} download>
                        {oneLine(file.path, 120)}
                      </a>{" "}
                      <span className={css.small}>
                        <NumberValue value={file.size_bytes} unit="bytes" />
                      </span>
                    </li>
                  ))}
                  {artifact.files > FILES_SHOWN && (
                    <li className={css.small}>
                      and {plural(artifact.files - FILES_SHOWN, "more file", "more files")}
                    </li>
                  )}
                </ul>
              )}
            </li>
          );
        })}
      </ul>
    </Card>
  );
}

/** Why it is gone, in the study file's words. */
function letGo({ policy, reason }: NonNullable<Trial["artifacts"][number]["let_go"]>) {
  return (
    <>
      <Tag tone="mute">let go</Tag>{" "}
      <span className={css.small}>
        by retention {oneLine(policy, 40)}: {reason.replaceAll("_", " ")}
      </span>
    </>
  );
}
