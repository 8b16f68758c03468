/** One family before the gate: what it was judged by, and the decision of a person. */
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { promotionQuery, type PromotionDetail } from "../../api/queries/promotions";
import { bestOf, endText, intervalOf, numberOf } from "../../format/evidence";
import { shortId } from "../../format/lineage";
import { formatNumber, words } from "../../format/numbers";
import { oneLine } from "../../format/text";
import { StateBadge } from "../../ui/Badge";
import { Card, StatTile, StatTiles } from "../../ui/Card";
import { FailedPage } from "../../ui/FailedPage";
import { KeyValue } from "../../ui/KeyValue";
import { Columns, Stack } from "../../ui/Layout";
import { PageHeader } from "../../ui/PageHeader";
import { Loading, Skeleton } from "../../ui/States";
import { CandidateLink, None, NumberValue, RelativeTime } from "../../ui/Values";
import { ChangesCard } from "./ChangesCard";
import { ApprovalNotice, DecisionActions } from "./DecisionActions";
import { EvidenceCard } from "./EvidenceCard";
import { GateChecklist } from "./GateChecklist";
import css from "./Promotion.module.css";
import { RunsCard } from "./RunsCard";
import { RunStrips } from "./RunStrips";

const route = getRouteApi("/promotions/$family");

export function PromotionPage() {
  const { family } = route.useParams();
  const found = useQuery(promotionQuery(family));
  if (found.data !== undefined) return <Loaded family={found.data} />;
  if (found.isError) {
    return (
      <FailedPage what={`Promotion ${oneLine(family, 80)}`} query={found}>
        <Link to="/promotions">All promotions</Link>
      </FailedPage>
    );
  }
  return (
    <Loading what="the promotion">
      <Stack>
        <Skeleton height="4rem" />
        <Skeleton height="5.25rem" />
        <Skeleton height="24rem" />
      </Stack>
    </Loading>
  );
}

function Loaded({ family }: { readonly family: PromotionDetail }) {
  return (
    <>
      <PageHeader
        title={`Promotion to ${oneLine(family.model, 80)}`}
        crumbs={[{ label: "Promotions", link: { to: "/promotions" } }]}
        badge={<StateBadge state={family.state} size="large" />}
        note={`${endText(family)} Family ${String(family.number)} of ${oneLine(family.study_name, 80)}.`}
        actions={<DecisionActions family={family} />}
      />
      <div className={css.gap}>
        <ApprovalNotice family={family} />
      </div>
      <Stack>
        <Figures family={family} />
        <Columns
          main={
            <>
              <Card title="Replays against the incumbent" note={objectiveText(family)}>
                <RunStrips gate={family} />
              </Card>
              <RunsCard family={family} />
            </>
          }
          side={
            <>
              <Card title="Gate" note={profileText(family)}>
                <GateChecklist gate={family} />
              </Card>
              <FactsCard family={family} />
              <EvidenceCard family={family} />
              <ChangesCard family={family} />
            </>
          }
        />
      </Stack>
    </>
  );
}

function profileText({ profile }: PromotionDetail): string {
  return typeof profile.name === "string" ? `profile ${oneLine(profile.name, 40)}` : "";
}

function objectiveText({ objective }: PromotionDetail): string {
  const { metric, direction } = objective;
  return typeof metric === "string" && typeof direction === "string"
    ? `${direction} ${oneLine(words(metric), 60)} · dots are runs, the line their mean, the band its 95 % interval`
    : "";
}

function Figures({ family }: { readonly family: PromotionDetail }) {
  const { evidence } = family;
  const interval = intervalOf(evidence);
  const alpha = numberOf(evidence.alpha);
  const replays = family.runs.filter((run) => !run.is_pool).length;
  return (
    <StatTiles>
      <StatTile label="Gain" note="on fresh runs of both; positive is better">
        <NumberValue value={numberOf(evidence.gain)} />
      </StatTile>
      <StatTile label="95 % interval" note="of the gain">
        {interval === null ? (
          <None />
        ) : (
          `${formatNumber(interval[0], 3)} … ${formatNumber(interval[1], 3)}`
        )}
      </StatTile>
      <StatTile
        label="p"
        note={alpha === null ? "the test was not reached" : `passes at ${formatNumber(alpha)}`}
      >
        <NumberValue value={numberOf(evidence.p)} digits={3} />
      </StatTile>
      <StatTile label="Replays" note={`${String(family.pool.length)} runs in the pool`}>
        {replays}
      </StatTile>
    </StatTiles>
  );
}

function FactsCard({ family }: { readonly family: PromotionDetail }) {
  const best = bestOf(family.evidence);
  return (
    <Card title="Who">
      <KeyValue
        facts={[
          best !== null && { name: "Candidate", value: <CandidateLink id={best} /> },
          {
            name: best === null ? "Members" : "Family",
            value: family.candidates.map((id, index) => (
              <span key={id}>
                {index > 0 && ", "}
                <CandidateLink id={id}>{shortId(id)}</CandidateLink>
              </span>
            )),
          },
          { name: "Incumbent", value: <CandidateLink id={family.incumbent} /> },
          {
            name: "Model",
            value: (
              <Link to="/models/$model" params={{ model: family.model }}>
                {oneLine(family.model, 100)}
              </Link>
            ),
          },
          {
            name: "Study",
            value: (
              <Link to="/studies/$study" params={{ study: family.study }}>
                {oneLine(family.study_name, 100)}
              </Link>
            ),
          },
          { name: "Opened", value: <RelativeTime at={family.created_at} /> },
          family.ended_at !== null && {
            name: "Ended",
            value: <RelativeTime at={family.ended_at} />,
          },
        ]}
      />
    </Card>
  );
}
