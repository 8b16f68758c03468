/** One trial with everything that belongs to it. */
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { studyQuery } from "../../api/queries/studies";
import { trialQuery } from "../../api/queries/trials";
import type { Trial } from "../../api/types";
import { numberAt } from "../../format/finite";
import { oneLine, shortName } from "../../format/text";
import { StateBadge, Tag } from "../../ui/Badge";
import { Card, StatTile, StatTiles } from "../../ui/Card";
import { DiffView } from "../../ui/Code";
import { FailedPage } from "../../ui/FailedPage";
import { Columns, Stack } from "../../ui/Layout";
import { PageHeader } from "../../ui/PageHeader";
import { Loading, Notice, Skeleton } from "../../ui/States";
import { CandidateLink, NumberValue, RelativeTime } from "../../ui/Values";
import { CompareTrial } from "../compare/Picking";
import { ArtifactsCard } from "./ArtifactsCard";
import { AttemptsCard } from "./AttemptsCard";
import { CurvesCard } from "./CurvesCard";
import { LogsCard } from "./LogsCard";
import { Neighbours } from "./Neighbours";
import { DecisionCard, IdentityCard, NetworkCard, ParamsCard, ScoresCard } from "./SideCards";
import css from "./Trial.module.css";

const route = getRouteApi("/studies/$study/trials/$number");

export function TrialPage() {
  const { study, number } = route.useParams();
  const found = useQuery(trialQuery(study, Number(number)));
  if (found.data === undefined) {
    if (found.isError) {
      return (
        <FailedPage what={`Trial ${oneLine(number, 20)}`} query={found}>
          <Link to="/studies/$study/trials" params={{ study }}>
            All trials of the study
          </Link>
        </FailedPage>
      );
    }
    return (
      <Loading what="the trial">
        <div className={css.waiting}>
          <Skeleton height="5.5rem" />
          <Skeleton height="5rem" />
          <Skeleton height="24rem" />
        </div>
      </Loading>
    );
  }
  return <Loaded trial={found.data} />;
}

function Loaded({ trial }: { readonly trial: Trial }) {
  const study = useQuery(studyQuery(trial.study));
  const name = study.data?.name ?? trial.study;
  return (
    <>
      <PageHeader
        title={`Trial ${String(trial.number)}`}
        crumbs={[
          { label: "Studies", link: { to: "/studies" } },
          { label: name, link: { to: "/studies/$study", params: { study: trial.study } } },
          {
            label: "Trials",
            link: { to: "/studies/$study/trials", params: { study: trial.study } },
          },
        ]}
        badge={<StateBadge state={trial.outcome} reason={trial.reason} size="large" />}
        note={
          <span className={css.facts}>
            <Tag>{trial.stage === null ? trial.kind : `${trial.kind} ${trial.stage}`}</Tag>
            <span>
              candidate <CandidateLink id={trial.candidate} /> by {oneLine(trial.proposer, 60)}
            </span>
            <span>
              proposed <RelativeTime at={trial.created_at} />
            </span>
          </span>
        }
        actions={
          <>
            <CompareTrial trial={trial.id} />
            <Neighbours
              study={trial.study}
              number={trial.number}
              total={study.data?.counts.total}
            />
          </>
        }
      />
      <Stack>
        {trial.detail !== "" && (
          <Notice tone={trial.state === "failed" ? "bad" : "warn"}>
            {oneLine(trial.detail, 1000)}
          </Notice>
        )}
        <Tiles trial={trial} metric={study.data?.objective.metric ?? "Value"} />
        <Columns
          main={
            <>
              {trial.rationale !== "" && (
                <Card title="Why it was tried">
                  <p className={css.rationale}>{oneLine(trial.rationale, 4000)}</p>
                </Card>
              )}
              <CurvesCard trial={trial} objective={study.data?.objective.metric ?? ""} />
              {trial.patch !== null && (
                <Card
                  title="What it changes"
                  {...(trial.parent === null ? {} : { note: `of ${trial.parent}` })}
                >
                  <DiffView patch={trial.patch} />
                </Card>
              )}
              <AttemptsCard trial={trial} />
              <LogsCard trial={trial} />
            </>
          }
          side={
            <>
              <DecisionCard trial={trial} />
              <ParamsCard trial={trial} />
              <ScoresCard trial={trial} />
              <ArtifactsCard trial={trial} />
              <NetworkCard trial={trial} />
              <IdentityCard trial={trial} />
            </>
          }
        />
      </Stack>
    </>
  );
}

function Tiles({ trial, metric }: { readonly trial: Trial; readonly metric: string }) {
  return (
    <StatTiles>
      <StatTile label={shortName(metric, 20)} note="on the search split">
        <NumberValue value={numberAt(trial.value, "value", trial.non_finite)} />
      </StatTile>
      <StatTile label="Took" note="from its first process to its end">
        <NumberValue value={trial.wall_s} unit="seconds" />
      </StatTile>
      <StatTile label="Attempts" note="processes started">
        {trial.attempts.length}
      </StatTile>
      <StatTile label="Seed" note="derived from the study's">
        <span className={css.seed}>{trial.seed}</span>
      </StatTile>
    </StatTiles>
  );
}
