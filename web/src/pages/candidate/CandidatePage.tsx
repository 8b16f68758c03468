/** A candidate: what it is, what it changes, every execution of it. */
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { candidateQuery } from "../../api/queries/candidates";
import { isMissing } from "../../api/problems";
import type { Candidate, TrialOut } from "../../api/types";
import { numberAt } from "../../format/finite";
import { oneLine, visible } from "../../format/text";
import { StateBadge, Tag } from "../../ui/Badge";
import { Card } from "../../ui/Card";
import { DiffView } from "../../ui/Code";
import { DataTable, type Column } from "../../ui/DataTable";
import { KeyValue } from "../../ui/KeyValue";
import { Columns } from "../../ui/Layout";
import { PageHeader } from "../../ui/PageHeader";
import { Failure, Loading, Skeleton } from "../../ui/States";
import { CandidateLink, Digest, NumberValue, RelativeTime } from "../../ui/Values";
import { ParamsList } from "../study/ParamsList";

const route = getRouteApi("/candidates/$candidate");

export function CandidatePage() {
  const { candidate } = route.useParams();
  const found = useQuery(candidateQuery(candidate));
  if (found.data === undefined) {
    if (found.isError) {
      return (
        <Card>
          <Failure
            what={`Candidate ${oneLine(candidate, 80)}`}
            error={found.error}
            {...(isMissing(found.error) ? {} : { onRetry: () => void found.refetch() })}
          />
        </Card>
      );
    }
    return (
      <Loading what="the candidate">
        <Skeleton height="5rem" />
      </Loading>
    );
  }
  return <Loaded candidate={found.data} />;
}

function Loaded({ candidate }: { readonly candidate: Candidate }) {
  const { study } = candidate;
  return (
    <>
      <PageHeader
        title={`Candidate ${candidate.candidate}`}
        crumbs={[
          { label: "Studies", link: { to: "/studies" } },
          { label: study, link: { to: "/studies/$study", params: { study } } },
        ]}
        badge={<StateBadge state={candidate.state} size="large" />}
        note={`by ${oneLine(candidate.proposer, 80)}`}
      />
      <Columns
        main={
          <>
            {candidate.patch !== null && (
              <Card
                title="What it changes"
                {...(candidate.parent === null ? {} : { note: `of ${candidate.parent}` })}
              >
                <DiffView patch={candidate.patch} />
              </Card>
            )}
            <Trials candidate={candidate} />
          </>
        }
        side={
          <>
            <Card title="Parameters">
              <ParamsList params={candidate.params} />
            </Card>
            <Card title="Identity">
              <KeyValue
                facts={[
                  { name: "Digest", value: <Digest value={candidate.digest} /> },
                  candidate.source !== null && {
                    name: "Source",
                    value: <Digest value={candidate.source} />,
                  },
                  candidate.parent !== null && {
                    name: "Made from",
                    value: <CandidateLink id={candidate.parent} />,
                  },
                  candidate.rationale !== "" && {
                    name: "Why it was tried",
                    value: visible(candidate.rationale),
                  },
                ]}
              />
            </Card>
          </>
        }
      />
    </>
  );
}

const COLUMNS: readonly Column<TrialOut>[] = [
  { id: "number", title: "Trial", width: 70, cell: (row) => row.number },
  {
    id: "kind",
    title: "Kind",
    width: 130,
    cell: (row) => <Tag>{row.stage === null ? row.kind : `${row.kind} ${row.stage}`}</Tag>,
  },
  {
    id: "outcome",
    title: "Outcome",
    width: 200,
    cell: (row) => <StateBadge state={row.outcome} reason={row.reason} />,
  },
  {
    id: "value",
    title: "Value",
    width: 90,
    isNumber: true,
    cell: (row) => <NumberValue value={numberAt(row.value, "value", row.non_finite)} />,
  },
  {
    id: "took",
    title: "Took",
    width: 100,
    isNumber: true,
    cell: (row) => <NumberValue value={row.wall_s} unit="seconds" />,
  },
  { id: "at", title: "Proposed", width: 110, cell: (row) => <RelativeTime at={row.created_at} /> },
];

function Trials({ candidate }: { readonly candidate: Candidate }) {
  const navigate = useNavigate();
  return (
    <Card title="Executions" isFlush>
      <DataTable<TrialOut>
        label="Executions"
        columns={COLUMNS}
        rows={candidate.trials}
        rowKey={(row) => row.id}
        onOpen={(row) =>
          void navigate({
            to: "/studies/$study/trials/$number",
            params: { study: row.study, number: String(row.number) },
          })
        }
      />
    </Card>
  );
}
