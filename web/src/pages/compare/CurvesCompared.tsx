/** What several trials reported, one chart per metric, a curve per trial. */
import { useQueries } from "@tanstack/react-query";
import { useMemo } from "react";
import { valuesQuery } from "../../api/queries/trials";
import type { Trial, Values } from "../../api/types";
import { colourOf } from "../../charts/arms";
import { Chart } from "../../charts/Chart";
import { curvesOption, curvesTable, orderMetrics, type NamedCurve } from "../../charts/curve";
import { usePalette, type Palette } from "../../charts/palette";
import { plural } from "../../format/numbers";
import { oneLine } from "../../format/text";
import { Card } from "../../ui/Card";
import { Empty, Failure, Loading, Skeleton } from "../../ui/States";
import css from "./Compare.module.css";

const SHOWN = 24;

export function CurvesCompared({ trials }: { readonly trials: readonly Trial[] }) {
  const found = useQueries({ queries: trials.map((trial) => valuesQuery(trial.id)) });
  const failed = found.find((one) => one.isError);
  const reported = found.map((one) => one.data);
  const metrics = metricsOf(reported);
  return (
    <Card title="Reported" note="What the programs said while they ran; a colour for each trial.">
      {found.some((one) => one.isPending) ? (
        <Loading what="curves">
          <Skeleton height="16rem" />
        </Loading>
      ) : failed !== undefined ? (
        <Failure what="The curves" error={failed.error} onRetry={() => void failed.refetch()} />
      ) : metrics.length === 0 ? (
        <Empty icon="chart" title="None of them reported anything" />
      ) : (
        <div className={css.charts}>
          {metrics.slice(0, SHOWN).map((metric) => (
            <Metric key={metric} metric={metric} trials={trials} reported={reported} />
          ))}
        </div>
      )}
    </Card>
  );
}

function metricsOf(reported: readonly (Values | undefined)[]): readonly string[] {
  const names = new Set(
    reported.flatMap((values) => values?.curves.map((curve) => curve.metric) ?? []),
  );
  return orderMetrics([...names], "");
}

interface MetricProps {
  readonly metric: string;
  readonly trials: readonly Trial[];
  readonly reported: readonly (Values | undefined)[];
}

function namedCurves({ metric, trials, reported }: MetricProps, palette: Palette): NamedCurve[] {
  return trials.flatMap((trial, at) => {
    const curve = reported[at]?.curves.find((one) => one.metric === metric);
    if (curve === undefined) return [];
    const several = trials.some((one) => one.study !== trial.study);
    const name = several ? trial.id : `trial ${String(trial.number)}`;
    return [{ name, curve, colour: colourOf(palette, at) }];
  });
}

function Metric(props: MetricProps) {
  const { metric, trials, reported } = props;
  const palette = usePalette();
  const curves = useMemo(
    () => namedCurves({ metric, trials, reported }, palette),
    [metric, trials, reported, palette],
  );
  const option = useMemo(() => curvesOption(curves, palette), [curves, palette]);
  const table = useMemo(() => curvesTable(curves), [curves]);
  const name = oneLine(metric, 80);
  return (
    <div>
      <Chart
        label={`${name} of ${plural(curves.length, "trial")} over their steps`}
        option={option}
        table={table}
        height={220}
        legend={<h3 title={name}>{name}</h3>}
        note={
          curves.length < trials.length
            ? `Reported by ${String(curves.length)} of ${String(trials.length)}.`
            : undefined
        }
      />
    </div>
  );
}
