/** The names that stay while what they name moves. */
import { useState } from "react";
import { useBarred } from "../../api/queries/access";
import type { Incumbent } from "../../api/queries/promotions";
import type { Alias } from "../../api/queries/registry";
import { plural } from "../../format/numbers";
import { oneLine } from "../../format/text";
import { Tag } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { Card } from "../../ui/Card";
import { Failure, Loading, Skeleton } from "../../ui/States";
import { RelativeTime } from "../../ui/Values";
import { AliasDialog, RemoveAliasDialog } from "./AliasDialog";
import type { FoundModel } from "./found";
import css from "./Models.module.css";

interface AliasesCardProps {
  readonly model: string;
  readonly positions: readonly Incumbent[];
  readonly found: FoundModel;
}

type Open = { readonly what: "new" } | { readonly what: "move" | "remove"; readonly alias: Alias };

export function AliasesCard({ model, positions, found }: AliasesCardProps) {
  const [open, setOpen] = useState<Open | null>(null);
  const barred = useBarred("promote");
  const aliases = found.data?.aliases ?? [];
  const close = () => setOpen(null);
  return (
    <Card
      title="Aliases"
      note={barred ?? "a name stays while the promotion that it names changes"}
      actions={
        <Button icon="link" barred={barred} onClick={() => setOpen({ what: "new" })}>
          New alias
        </Button>
      }
    >
      {found.data === undefined ? (
        found.isError ? (
          <Failure what="The aliases" error={found.error} onRetry={() => void found.refetch()} />
        ) : (
          <Loading what="the aliases">
            <Skeleton lines={2} />
          </Loading>
        )
      ) : (
        <>
          {aliases.length === 0 && (
            <p className={css.faint}>No alias names one of its promotions.</p>
          )}
          <ul className={css.aliases} aria-label="Aliases">
            {aliases.map((alias) => (
              <li key={alias.alias}>
                <div className={css.named}>
                  <Tag tone="info">{`@${oneLine(alias.alias, 64)}`}</Tag>
                  <Said alias={alias} />
                </div>
                <div className={css.actions}>
                  <Button
                    look="quiet"
                    barred={barred}
                    aria-label={`Move @${alias.alias}`}
                    onClick={() => setOpen({ what: "move", alias })}
                  >
                    Move
                  </Button>
                  <Button
                    look="quiet"
                    barred={barred}
                    aria-label={`Remove @${alias.alias}`}
                    onClick={() => setOpen({ what: "remove", alias })}
                  >
                    Remove
                  </Button>
                </div>
              </li>
            ))}
          </ul>
          <Changes changes={found.data.alias_changes} />
        </>
      )}
      {open !== null && open.what !== "remove" && (
        <AliasDialog
          model={model}
          aliases={aliases}
          positions={positions}
          moved={open.what === "move" ? open.alias : undefined}
          onClose={close}
        />
      )}
      {open?.what === "remove" && (
        <RemoveAliasDialog model={model} alias={open.alias} onClose={close} />
      )}
    </Card>
  );
}

/** What an alias names, since when, by whom and why. */
function Said({ alias }: { readonly alias: Alias }) {
  return (
    <span className={css.said}>
      {alias.promotion === null ? "names nothing" : `names ${String(alias.promotion)}`}
      {`, by ${oneLine(alias.actor, 80)} `}
      <RelativeTime at={alias.at} />
      {alias.note !== "" && `: ${oneLine(alias.note, 300)}`}
    </span>
  );
}

function Changes({ changes }: { readonly changes: readonly Alias[] }) {
  if (changes.length === 0) return null;
  return (
    <details className={css.changes}>
      <summary>{plural(changes.length, "change")}</summary>
      <ol>
        {changes.map((change, at) => (
          <li key={at}>
            <code>{`@${oneLine(change.alias, 64)}`}</code> <Said alias={change} />
          </li>
        ))}
      </ol>
    </details>
  );
}
