/** A candidate's lineage as boxes in columns: from its study over its ancestors to its promotions. */
import { formatNumber, words } from "./numbers";
import { oneLine } from "./text";
import { stageText } from "./evidence";

export interface LineageFact {
  readonly kind: string;
  readonly id: string;
  readonly came_from: readonly string[];
  readonly facts: Readonly<Record<string, unknown>>;
}

export type BoxTarget =
  | { readonly to: "study"; readonly study: string }
  | { readonly to: "candidate"; readonly candidate: string }
  | { readonly to: "trial"; readonly study: string; readonly number: string }
  | { readonly to: "family"; readonly family: string }
  | { readonly to: "model"; readonly model: string }
  | { readonly to: "nowhere" };

export interface Box {
  readonly id: string;
  readonly kind: string;
  readonly label: string;
  readonly detail: string;
  /** A state, where the thing has one. */
  readonly state: string | null;
  readonly target: BoxTarget;
  readonly x: number;
  readonly y: number;
  readonly isSelf: boolean;
}

export interface LineageGraph {
  readonly boxes: readonly Box[];
  readonly edges: readonly { readonly from: string; readonly to: string; readonly path: string }[];
  readonly width: number;
  readonly height: number;
  /** Executions left out of the picture; the table below has them. */
  readonly hidden: number;
}

export const BOX = { width: 176, height: 48 } as const;
const GAP = { x: 44, y: 12 } as const;
/** Executions drawn at most. */
const MOST_TRIALS = 5;

const text = (value: unknown): string => (typeof value === "string" ? value : "");

/** `s1a2-c0123456789abcdef` is read as `c0123456…`. */
export function shortId(id: string): string {
  const last = id.slice(id.lastIndexOf("-") + 1);
  return last.length > 10 ? `${last.slice(0, 9)}…` : last;
}

/** Artifacts and scores belong to their trial's box; inputs to the study's. */
const FOLDED: ReadonlySet<string> = new Set(["input", "artifact", "evaluation"]);

export function lineageGraph(candidate: string, nodes: readonly LineageFact[]): LineageGraph {
  const trials = nodes.filter((node) => node.kind === "trial");
  const shown = new Set(trials.slice(0, MOST_TRIALS).map((node) => node.id));
  const drawn = nodes.filter(
    (node) => !FOLDED.has(node.kind) && (node.kind !== "trial" || shown.has(node.id)),
  );
  const ancestors = drawn.filter((node) => node.kind === "candidate");
  const self = ancestors.length;
  const column = (node: LineageFact): number => {
    if (node.kind === "study") return 0;
    if (node.kind === "candidate") return 1 + ancestors.indexOf(node);
    return node.kind === "family" || node.kind === "trial" ? self + 1 : self + 2;
  };
  // Families on top of the executions, so that a promotion stands beside its family.
  const order = [...drawn].sort((a, b) => rank(a) - rank(b));
  const heights = new Map<number, number>();
  const boxes = order.map((node) => {
    const at = column(node);
    const row = heights.get(at) ?? 0;
    heights.set(at, row + 1);
    return box(node, nodes, candidate, at, row);
  });
  const known = new Map(boxes.map((one) => [one.id, one]));
  const edges = order.flatMap((node) =>
    node.came_from.flatMap((from) => {
      const [a, b] = [known.get(from), known.get(node.id)];
      // From the study one line is enough: to the oldest ancestor.
      if (a === undefined || b === undefined) return [];
      if (a.kind === "study" && node !== ancestors[0]) return [];
      return [{ from, to: node.id, path: curve(a, b) }];
    }),
  );
  const rows = Math.max(1, ...heights.values());
  const columns = Math.max(0, ...heights.keys()) + 1;
  return {
    boxes,
    edges,
    width: columns * BOX.width + (columns - 1) * GAP.x,
    height: rows * BOX.height + (rows - 1) * GAP.y,
    hidden: trials.length - shown.size,
  };
}

function rank(node: LineageFact): number {
  return ["study", "candidate", "family", "trial"].indexOf(node.kind);
}

function box(
  node: LineageFact,
  nodes: readonly LineageFact[],
  candidate: string,
  column: number,
  row: number,
): Box {
  return {
    id: node.id,
    kind: node.kind,
    ...wordsOf(node, nodes),
    isSelf: node.id === candidate,
    x: column * (BOX.width + GAP.x),
    y: row * (BOX.height + GAP.y),
  };
}

type Said = Pick<Box, "label" | "detail" | "state" | "target">;

function wordsOf(node: LineageFact, nodes: readonly LineageFact[]): Said {
  const { facts, id } = node;
  const state = typeof facts.state === "string" ? facts.state : null;
  const study = nodes.find((one) => one.kind === "study")?.id ?? "";
  switch (node.kind) {
    case "study": {
      const inputs = nodes.filter((one) => one.kind === "input").length;
      return {
        label: oneLine(text(facts.name), 40),
        detail: inputs === 0 ? "study" : `study, ${String(inputs)} frozen inputs`,
        state: null,
        target: { to: "study", study: id },
      };
    }
    case "candidate":
      return {
        label: shortId(id),
        detail: `by ${oneLine(text(facts.proposer), 30)}`,
        state,
        target: { to: "candidate", candidate: id },
      };
    case "trial":
      return {
        label: `Trial ${String(facts.number)}`,
        detail: trialDetail(node, nodes),
        state,
        target: { to: "trial", study, number: String(facts.number) },
      };
    case "family":
      return {
        label: `Gate ${shortId(id)}`,
        detail: words(state ?? ""),
        state,
        target: { to: "family", family: id },
      };
    case "promotion":
      return {
        label: oneLine(text(facts.model), 40),
        detail: `incumbent ${String(facts.seq)}`,
        state: "promoted",
        target: { to: "model", model: text(facts.model) },
      };
    default:
      // Of a newer server: shown, not understood.
      return { label: shortId(id), detail: words(node.kind), state, target: { to: "nowhere" } };
  }
}

function trialDetail(node: LineageFact, nodes: readonly LineageFact[]): string {
  const { facts } = node;
  const stage = text(facts.stage);
  const what = stage === "" ? text(facts.kind) : stageText(stage.split(":")[0] ?? "", false);
  const value = facts.value ?? scoreOf(node, nodes);
  return typeof value === "number" ? `${what} · ${formatNumber(value)}` : what;
}

/** A replay has no value of its own: the only number of its only score, if it is so. */
function scoreOf(node: LineageFact, nodes: readonly LineageFact[]): number | null {
  const scored = nodes.filter(
    (one) => one.kind === "evaluation" && one.id.startsWith(`${node.id}:`),
  );
  const scores = scored.length === 1 ? scored[0]?.facts.scores : undefined;
  if (typeof scores !== "object" || scores === null) return null;
  const found: unknown[] = Object.values(scores);
  return found.length === 1 && typeof found[0] === "number" ? found[0] : null;
}

function curve(a: Box, b: Box): string {
  const [x1, y1] = [a.x + BOX.width, a.y + BOX.height / 2];
  const [x2, y2] = [b.x, b.y + BOX.height / 2];
  const bend = x1 + (x2 - x1) / 2;
  return `M${String(x1)} ${String(y1)}C${String(bend)} ${String(y1)} ${String(bend)} ${String(y2)} ${String(x2)} ${String(y2)}`;
}
