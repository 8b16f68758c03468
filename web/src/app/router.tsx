/** Every address of the dashboard. A page is loaded when it is first asked for. */
import type { QueryClient } from "@tanstack/react-query";
import {
  createRootRouteWithContext,
  createRoute,
  createRouter,
  lazyRouteComponent,
  redirect,
} from "@tanstack/react-router";
import { studyQuery } from "../api/queries/studies";
import { trialQuery } from "../api/queries/trials";
import { readAnalysisSearch } from "../pages/analysis/search";
import { readCompareSearch } from "../pages/compare/search";
import { readLedgerSearch } from "../pages/ledger/search";
import { readPlanSearch } from "../pages/plan/search";
import { readPromotionsSearch } from "../pages/promotions/search";
import { readStudiesSearch } from "../pages/studies/search";
import { readSystemSearch } from "../pages/system/search";
import { readTrialsSearch } from "../pages/trials/search";
import { AppShell } from "./AppShell";
import { PageFailure } from "./PageFailure";
import { PageMissing } from "./PageMissing";
import { PageWaiting } from "./PageWaiting";

interface RouterContext {
  readonly client: QueryClient;
}

const root = createRootRouteWithContext<RouterContext>()({
  component: AppShell,
  notFoundComponent: PageMissing,
});

const home = createRoute({
  getParentRoute: () => root,
  path: "/",
  beforeLoad: () => redirect({ to: "/studies", throw: true }),
});

const studies = createRoute({
  getParentRoute: () => root,
  path: "/studies",
  validateSearch: readStudiesSearch,
  component: lazyRouteComponent(() => import("../pages/studies/StudiesPage"), "StudiesPage"),
});

const study = createRoute({
  getParentRoute: () => root,
  path: "/studies/$study",
  // Asked for together with the page's code, not after it.
  loader: ({ context, params }) =>
    void context.client.query(studyQuery(params.study)).catch(() => undefined),
  component: lazyRouteComponent(() => import("../pages/study/StudyLayout"), "StudyLayout"),
});

const overview = createRoute({
  getParentRoute: () => study,
  path: "/",
  component: lazyRouteComponent(() => import("../pages/study/OverviewPage"), "OverviewPage"),
});

const trials = createRoute({
  getParentRoute: () => study,
  path: "/trials",
  validateSearch: readTrialsSearch,
  component: lazyRouteComponent(() => import("../pages/trials/TrialsPage"), "TrialsPage"),
});

const spec = createRoute({
  getParentRoute: () => study,
  path: "/spec",
  component: lazyRouteComponent(() => import("../pages/study/SpecPage"), "SpecPage"),
});

const analysis = createRoute({
  getParentRoute: () => study,
  path: "/analysis",
  validateSearch: readAnalysisSearch,
  component: lazyRouteComponent(() => import("../pages/analysis/AnalysisPage"), "AnalysisPage"),
});

const proposer = createRoute({
  getParentRoute: () => study,
  path: "/proposer",
  component: lazyRouteComponent(() => import("../pages/proposer/ProposerPage"), "ProposerPage"),
});

const modelCall = createRoute({
  getParentRoute: () => study,
  path: "/model-calls/$call",
  component: lazyRouteComponent(() => import("../pages/proposer/CallPage"), "CallPage"),
});

const compare = createRoute({
  getParentRoute: () => root,
  path: "/compare",
  validateSearch: readCompareSearch,
  component: lazyRouteComponent(() => import("../pages/compare/ComparePage"), "ComparePage"),
});

const trial = createRoute({
  getParentRoute: () => root,
  path: "/studies/$study/trials/$number",
  loader: ({ context, params }) =>
    void context.client
      .query(trialQuery(params.study, Number(params.number)))
      .catch(() => undefined),
  component: lazyRouteComponent(() => import("../pages/trial/TrialPage"), "TrialPage"),
});

const candidate = createRoute({
  getParentRoute: () => root,
  path: "/candidates/$candidate",
  component: lazyRouteComponent(() => import("../pages/candidate/CandidatePage"), "CandidatePage"),
});

const ledger = createRoute({
  getParentRoute: () => root,
  path: "/ledger",
  validateSearch: readLedgerSearch,
  component: lazyRouteComponent(() => import("../pages/ledger/LedgerPage"), "LedgerPage"),
});

const promotions = createRoute({
  getParentRoute: () => root,
  path: "/promotions",
  validateSearch: readPromotionsSearch,
  component: lazyRouteComponent(
    () => import("../pages/promotions/PromotionsPage"),
    "PromotionsPage",
  ),
});

const promotion = createRoute({
  getParentRoute: () => root,
  path: "/promotions/$family",
  component: lazyRouteComponent(() => import("../pages/promotion/PromotionPage"), "PromotionPage"),
});

const models = createRoute({
  getParentRoute: () => root,
  path: "/models",
  component: lazyRouteComponent(() => import("../pages/models/ModelsPage"), "ModelsPage"),
});

const model = createRoute({
  getParentRoute: () => root,
  path: "/models/$model",
  component: lazyRouteComponent(() => import("../pages/models/ModelPage"), "ModelPage"),
});

const plan = createRoute({
  getParentRoute: () => root,
  path: "/plan",
  validateSearch: readPlanSearch,
  component: lazyRouteComponent(() => import("../pages/plan/PlanPage"), "PlanPage"),
});

const system = createRoute({
  getParentRoute: () => root,
  path: "/system",
  validateSearch: readSystemSearch,
  component: lazyRouteComponent(() => import("../pages/system/SystemPage"), "SystemPage"),
});

const tree = root.addChildren([
  home,
  studies,
  study.addChildren([overview, trials, analysis, proposer, modelCall, spec]),
  compare,
  trial,
  candidate,
  ledger,
  promotions,
  promotion,
  models,
  model,
  plan,
  system,
]);

export function newRouter(client: QueryClient) {
  return createRouter({
    routeTree: tree,
    context: { client },
    defaultPreload: "intent",
    defaultPreloadStaleTime: 0,
    scrollRestoration: true,
    defaultPendingComponent: PageWaiting,
    defaultPendingMs: 150,
    defaultErrorComponent: PageFailure,
    defaultNotFoundComponent: PageMissing,
  });
}

declare module "@tanstack/react-router" {
  interface Register {
    router: ReturnType<typeof newRouter>;
  }
}
