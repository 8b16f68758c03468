/** One model: its aliases, its incumbents over time, every family that tried to replace one. */
import { getRouteApi } from "@tanstack/react-router";
import { isMissing } from "../../api/problems";
import { oneLine } from "../../format/text";
import { Button } from "../../ui/Button";
import { Card } from "../../ui/Card";
import { Stack } from "../../ui/Layout";
import { PageHeader } from "../../ui/PageHeader";
import { Empty, Failure, Loading, Skeleton } from "../../ui/States";
import { PromotionsTable } from "../promotions/PromotionsTable";
import { AliasesCard } from "./AliasesCard";
import { CampaignsCard } from "./CampaignsCard";
import {
  useCampaigns,
  useIncumbents,
  useModel,
  type FoundIncumbents,
  type FoundModel,
} from "./found";
import { Incumbents } from "./IncumbentsCard";

const route = getRouteApi("/models/$model");

const HIDDEN: ReadonlySet<string> = new Set(["model"]);

export function ModelPage() {
  const { model } = route.useParams();
  // Its cards come together: one that is filled later would push the others down. They are given
  // what was found: an observer of their own would ask again for what failed, and so for ever.
  const positions = useIncumbents(model);
  const aliases = useModel(model);
  const campaigns = useCampaigns();
  const its = campaigns.data?.items.filter((one) => one.model === model) ?? [];
  const is_loading = positions.isPending || aliases.isPending || campaigns.isPending;
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
          <Promoted model={model} found={positions} aliases={aliases} />
          {its.length > 0 && <CampaignsCard campaigns={its} />}
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

interface PromotedProps {
  readonly model: string;
  readonly found: FoundIncumbents;
  readonly aliases: FoundModel;
}

function Promoted({ model, found, aliases }: PromotedProps) {
  const shown = found.data?.pages.flatMap((page) => page.items) ?? [];
  return (
    <>
      {shown.length > 0 && <AliasesCard model={model} positions={shown} found={aliases} />}
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
