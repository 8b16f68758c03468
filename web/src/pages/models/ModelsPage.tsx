/** Every name under which candidates are promoted, and who is in place. */
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { modelsQuery, type Model } from "../../api/queries/promotions";
import { shortId } from "../../format/lineage";
import { oneLine } from "../../format/text";
import { Tag } from "../../ui/Badge";
import { Card } from "../../ui/Card";
import { DataTable, type Column } from "../../ui/DataTable";
import { Stack } from "../../ui/Layout";
import { PageHeader } from "../../ui/PageHeader";
import { Empty, Failure } from "../../ui/States";
import { CandidateLink, Clipped, None, RelativeTime } from "../../ui/Values";
import { PromotionTabs } from "../promotions/PromotionTabs";

const COLUMNS: readonly Column<Model>[] = [
  {
    id: "model",
    title: "Model",
    width: 200,
    grows: true,
    cell: (row) => (
      <Link to="/models/$model" params={{ model: row.model }}>
        <Clipped>{oneLine(row.model, 100)}</Clipped>
      </Link>
    ),
  },
  {
    id: "incumbent",
    title: "Incumbent",
    width: 150,
    cell: (row) =>
      row.incumbent === null ? (
        <None />
      ) : (
        <CandidateLink id={row.incumbent.candidate}>
          {shortId(row.incumbent.candidate)}
        </CandidateLink>
      ),
  },
  {
    id: "aliases",
    title: "Aliases",
    width: 180,
    cell: (row) =>
      row.aliases.length === 0 ? (
        <None />
      ) : (
        <Clipped>
          {row.aliases
            .map((one) => `@${oneLine(one.alias, 64)} ${String(one.promotion)}`)
            .join(", ")}
        </Clipped>
      ),
  },
  {
    id: "since",
    title: "Since",
    width: 130,
    cell: (row) => <RelativeTime at={row.incumbent?.at} />,
  },
  {
    id: "approver",
    title: "Approved by",
    width: 160,
    cell: (row) =>
      row.incumbent === null ? <None /> : <Clipped>{oneLine(row.incumbent.approver, 80)}</Clipped>,
  },
  { id: "families", title: "Families", width: 90, isNumber: true, cell: (row) => row.families },
  {
    id: "awaiting",
    title: "Awaiting approval",
    width: 150,
    isNumber: true,
    cell: (row) =>
      row.awaiting === 0 ? <None /> : <Tag tone="warn">{`${String(row.awaiting)} to decide`}</Tag>,
  },
];

export function ModelsPage() {
  const found = useQuery(modelsQuery());
  const open = useNavigate();
  return (
    <>
      <PageHeader
        title="Models"
        note="A name and the candidate that stands for it; the gate moves it on, a person may roll it back."
      />
      <Stack>
        <PromotionTabs />
        <Card isFlush>
          {found.isError && found.data === undefined ? (
            <Failure what="The models" error={found.error} onRetry={() => void found.refetch()} />
          ) : (
            <DataTable<Model>
              label="Models"
              columns={COLUMNS}
              rows={found.data?.items ?? []}
              rowKey={(row) => row.model}
              onOpen={(row) => void open({ to: "/models/$model", params: { model: row.model } })}
              skeletonRows={found.isPending ? 3 : 0}
              empty={
                <Empty icon="flag" title="No model yet">
                  A study names one under <code>promotion.model</code>; it appears with its first
                  family.
                </Empty>
              }
            />
          )}
        </Card>
      </Stack>
    </>
  );
}
