/** Best so far over the trials that ended. */
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useCallback, useMemo } from "react";
import { historyQuery } from "../../api/queries/plots";
import type { HistoryPlot, Study } from "../../api/types";
import { Chart, type ChartClick } from "../../charts/Chart";
import {
  historyLegend,
  historyOption,
  historyTable,
  type HistoryDatum,
} from "../../charts/history";
import { Legend } from "../../charts/Legend";
import { usePalette } from "../../charts/palette";
import { formatCount } from "../../format/numbers";
import { Card } from "../../ui/Card";
import { Empty, Failure, Loading, Skeleton } from "../../ui/States";

const HEIGHT = 340;
/** With the legend's line, so that nothing moves when the chart comes. */
const WHOLE = "23rem";

export function HistoryCard({ study }: { readonly study: Study }) {
  const found = useQuery(historyQuery(study.study));
  return (
    <Card title="History">
      {found.data === undefined ? (
        found.isError ? (
          <Failure what="The history" error={found.error} onRetry={() => void found.refetch()} />
        ) : (
          <Loading what="history">
            <Skeleton height={WHOLE} />
          </Loading>
        )
      ) : found.data.of === 0 ? (
        <Empty icon="chart" title="No search trial has ended yet">
          The first that ends is drawn here.
        </Empty>
      ) : (
        <HistoryChart plot={found.data} />
      )}
    </Card>
  );
}

function HistoryChart({ plot }: { readonly plot: HistoryPlot }) {
  const palette = usePalette();
  const navigate = useNavigate();
  const option = useMemo(() => historyOption(plot, palette), [plot, palette]);
  const table = useMemo(() => historyTable(plot), [plot]);
  const open = useCallback(
    ({ data }: ChartClick) => {
      const { number } = data as HistoryDatum;
      void navigate({
        to: "/studies/$study/trials/$number",
        params: { study: plot.study, number: String(number) },
      });
    },
    [navigate, plot.study],
  );
  const shown = plot.points.finish.length + plot.without_value.finish.length;
  return (
    <Chart
      label={`${plot.metric} of ${formatCount(plot.of)} search trials in the order they ended`}
      option={option}
      table={table}
      height={HEIGHT}
      legend={<Legend items={historyLegend(plot, palette)} />}
      onClick={open}
      note={
        plot.sampled
          ? `${formatCount(shown)} of ${formatCount(plot.of)} trials are drawn: every kept one and every best among them.`
          : undefined
      }
    />
  );
}
