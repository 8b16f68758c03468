/** How a study stands: best, history, budgets, gate, what happens. */
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { studyQuery } from "../../api/queries/studies";
import type { Study } from "../../api/types";
import { numberAt } from "../../format/finite";
import { formatCount } from "../../format/numbers";
import { Card, StatTile, StatTiles } from "../../ui/Card";
import { Columns, Stack } from "../../ui/Layout";
import { BudgetBar } from "../../ui/Progress";
import { NumberValue } from "../../ui/Values";
import { EventsCard } from "./EventsCard";
import { GateCard } from "./GateCard";
import { HistoryCard } from "./HistoryCard";
import { NotificationsCard } from "./NotificationsCard";
import { OutcomesCard } from "./OutcomesCard";
import { ParamsList } from "./ParamsList";
import { ShareCard } from "./ShareCard";
import css from "./Study.module.css";

const route = getRouteApi("/studies/$study");

export function OverviewPage() {
  const { study: id } = route.useParams();
  const { data: study } = useQuery(studyQuery(id));
  if (study === undefined) return null; // the layout shows what is wrong
  return (
    <Stack>
      <Tiles study={study} />
      <Columns
        main={
          <>
            <HistoryCard study={study} />
            <EventsCard study={study.study} />
          </>
        }
        side={
          <>
            <BestCard study={study} />
            <OutcomesCard study={study} />
            <BudgetsCard study={study} />
            <ShareCard share={study.share} />
            <GateCard study={study} />
            <NotificationsCard study={study.study} />
          </>
        }
      />
    </Stack>
  );
}

function Tiles({ study }: { readonly study: Study }) {
  const { best, baseline, noise_floor, non_finite } = study;
  const mean = numberAt(baseline.mean, "baseline/mean", non_finite);
  const total = study.counts.total;
  const limit = study.budgets.trials?.limit;
  return (
    <StatTiles>
      <StatTile
        label="Best"
        note={
          best === null ? (
            "nothing complete yet"
          ) : (
            <Gain study={study} value={best.value} mean={mean} />
          )
        }
      >
        <NumberValue
          value={best === null ? null : numberAt(best.value, "best/value", non_finite)}
        />
      </StatTile>
      <StatTile label="Baseline" note={`mean of ${formatCount(baseline.values.length)} runs`}>
        <NumberValue value={mean} />
      </StatTile>
      <StatTile label="Noise floor" note="a gain within it is no gain">
        <NumberValue value={numberAt(noise_floor, "noise_floor", non_finite)} digits={3} />
      </StatTile>
      <StatTile
        label="Trials"
        note={limit === null || limit === undefined ? "no limit" : `budget ${formatCount(limit)}`}
      >
        {typeof total === "number" ? formatCount(total) : "0"}
      </StatTile>
      <StatTile label="Active" note="pauses excluded">
        <NumberValue value={study.timings.active_s} unit="seconds" />
      </StatTile>
    </StatTiles>
  );
}

interface GainProps {
  readonly study: Study;
  readonly value: number | null;
  readonly mean: number | null;
}

function Gain({ study, value, mean }: GainProps) {
  if (value === null || mean === null) return "of complete search trials";
  const better = study.objective.direction === "maximize" ? value - mean : mean - value;
  return (
    <>
      {better >= 0 ? "better by " : "worse by "}
      <NumberValue value={Math.abs(better)} digits={3} /> than the baseline
    </>
  );
}

function BestCard({ study }: { readonly study: Study }) {
  const { best } = study;
  if (best === null) return null;
  return (
    <Card
      title="Best trial"
      note={
        best.kept ? "kept: better than the noise" : "not kept: within the noise, or not yet decided"
      }
      actions={
        <Link
          to="/studies/$study/trials/$number"
          params={{ study: study.study, number: String(best.number) }}
          className={css.more}
        >
          Trial {best.number}
        </Link>
      }
    >
      <ParamsList params={best.params} />
    </Card>
  );
}

function BudgetsCard({ study }: { readonly study: Study }) {
  const lines = Object.entries(study.budgets).filter(
    ([, line]) => line.limit !== null || line.spent > 0,
  );
  if (lines.length === 0) return null;
  return (
    <Card title="Budgets">
      <div className={css.budgets}>
        {lines.map(([resource, line]) => (
          <BudgetBar key={resource} resource={resource} line={line} />
        ))}
      </div>
    </Card>
  );
}
