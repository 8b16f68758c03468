import { Link } from "@tanstack/react-router";
import type { StudyListed } from "../../api/types";
import { numberAt } from "../../format/finite";
import { words } from "../../format/numbers";
import { oneLine } from "../../format/text";
import { StateBadge } from "../../ui/Badge";
import type { Column } from "../../ui/DataTable";
import { OutcomeBar } from "../../ui/OutcomeBar";
import { BudgetBar } from "../../ui/Progress";
import { Clipped, None, NumberValue, RelativeTime } from "../../ui/Values";
import { tightestBudget } from "./budgets";
import css from "./Studies.module.css";

export const studyColumns: readonly Column<StudyListed>[] = [
  {
    id: "name",
    title: "Name",
    width: 200,
    grows: true,
    sort: "name",
    cell: (row) => (
      <Link
        to="/studies/$study"
        params={{ study: row.study }}
        className={css.name}
        title={oneLine(row.name)}
      >
        {oneLine(row.name, 120)}
      </Link>
    ),
  },
  {
    id: "state",
    title: "State",
    width: 225,
    sort: "state",
    cell: (row) => <StateBadge state={row.state} reason={row.reason} />,
  },
  {
    id: "objective",
    title: "Objective",
    width: 130,
    cell: (row) => (
      <Clipped>{`${row.direction === "maximize" ? "↑" : "↓"} ${oneLine(row.metric, 60)}`}</Clipped>
    ),
  },
  {
    id: "best",
    title: "Best",
    width: 84,
    isNumber: true,
    cell: (row) => <NumberValue value={numberAt(row.best_value, "best_value", row.non_finite)} />,
  },
  {
    id: "trials",
    title: "Trials",
    width: 120,
    cell: (row) => <OutcomeBar counts={row.trials} isCompact />,
  },
  {
    id: "budget",
    title: "Budget used",
    width: 125,
    cell: (row) => {
      const tightest = tightestBudget(row.budgets);
      return tightest === null ? <None /> : <BudgetBar {...tightest} isCompact />;
    },
  },
  {
    id: "last",
    title: "Last event",
    width: 200,
    cell: (row) =>
      row.last_event === null ? (
        <None />
      ) : (
        <>
          {words(row.last_event.kind)}{" "}
          <span className={css.faint}>
            <RelativeTime at={row.last_event.at} />
          </span>
        </>
      ),
  },
  {
    id: "submitted",
    title: "Submitted",
    width: 110,
    sort: "submitted_at",
    cell: (row) => <RelativeTime at={row.submitted_at} />,
  },
];
