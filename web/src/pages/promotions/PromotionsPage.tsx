/** Every family that went before the gate, the newest first. */
import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { modelsQuery } from "../../api/queries/promotions";
import { words } from "../../format/numbers";
import { oneLine } from "../../format/text";
import { Card } from "../../ui/Card";
import { SelectField } from "../../ui/Field";
import { Chips, Stack, Toolbar } from "../../ui/Layout";
import { PageHeader } from "../../ui/PageHeader";
import { Empty } from "../../ui/States";
import { PromotionsTable } from "./PromotionsTable";
import { PromotionTabs } from "./PromotionTabs";
import { PROMOTION_STATES, type PromotionsSearch } from "./search";

const route = getRouteApi("/promotions");

const STATE_CHIPS = PROMOTION_STATES.map((value) => ({ value, label: words(value) }));

export function PromotionsPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const models = useQuery(modelsQuery());
  const change = (next: Partial<PromotionsSearch>) =>
    void navigate({ search: (now) => ({ ...now, ...next }), replace: true });
  const is_filtered = search.state !== undefined || search.model !== undefined;
  const names = models.data?.items.map((item) => item.model) ?? [];
  const choices =
    search.model === undefined || names.includes(search.model) ? names : [search.model, ...names];
  return (
    <>
      <PageHeader
        title="Promotions"
        note="A winner has to win again: on fresh seeds, on items nobody has seen, against fresh runs of the incumbent."
      />
      <Stack>
        <PromotionTabs />
        <Card isFlush>
          <Toolbar>
            <SelectField
              label="Model"
              isLabelHidden
              value={search.model ?? ""}
              onChange={(model) => change({ model: model === "" ? undefined : model })}
              options={[
                { value: "", label: "Every model" },
                ...choices.map((model) => ({ value: model, label: oneLine(model, 60) })),
              ]}
            />
            <Chips
              label="State"
              options={STATE_CHIPS}
              chosen={search.state ?? []}
              onChange={(state) => change({ state: state.length === 0 ? undefined : state })}
            />
          </Toolbar>
          <PromotionsTable
            query={search}
            empty={
              is_filtered ? (
                <Empty icon="search" title="No promotion matches">
                  Change the model or the state above.
                </Empty>
              ) : (
                <Empty icon="flag" title="Nothing went before the gate yet">
                  A study with a <code>promotion:</code> section replays its winners when it ends.
                </Empty>
              )
            }
          />
        </Card>
      </Stack>
    </>
  );
}
