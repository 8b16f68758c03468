/** What a plot shows until it can be drawn: waiting, refused, or nothing to draw. */
import type { UseQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { formatCount } from "../../format/numbers";
import { Empty, Failure, Loading, Skeleton } from "../../ui/States";

interface PlotStateProps<Plot> {
  readonly found: UseQueryResult<Plot>;
  readonly what: string;
  readonly height: number;
  readonly children: (plot: Plot) => ReactNode;
}

export function PlotState<Plot>({ found, what, height, children }: PlotStateProps<Plot>) {
  if (found.data !== undefined) return children(found.data);
  if (found.isError) {
    return <Failure what={what} error={found.error} onRetry={() => void found.refetch()} />;
  }
  return (
    <Loading what={what}>
      <Skeleton height={`${String(height + 28)}px`} />
    </Loading>
  );
}

export function NothingScored() {
  return (
    <Empty icon="chart" title="No trial has a finite score yet">
      Trials that failed, were pruned or scored NaN or infinity have no place in this plot; the
      first that completes is drawn here.
    </Empty>
  );
}

interface Sampled {
  readonly sampled: boolean;
  readonly of: number;
}

/** How much of the study a plot was drawn from; undefined where that is all of it. */
export function sampledNote(plot: Sampled, shown: number): string | undefined {
  if (!plot.sampled) return undefined;
  return `Drawn from ${formatCount(shown)} of ${formatCount(plot.of)} trials: the best and a fair choice of the others.`;
}
