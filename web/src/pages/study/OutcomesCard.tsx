import type { Study } from "../../api/types";
import { Card } from "../../ui/Card";
import { OutcomeBar } from "../../ui/OutcomeBar";
import css from "./Outcomes.module.css";

const KINDS = ["search", "baseline", "replay", "conversion"] as const;

/** How the trials of each kind ended. */
export function OutcomesCard({ study }: { readonly study: Study }) {
  const kinds = KINDS.flatMap((kind) => {
    const counts = study.counts[kind];
    return typeof counts === "object" ? [{ kind, counts }] : [];
  });
  return (
    <Card title="Outcomes">
      <div className={css.kinds}>
        {kinds.length === 0 && <p className={css.none}>No trial was proposed yet.</p>}
        {kinds.map(({ kind, counts }) => (
          <div key={kind}>
            {kinds.length > 1 && <h3 className={css.kind}>{kind}</h3>}
            <OutcomeBar counts={counts} />
          </div>
        ))}
      </div>
    </Card>
  );
}
