/** The head of a study and its views. */
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link, Navigate, Outlet } from "@tanstack/react-router";
import { studyQuery } from "../../api/queries/studies";
import type { Study } from "../../api/types";
import { oneLine } from "../../format/text";
import { StateBadge } from "../../ui/Badge";
import { FailedPage } from "../../ui/FailedPage";
import { PageHeader } from "../../ui/PageHeader";
import { Loading, Notice, Skeleton } from "../../ui/States";
import { LinkTabs } from "../../ui/Tabs";
import { RelativeTime } from "../../ui/Values";
import { PendingCommands, StudyActions } from "./StudyActions";
import css from "./Study.module.css";

const route = getRouteApi("/studies/$study");
const CRUMBS = [{ label: "Studies", link: { to: "/studies" } }] as const;

export function StudyLayout() {
  const { study } = route.useParams();
  const found = useQuery(studyQuery(study));
  if (found.data === undefined) {
    if (found.isError) {
      return (
        <FailedPage what={`Study ${oneLine(study, 80)}`} query={found}>
          <Link to="/studies">All studies</Link>
        </FailedPage>
      );
    }
    return <Waiting />;
  }
  // Named by its name, it is shown under its id, which never means another study.
  if (found.data.study !== study) {
    return <Navigate to="/studies/$study" params={{ study: found.data.study }} replace />;
  }
  return <Loaded study={found.data} />;
}

function Loaded({ study }: { readonly study: Study }) {
  const link = { params: { study: study.study } };
  const total = study.counts.total;
  return (
    <>
      <PageHeader
        title={study.name}
        crumbs={CRUMBS}
        badge={<StateBadge state={study.state} reason={study.reason} size="large" />}
        note={<Facts study={study} />}
        actions={<StudyActions study={study} />}
      />
      <div className={css.notices}>
        {study.detail !== "" && study.state !== "completed" && (
          <Notice tone={study.state === "failed" ? "bad" : "warn"}>
            {oneLine(study.detail, 600)}
          </Notice>
        )}
        <PendingCommands study={study} />
      </div>
      <LinkTabs
        label={`Views of ${study.name}`}
        tabs={[
          { label: "Overview", link: { to: "/studies/$study", ...link } },
          {
            label: "Trials",
            link: { to: "/studies/$study/trials", ...link },
            count: typeof total === "number" ? total : undefined,
          },
          { label: "Analysis", link: { to: "/studies/$study/analysis", ...link } },
          { label: "Proposer", link: { to: "/studies/$study/proposer", ...link } },
          { label: "Study file", link: { to: "/studies/$study/spec", ...link } },
        ]}
      />
      <div className={css.view}>
        <Outlet />
      </div>
    </>
  );
}

function Facts({ study }: { readonly study: Study }) {
  const { metric, direction } = study.objective;
  return (
    <span className={css.facts}>
      <span>
        {direction} <code>{oneLine(metric, 60)}</code>
      </span>
      <span>
        submitted <RelativeTime at={study.timings.submitted_at} />
      </span>
      {study.timings.ended_at !== null && (
        <span>
          ended <RelativeTime at={study.timings.ended_at} />
        </span>
      )}
      {study.worker !== null && <span>worker {oneLine(study.worker, 40)}</span>}
      <code>{study.study}</code>
    </span>
  );
}

function Waiting() {
  return (
    <Loading what="the study">
      <div className={css.waiting}>
        <Skeleton height="5.5rem" />
        <Skeleton height="2.5rem" />
        <Skeleton height="5rem" />
        <Skeleton height="24rem" />
      </div>
    </Loading>
  );
}
