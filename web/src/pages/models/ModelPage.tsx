/** One model: its incumbents over time, and every family that tried to replace one. */
import { useInfiniteQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { isMissing } from "../../api/problems";
import { incumbentsQuery, type Incumbent } from "../../api/queries/promotions";
import { shortId } from "../../format/lineage";
import { oneLine } from "../../format/text";
import { Tag } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { Card } from "../../ui/Card";
import { Stack } from "../../ui/Layout";
import { PageHeader } from "../../ui/PageHeader";
import { Empty, Failure, Loading, Skeleton } from "../../ui/States";
import { Timeline, type TimelineItem } from "../../ui/Timeline";
import { CandidateLink, RelativeTime } from "../../ui/Values";
import { PromotionsTable } from "../promotions/PromotionsTable";

const route = getRouteApi("/models/$model");

const HIDDEN: ReadonlySet<string> = new Set(["model"]);

export function ModelPage() {
  const { model } = route.useParams();
  return (
    <>
      <PageHeader
        title={oneLine(model, 100)}
        crumbs={[{ label: "Models", link: { to: "/models" } }]}
      />
      <Stack>
        <Card title="Incumbents" note="the newest first">
          <Incumbents model={model} />
        </Card>
        <Card title="Families" note="every attempt to replace the incumbent" isFlush>
          <PromotionsTable
            query={{ model }}
            hidden={HIDDEN}
            empty={<Empty icon="flag" title="No family yet" />}
          />
        </Card>
      </Stack>
    </>
  );
}

function Incumbents({ model }: { readonly model: string }) {
  const found = useInfiniteQuery(incumbentsQuery(model));
  if (found.data === undefined) {
    if (found.isError && !isMissing(found.error)) {
      return (
        <Failure what="The incumbents" error={found.error} onRetry={() => void found.refetch()} />
      );
    }
    if (found.isError) return <NoIncumbent />;
    return (
      <Loading what="the incumbents">
        <Skeleton lines={3} />
      </Loading>
    );
  }
  const shown = found.data.pages.flatMap((page) => page.items);
  if (shown.length === 0) return <NoIncumbent />;
  return (
    <>
      <Timeline label="Incumbents" items={shown.map((one, at) => item(one, at === 0))} />
      {found.hasNextPage && (
        <Button isBusy={found.isFetchingNextPage} onClick={() => void found.fetchNextPage()}>
          Older
        </Button>
      )}
    </>
  );
}

function NoIncumbent() {
  return (
    <Empty icon="flag" title="No incumbent yet">
      Until one is promoted, winners have to beat their study's baseline.
    </Empty>
  );
}

function item(incumbent: Incumbent, is_current: boolean): TimelineItem {
  return {
    id: String(incumbent.seq),
    icon: "flag",
    tone: is_current ? "good" : "mute",
    title: (
      <>
        <CandidateLink id={incumbent.candidate}>{shortId(incumbent.candidate)}</CandidateLink>{" "}
        {is_current && <Tag tone="good">in place</Tag>}
        {incumbent.aliases.map((alias) => (
          <Tag key={alias}>{`@${oneLine(alias, 60)}`}</Tag>
        ))}
      </>
    ),
    detail: (
      <>
        {`${how(incumbent)} by ${oneLine(incumbent.approver, 80)}, from `}
        <Link to="/studies/$study" params={{ study: incumbent.study }}>
          {incumbent.study}
        </Link>
        {incumbent.family !== null && (
          <>
            {" · "}
            <Link to="/promotions/$family" params={{ family: incumbent.family }}>
              evidence
            </Link>
          </>
        )}
        {incumbent.signature !== null &&
          ` · signed with key ${incumbent.signature.key.slice(0, 12)}…`}
        {incumbent.note !== "" && <p>{oneLine(incumbent.note, 300)}</p>}
      </>
    ),
    aside: <RelativeTime at={incumbent.at} />,
  };
}

function how({ seq, rolled_back_to }: Incumbent): string {
  const place = `Incumbent ${String(seq)}`;
  return rolled_back_to === null
    ? `${place}, approved`
    : `${place}, rolled back to ${String(rolled_back_to)}`;
}
