/** The study file as accepted, and what was changed since. */
import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { specQuery } from "../../api/queries/studies";
import type { Spec } from "../../api/types";
import { formatAmount, resourceName } from "../../format/numbers";
import { oneLine } from "../../format/text";
import { Card } from "../../ui/Card";
import { JsonView } from "../../ui/Code";
import { KeyValue } from "../../ui/KeyValue";
import { Columns } from "../../ui/Layout";
import { Failure, Skeleton } from "../../ui/States";
import { Timeline, type TimelineItem } from "../../ui/Timeline";
import { Digest, Moment } from "../../ui/Values";
import css from "./Study.module.css";

const route = getRouteApi("/studies/$study");

export function SpecPage() {
  const { study } = route.useParams();
  const found = useQuery(specQuery(study));
  if (found.isError) {
    return (
      <Card>
        <Failure what="The study file" error={found.error} onRetry={() => void found.refetch()} />
      </Card>
    );
  }
  if (found.data === undefined) return <Skeleton height="30rem" />;
  const spec = found.data;
  return (
    <Columns
      main={
        <Card
          title="Study file"
          note="As it was accepted: every path is the digest of what it held."
        >
          <JsonView value={spec.spec} what="study file" />
        </Card>
      }
      side={
        <>
          <Card title="Identity">
            <KeyValue
              facts={[
                { name: "Study file", value: <Digest value={spec.digest} /> },
                { name: "Evaluator", value: <Digest value={spec.bundle} /> },
                ...Object.entries(spec.inputs).map(([name, digest]) => ({
                  name: `Input ${oneLine(name, 40)}`,
                  value: <Digest value={digest} />,
                })),
              ]}
            />
          </Card>
          <Card title="Changes" note="Only budgets, stop and parallel may change after the start.">
            {spec.revisions.length === 0 ? (
              <p className={css.small}>None.</p>
            ) : (
              <Timeline
                label="Changes of the study file"
                items={spec.revisions.map(revisionItem)}
              />
            )}
          </Card>
        </>
      }
    />
  );
}

function revisionItem(revision: Spec["revisions"][number]): TimelineItem {
  return {
    id: String(revision.seq),
    icon: "ruler",
    tone: "info",
    title: revision.changes.map((change) => (
      <div key={change.field}>
        {fieldName(change.field)}: {fieldValue(change.field, change.before)} →{" "}
        <b>{fieldValue(change.field, change.after)}</b>
      </div>
    )),
    detail: (
      <>
        <Moment at={revision.at} /> by {oneLine(revision.actor, 60)}
      </>
    ),
  };
}

type Scalar = Spec["revisions"][number]["changes"][number]["after"];

const BUDGET = "budget.";

const fieldName = (field: string): string =>
  field.startsWith(BUDGET) ? resourceName(field.slice(BUDGET.length)) : oneLine(field, 60);

function fieldValue(field: string, value: Scalar): string {
  if (!field.startsWith(BUDGET)) return value === null ? "none" : String(value);
  return typeof value === "number" ? formatAmount(field.slice(BUDGET.length), value) : "no limit";
}
