/** Planning before anything is spent: a system that fits together, rollouts, a study's price. */
import { getRouteApi } from "@tanstack/react-router";
import { Stack } from "../../ui/Layout";
import { PageHeader } from "../../ui/PageHeader";
import { Tabs } from "../../ui/Tabs";
import { PriceForm } from "./PriceForm";
import { RolloutForm } from "./RolloutForm";
import { SystemForm } from "./SystemForm";

const route = getRouteApi("/plan");

export function PlanPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  return (
    <>
      <PageHeader
        title="Plan"
        note="What a system implies, what a study costs, how many GPUs rollouts take. Nothing runs."
      />
      <Stack>
        <Tabs
          label="What to plan"
          chosen={search.tab}
          onChoose={(tab) => void navigate({ search: { tab }, replace: true })}
          panels={[
            { id: "study", label: "Study", content: () => <PriceForm /> },
            { id: "system", label: "System", content: () => <SystemForm /> },
            { id: "rollouts", label: "Rollouts", content: () => <RolloutForm /> },
          ]}
        />
      </Stack>
    </>
  );
}
