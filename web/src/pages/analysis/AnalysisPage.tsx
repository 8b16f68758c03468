/** What a study's trials say together: one view at a time, each with an address of its own. */
import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import type { ComponentType } from "react";
import { specQuery, studyQuery } from "../../api/queries/studies";
import { Card } from "../../ui/Card";
import { Failure, Loading, Skeleton } from "../../ui/States";
import { Tabs } from "../../ui/Tabs";
import css from "./Analysis.module.css";
import { EdfView, IntermediateView, ParetoView, TimelineView } from "./ResultViews";
import { namesOf, VIEWS, type AnalysisSearch, type View } from "./search";
import {
  ContourView,
  ImportancesView,
  ParallelView,
  SliceView,
  type ViewProps,
} from "./SpaceViews";

const route = getRouteApi("/studies/$study/analysis");

const SHOWN: Readonly<
  Record<View, { readonly label: string; readonly view: ComponentType<ViewProps> }>
> = {
  parallel: { label: "Parallel coordinates", view: ParallelView },
  importances: { label: "Importances", view: ImportancesView },
  slice: { label: "Slices", view: SliceView },
  contour: { label: "Contour", view: ContourView },
  edf: { label: "Distribution", view: EdfView },
  pareto: { label: "Pareto", view: ParetoView },
  intermediate: { label: "Curves", view: IntermediateView },
  timeline: { label: "Timeline", view: TimelineView },
};

export function AnalysisPage() {
  const { study } = route.useParams();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const found = useQuery(studyQuery(study));
  const spec = useQuery(specQuery(study));
  const view = search.view ?? "parallel";
  if (spec.isError && spec.data === undefined) {
    return (
      <Card>
        <Failure what="The analysis" error={spec.error} onRetry={() => void spec.refetch()} />
      </Card>
    );
  }
  if (found.data === undefined || spec.data === undefined) {
    return (
      <Loading what="the analysis">
        <Skeleton height="30rem" />
      </Loading>
    );
  }
  const names = namesOf(spec.data.spec, found.data.objective.metric);
  const change = (next: AnalysisSearch) =>
    void navigate({ search: (now) => ({ ...now, ...next }), replace: true });
  return (
    <Card>
      <Tabs
        label="Views of the analysis"
        chosen={view}
        // Another view has other axes: those of the one before are left behind.
        onChoose={(chosen) => void navigate({ search: { view: chosen as View } })}
        panels={VIEWS.map((id) => {
          const { label, view: Shown } = SHOWN[id];
          return {
            id,
            label,
            content: () => (
              <div className={css.view}>
                <Shown study={study} names={names} search={search} change={change} />
              </div>
            ),
          };
        })}
      />
    </Card>
  );
}
