/** One model: its aliases, its incumbents over time, every family that tried to replace one. */
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { isMissing } from "../../api/problems";
import { incumbentsQuery } from "../../api/queries/promotions";
import { modelQuery } from "../../api/queries/registry";
import { oneLine } from "../../format/text";
import { Button } from "../../ui/Button";
import { Card } from "../../ui/Card";
import { Stack } from "../../ui/Layout";
import { PageHeader } from "../../ui/PageHeader";
import { Empty, Failure, Loading, Skeleton } from "../../ui/States";
import { PromotionsTable } from "../promotions/PromotionsTable";
import { AliasesCard } from "./AliasesCard";
import { Incumbents } from "./IncumbentsCard";

const route = getRouteApi("/models/$model");

const HIDDEN: ReadonlySet<string> = new Set(["model"]);

export function ModelPage() {
  const { model } = route.useParams();
  // Its cards come together: one that is filled later would push the others down.
  const positions = useInfiniteQuery(incumbentsQuery(model));
  const aliases = useQuery(modelQuery(model));
  const is_loading = positions.isPending || aliases.isPending;
  return (
    <>
      <PageHeader
        title={oneLine(model, 100)}
        crumbs={[{ label: "Models", link: { to: "/models" } }]}
      />
      {is_loading ? (
        <Loading what="the model">
          <Skeleton height="24rem" />
        </Loading>
      ) : (
        <Stack>
          <Promoted model={model} />
          <Card title="Families" note="every attempt to replace the incumbent" isFlush>
            <PromotionsTable
              query={{ model }}
              hidden={HIDDEN}
              empty={<Empty icon="flag" title="No family yet" />}
            />
          </Card>
        </Stack>
      )}
    </>
  );
}

function Promoted({ model }: { readonly model: string }) {
  const found = useInfiniteQuery(incumbentsQuery(model));
  const shown = found.data?.pages.flatMap((page) => page.items) ?? [];
  return (
    <>
      {shown.length > 0 && <AliasesCard model={model} positions={shown} />}
      <Card title="Incumbents" note="the newest first">
        {found.data === undefined ? (
          isMissing(found.error) ? (
            <NoIncumbent />
          ) : (
            <Failure
              what="The incumbents"
              error={found.error}
              onRetry={() => void found.refetch()}
            />
          )
        ) : shown.length === 0 ? (
          <NoIncumbent />
        ) : (
          <Incumbents model={model} positions={shown} />
        )}
        {found.hasNextPage && (
          <Button isBusy={found.isFetchingNextPage} onClick={() => void found.fetchNextPage()}>
            Older
          </Button>
        )}
      </Card>
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
