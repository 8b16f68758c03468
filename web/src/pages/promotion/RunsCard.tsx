import { useNavigate } from "@tanstack/react-router";
import type { PromotionDetail, ReplayRun } from "../../api/queries/promotions";
import { numberAt } from "../../format/finite";
import { stageText } from "../../format/evidence";
import { shortId } from "../../format/lineage";
import { plural } from "../../format/numbers";
import { StateBadge, Tag } from "../../ui/Badge";
import { Card } from "../../ui/Card";
import { DataTable, type Column } from "../../ui/DataTable";
import { CandidateLink, NumberValue } from "../../ui/Values";

type Split = "search" | "holdout_a" | "holdout_b";
type Row = ReplayRun & { readonly shown: Readonly<Record<Split, number | null>> };

const score = (id: Split, title: string): Column<Row> => ({
  id,
  title,
  width: 84,
  isNumber: true,
  cell: (row) => <NumberValue value={row.shown[id]} />,
});

const columnsOf = (incumbent: string): readonly Column<Row>[] => [
  { id: "number", title: "Trial", width: 68, cell: (row) => row.number },
  {
    id: "stage",
    title: "Stage",
    width: 136,
    cell: (row) => <Tag>{stageText(row.stage, row.is_pool)}</Tag>,
  },
  {
    id: "candidate",
    title: "Of",
    width: 110,
    grows: true,
    cell: (row) =>
      row.candidate === incumbent ? (
        "incumbent"
      ) : (
        <CandidateLink id={row.candidate}>{shortId(row.candidate)}</CandidateLink>
      ),
  },
  {
    id: "outcome",
    title: "Outcome",
    width: 124,
    cell: (row) => <StateBadge state={row.outcome} reason={row.reason} />,
  },
  score("holdout_a", "Holdout A"),
  score("holdout_b", "Holdout B"),
  score("search", "Search"),
];

/** Every run that the family was judged by, each opening its trial. */
export function RunsCard({ family }: { readonly family: PromotionDetail }) {
  const navigate = useNavigate();
  const at = (run: ReplayRun, index: number, split: Split) =>
    numberAt(run.values[split] ?? null, `runs/${String(index)}/values/${split}`, family.non_finite);
  const rows = family.runs.map((run, index) => ({
    ...run,
    shown: {
      search: at(run, index, "search"),
      holdout_a: at(run, index, "holdout_a"),
      holdout_b: at(run, index, "holdout_b"),
    },
  }));
  return (
    <Card title="Runs" note={plural(rows.length, "run")} isFlush>
      <DataTable<Row>
        label="Runs of the family"
        columns={columnsOf(family.incumbent)}
        rows={rows}
        rowKey={(row) => row.trial}
        onOpen={(row) =>
          void navigate({
            to: "/studies/$study/trials/$number",
            // A pool's run may be of the study that promoted the incumbent.
            params: { study: studyOf(row.trial), number: String(row.number) },
          })
        }
      />
    </Card>
  );
}

/** Trials are named `STUDY-NUMBER`. */
const studyOf = (trial: string): string => trial.slice(0, trial.lastIndexOf("-"));
