/** The families that a candidate went before the gate in: its replays, the checklist. */
import { useQueries, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { lineageQuery } from "../../api/queries/lineage";
import { promotionQuery, type PromotionDetail } from "../../api/queries/promotions";
import type { Candidate } from "../../api/types";
import { bestOf } from "../../format/evidence";
import { oneLine } from "../../format/text";
import { StateBadge } from "../../ui/Badge";
import { Card } from "../../ui/Card";
import { GateChecklist } from "../promotion/GateChecklist";
import { RunStrips } from "../promotion/RunStrips";

/** The newest first, undefined while one is loaded. Its trials name them before its lineage does. */
export function useFamilies({
  candidate,
  trials,
}: Candidate): readonly (PromotionDetail | undefined)[] {
  const { data } = useQuery(lineageQuery(candidate));
  const nodes = data?.nodes.filter((node) => node.kind === "family").map((node) => node.id);
  const ids = nodes ?? [...new Set(trials.flatMap((trial) => trial.family ?? []))];
  const found = useQueries({ queries: ids.map((id) => promotionQuery(id)) });
  return found
    .filter((one) => !one.isError)
    .map((one) => one.data)
    .reverse();
}

interface GateProps {
  readonly family: PromotionDetail;
  readonly candidate: string;
}

export function ReplaysCard({ family, candidate }: GateProps) {
  return (
    <Card
      title="Replays against the incumbent"
      note={`${role(family, candidate)} of family ${String(family.number)} for ${oneLine(family.model, 60)}`}
      actions={
        <Link to="/promotions/$family" params={{ family: family.family }}>
          Evidence
        </Link>
      }
    >
      <RunStrips gate={family} />
    </Card>
  );
}

export function GateCard({ family, candidate }: GateProps) {
  const best = bestOf(family.evidence);
  return (
    <Card
      title="Gate"
      note={
        best === null || best === candidate || candidate === family.incumbent
          ? `family ${String(family.number)}`
          : `family ${String(family.number)}; another member was chosen in stage 1`
      }
      actions={<StateBadge state={family.state} />}
    >
      <GateChecklist gate={family} />
    </Card>
  );
}

function role(family: PromotionDetail, candidate: string): string {
  if (candidate === family.incumbent) return "the incumbent";
  return bestOf(family.evidence) === candidate ? "the chosen member" : "a member";
}
