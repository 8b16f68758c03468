import { Link } from "@tanstack/react-router";
import type { Promotion } from "../../api/queries/promotions";
import { bestOf, numberOf } from "../../format/evidence";
import { shortId } from "../../format/lineage";
import { oneLine } from "../../format/text";
import { StateBadge } from "../../ui/Badge";
import type { Column } from "../../ui/DataTable";
import { CandidateLink, Clipped, NumberValue, RelativeTime } from "../../ui/Values";
import { GainBar } from "../promotion/GainBar";

const candidateOf = (row: Promotion): string | undefined =>
  bestOf(row.evidence) ?? row.candidates[0];

export const promotionColumns: readonly Column<Promotion>[] = [
  {
    id: "family",
    title: "Family",
    width: 170,
    grows: true,
    cell: (row) => (
      <Link to="/promotions/$family" params={{ family: row.family }}>
        <Clipped>{`${oneLine(row.study_name, 80)} · ${String(row.number)}`}</Clipped>
      </Link>
    ),
  },
  {
    id: "state",
    title: "State",
    width: 260,
    cell: (row) => <StateBadge state={row.state} reason={row.reason} />,
  },
  {
    id: "model",
    title: "Model",
    width: 140,
    cell: (row) => (
      <Link to="/models/$model" params={{ model: row.model }}>
        <Clipped>{oneLine(row.model, 100)}</Clipped>
      </Link>
    ),
  },
  {
    id: "candidate",
    title: "Candidate",
    width: 120,
    cell: (row) => {
      const id = candidateOf(row);
      return id === undefined ? null : <CandidateLink id={id}>{shortId(id)}</CandidateLink>;
    },
  },
  {
    id: "gain",
    title: "Gain and 95 % interval",
    width: 260,
    cell: (row) => <GainBar evidence={row.evidence} />,
  },
  {
    id: "p",
    title: "p",
    width: 84,
    isNumber: true,
    cell: (row) => <NumberValue value={numberOf(row.evidence.p)} digits={2} />,
  },
  { id: "at", title: "Opened", width: 110, cell: (row) => <RelativeTime at={row.created_at} /> },
];
