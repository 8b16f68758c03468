/** The columns of a list of trials: the fixed ones, and one for each parameter, score and metric. */
import { Link } from "@tanstack/react-router";
import type { TrialListed } from "../../api/types";
import { numberAt } from "../../format/finite";
import { oneLine, shortName } from "../../format/text";
import { StateBadge, Tag } from "../../ui/Badge";
import type { Column } from "../../ui/DataTable";
import { Clipped, None, NumberValue, RelativeTime } from "../../ui/Values";
import { PickBox } from "../compare/Picking";
import { paramText } from "../study/ParamsList";
import { own } from "../../format/own";

type TrialColumn = Column<TrialListed>;

const FIRST: readonly TrialColumn[] = [
  {
    id: "number",
    title: "Trial",
    width: 70,
    sort: "number",
    cell: (row) => (
      <Link
        to="/studies/$study/trials/$number"
        params={{ study: row.study, number: String(row.number) }}
      >
        {row.number}
      </Link>
    ),
  },
  {
    id: "compare",
    title: "Compare",
    isTitleHidden: true,
    width: 44,
    cell: (row) => <PickBox trial={row.id} number={row.number} />,
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
    sort: "value",
    cell: (row) => <NumberValue value={numberAt(row.value, "value", row.non_finite)} />,
  },
];

const LAST: readonly TrialColumn[] = [
  {
    id: "kind",
    title: "Kind",
    width: 100,
    cell: (row) => <Tag>{row.stage === null ? row.kind : `${row.kind} ${row.stage}`}</Tag>,
  },
  {
    id: "proposer",
    title: "Proposer",
    width: 110,
    cell: (row) => <Clipped>{oneLine(row.proposer, 60)}</Clipped>,
  },
  {
    id: "wall_s",
    title: "Took",
    width: 100,
    isNumber: true,
    sort: "wall_s",
    cell: (row) => <NumberValue value={row.wall_s} unit="seconds" />,
  },
  { id: "attempts", title: "Attempts", width: 86, isNumber: true, cell: (row) => row.attempts },
  {
    id: "created",
    title: "Proposed",
    width: 110,
    sort: "created",
    cell: (row) => <RelativeTime at={row.created_at} />,
  },
];

export interface DynamicNames {
  readonly params: readonly string[];
  readonly scores: readonly string[];
  readonly metrics: readonly string[];
  /** Parameters that are numbers in all rows. */
  readonly numeric: readonly string[];
}

/** Every name that occurs in the rows, in the order of first occurrence. */
export function namesIn(rows: readonly TrialListed[]): DynamicNames {
  const params = new Set<string>();
  const scores = new Set<string>();
  const metrics = new Set<string>();
  const worded = new Set<string>();
  for (const row of rows) {
    for (const [name, value] of Object.entries(row.params)) {
      params.add(name);
      if (typeof value !== "number" && value !== null) worded.add(name);
    }
    for (const name of Object.keys(row.scores)) scores.add(name);
    for (const name of Object.keys(row.metrics)) metrics.add(name);
  }
  return {
    params: [...params],
    scores: [...scores],
    metrics: [...metrics],
    numeric: [...params].filter((name) => !worded.has(name)),
  };
}

/** As wide as its title needs, within what a row can give. */
function named(name: string): Pick<TrialColumn, "title" | "hint" | "width"> {
  const title = shortName(name, 24);
  return { title, hint: oneLine(name), width: Math.max(96, 44 + 7 * title.length) };
}

export function trialColumns(names: DynamicNames): readonly TrialColumn[] {
  const { params, scores, metrics, numeric } = names;
  return [
    ...FIRST,
    ...params.map((name): TrialColumn => ({
      id: `params.${name}`,
      ...named(name),
      isNumber: numeric.includes(name),
      sort: `params.${name}`,
      cell: (row) => {
        const value = own(row.params, name);
        return value === undefined || value === null ? (
          <None />
        ) : (
          <Clipped>{paramText(value)}</Clipped>
        );
      },
    })),
    ...LAST,
    ...scores.map((name) => numberColumn("scores", name)),
    ...metrics.map((name) => numberColumn("metrics", name)),
  ];
}

function numberColumn(part: "scores" | "metrics", name: string): TrialColumn {
  return {
    id: `${part}.${name}`,
    ...named(name),
    isNumber: true,
    sort: `${part}.${name}`,
    cell: (row) => (
      <NumberValue value={numberAt(row[part][name], `${part}/${name}`, row.non_finite)} />
    ),
  };
}

/** Too many to be read at once: shown when they are asked for. */
export function hiddenAtFirst({ params, scores, metrics }: DynamicNames): ReadonlySet<string> {
  return new Set([
    "attempts",
    ...params.slice(8).map((name) => `params.${name}`),
    ...(scores.length > 1 ? scores.slice(4) : scores).map((name) => `scores.${name}`),
    ...metrics.map((name) => `metrics.${name}`),
  ]);
}
