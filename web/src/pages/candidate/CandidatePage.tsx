/** A candidate: what it is, what it changes, every execution of it. */
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { candidateQuery } from "../../api/queries/candidates";
import type { Candidate, TrialOut } from "../../api/types";
import { bestOf, stageText } from "../../format/evidence";
import { numberAt } from "../../format/finite";
import { shortId } from "../../format/lineage";
import { oneLine, visible } from "../../format/text";
import { StateBadge, Tag } from "../../ui/Badge";
import { Card } from "../../ui/Card";
import { DiffView } from "../../ui/Code";
import { DataTable, type Column } from "../../ui/DataTable";
import { FailedPage } from "../../ui/FailedPage";
import { KeyValue } from "../../ui/KeyValue";
import { Columns, Stack } from "../../ui/Layout";
import { PageHeader } from "../../ui/PageHeader";
import { Loading, Skeleton } from "../../ui/States";
import { CandidateLink, Digest, NumberValue, RelativeTime } from "../../ui/Values";
import { ParamsList } from "../study/ParamsList";
import { ConversionsCard } from "./ConversionsCard";
import { ConvertAction } from "./ConvertAction";
import { GateCard, ReplaysCard, useFamilies } from "./GateCards";
import { LineageCard } from "./LineageCard";
import { ReplayAction } from "./ReplayAction";

const route = getRouteApi("/candidates/$candidate");

export function CandidatePage() {
  const { candidate } = route.useParams();
  const found = useQuery(candidateQuery(candidate));
  if (found.data === undefined) {
    if (found.isError) {
      return (
        <FailedPage what={`Candidate ${oneLine(candidate, 80)}`} query={found}>
          <Link to="/studies">All studies</Link>
        </FailedPage>
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
  const families = useFamilies(candidate);
  const is_promoted = families.some(
    (family) => family?.state === "promoted" && bestOf(family.evidence) === candidate.candidate,
  );
  return (
    <>
      <PageHeader
        title={`Candidate ${shortId(candidate.candidate)}`}
        crumbs={[
          { label: "Studies", link: { to: "/studies" } },
          { label: study, link: { to: "/studies/$study", params: { study } } },
        ]}
        badge={<StateBadge state={candidate.state} size="large" />}
        note={`by ${oneLine(candidate.proposer, 80)}`}
        actions={
          <>
            {(is_promoted || candidate.state === "kept") && (
              <ConvertAction candidate={candidate.candidate} isPromoted={is_promoted} />
            )}
            <ReplayAction candidate={candidate.candidate} />
          </>
        }
      />
      <Stack>
        <LineageCard candidate={candidate.candidate} />
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
              {candidate.conversions.map((conversion) => (
                <ConversionsCard key={conversion.conversion} conversion={conversion} />
              ))}
              {families.map((family, place) =>
                family === undefined ? (
                  <Skeleton key={place} height="28rem" />
                ) : (
                  <ReplaysCard key={place} family={family} candidate={candidate.candidate} />
                ),
              )}
              <Trials candidate={candidate} />
            </>
          }
          side={
            <>
              {families.map((family, place) =>
                family === undefined ? (
                  <Skeleton key={place} height="19rem" />
                ) : (
                  <GateCard key={place} family={family} candidate={candidate.candidate} />
                ),
              )}
              <Card title="Parameters">
                <ParamsList params={candidate.params} />
              </Card>
              <Card title="Identity">
                <KeyValue
                  facts={[
                    {
                      name: "Id",
                      value: <Digest value={candidate.candidate} what="candidate's id" />,
                    },
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
      </Stack>
    </>
  );
}

const COLUMNS: readonly Column<TrialOut>[] = [
  { id: "number", title: "Trial", width: 70, cell: (row) => row.number },
  {
    id: "kind",
    title: "Kind",
    width: 130,
    cell: (row) => <Tag>{row.stage === null ? row.kind : stageText(row.stage, false)}</Tag>,
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
