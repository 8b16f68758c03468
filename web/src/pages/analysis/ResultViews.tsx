/** Views over results and time: distribution, Pareto front, curves, who ran when. */
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import {
  edfQuery,
  intermediateQuery,
  paretoQuery,
  timelineQuery,
} from "../../api/queries/analysis";
import type { EdfPlot, IntermediatePlot, ParetoPlot, TimelinePlot } from "../../api/types";
import { Chart } from "../../charts/Chart";
import { edfOption, edfTable, quantile } from "../../charts/distribution";
import {
  gapCount,
  intermediateLegend,
  intermediateOption,
  intermediateTable,
} from "../../charts/intermediate";
import { Legend } from "../../charts/Legend";
import { usePalette } from "../../charts/palette";
import { paretoLegend, paretoOption, paretoTable } from "../../charts/pareto";
import {
  timelineHeight,
  timelineLegend,
  timelineOption,
  timelineTable,
} from "../../charts/timeline";
import { formatCount, formatNumber, plural } from "../../format/numbers";
import { oneLine } from "../../format/text";
import { Button } from "../../ui/Button";
import { SelectField } from "../../ui/Field";
import { Empty } from "../../ui/States";
import css from "./Analysis.module.css";
import { AxisFields } from "./AxisFields";
import { NothingScored, PlotState } from "./PlotState";
import { chosenName } from "./search";
import type { ViewProps } from "./SpaceViews";
import { useOpenTrial } from "./useOpenTrial";

const HEIGHT = 400;

export function EdfView({ study }: ViewProps) {
  const found = useQuery(edfQuery(study));
  return (
    <PlotState found={found} what="The distribution" height={HEIGHT}>
      {(plot) => (plot.value.length === 0 ? <NothingScored /> : <Edf plot={plot} />)}
    </PlotState>
  );
}

function Edf({ plot }: { readonly plot: EdfPlot }) {
  const palette = usePalette();
  const option = useMemo(() => edfOption(plot, palette), [plot, palette]);
  const table = useMemo(() => edfTable(plot), [plot]);
  const median = quantile(plot, 0.5);
  return (
    <Chart
      label={`The share of ${plural(plot.of, "trial")} with at most a given ${plot.metric}`}
      option={option}
      table={table}
      height={HEIGHT}
      note={[
        median === null ? undefined : `Half of the trials reach at most ${formatNumber(median)}.`,
        plot.sampled
          ? `The curve of ${formatCount(plot.of)} trials is drawn through ${formatCount(plot.value.length)} points.`
          : undefined,
      ]
        .filter(Boolean)
        .join(" ")}
    />
  );
}

export function ParetoView({ study, names, search, change }: ViewProps) {
  const x = chosenName(names.metrics, search.x);
  const y = chosenName(names.metrics, search.y, x);
  if (x === undefined || y === undefined) {
    return (
      <Empty icon="chart" title="A front needs two metrics">
        The evaluator of this study scores one metric; its distribution shows all there is.
      </Empty>
    );
  }
  return (
    <>
      <AxisFields names={names.metrics} x={x} y={y} onChange={change} />
      <ParetoOf study={study} x={x} y={y} />
    </>
  );
}

function ParetoOf({
  study,
  x,
  y,
}: {
  readonly study: string;
  readonly x: string;
  readonly y: string;
}) {
  const found = useQuery(paretoQuery(study, [x, y]));
  return (
    <PlotState found={found} what="The front" height={HEIGHT}>
      {(plot) =>
        plot.front.number.length === 0 ? (
          <Empty icon="chart" title="No trial has both scores">
            A trial lies in this plot when both of its metrics are finite numbers.
          </Empty>
        ) : (
          <Pareto plot={plot} />
        )
      }
    </PlotState>
  );
}

function Pareto({ plot }: { readonly plot: ParetoPlot }) {
  const palette = usePalette();
  const open = useOpenTrial(plot.study);
  const option = useMemo(() => paretoOption(plot, palette), [plot, palette]);
  const table = useMemo(() => paretoTable(plot), [plot]);
  return (
    <Chart
      label={`${plural(plot.front.number.length, "trial")} on the front of ${plot.objectives.map((one) => one.metric).join(" and ")}`}
      option={option}
      table={table}
      height={HEIGHT}
      legend={<Legend items={paretoLegend(palette)} />}
      onClick={open}
      note={
        plot.sampled
          ? `The front of ${formatCount(plot.used)} of ${formatCount(plot.of)} trials.`
          : undefined
      }
    />
  );
}

export function IntermediateView({ study, search, change }: ViewProps) {
  const found = useQuery(intermediateQuery(study, search.metric));
  return (
    <PlotState found={found} what="The curves" height={HEIGHT}>
      {(plot) => (
        <>
          {plot.metrics.length > 0 && (
            <div className={css.controls}>
              <SelectField
                label="Metric"
                value={plot.metric}
                options={[...new Set([plot.metric, ...plot.metrics])].map((name) => ({
                  value: name,
                  label: oneLine(name, 60),
                }))}
                onChange={(metric) => change({ metric })}
              />
            </div>
          )}
          {plot.curves.length === 0 ? (
            <Empty icon="chart" title="No trial reported anything here">
              A program reports while it runs, a metric and a step at a time; curves are drawn from
              the first report on.
            </Empty>
          ) : (
            <Intermediate plot={plot} />
          )}
        </>
      )}
    </PlotState>
  );
}

function Intermediate({ plot }: { readonly plot: IntermediatePlot }) {
  const palette = usePalette();
  const open = useOpenTrial(plot.study);
  const option = useMemo(() => intermediateOption(plot, palette), [plot, palette]);
  const table = useMemo(() => intermediateTable(plot), [plot]);
  const gaps = gapCount(plot);
  return (
    <Chart
      label={`${plot.metric} over steps of ${plural(plot.curves.length, "trial")}`}
      option={option}
      table={table}
      height={HEIGHT}
      legend={<Legend items={intermediateLegend(plot, palette)} />}
      onClick={open}
      note={[
        plot.sampled
          ? `The best, the latest and the running: ${formatCount(plot.curves.length)} of ${formatCount(plot.of)} trials.`
          : undefined,
        gaps > 0
          ? `${plural(gaps, "report")} of NaN or infinity ${gaps === 1 ? "is a gap" : "are gaps"}.`
          : undefined,
      ]
        .filter(Boolean)
        .join(" ")}
    />
  );
}

export function TimelineView({ study, search, change }: ViewProps) {
  const found = useQuery(timelineQuery(study, search.before));
  return (
    <PlotState found={found} what="The timeline" height={240}>
      {(plot) => (
        <>
          {(plot.before !== null || search.before !== undefined) && (
            <div className={css.controls}>
              <Button
                icon="chevron_left"
                disabled={plot.before === null}
                onClick={() => plot.before !== null && change({ before: plot.before })}
              >
                Earlier trials
              </Button>
              {search.before !== undefined && (
                <Button look="quiet" onClick={() => change({ before: undefined })}>
                  The latest
                </Button>
              )}
            </div>
          )}
          {plot.rows.length === 0 ? (
            <Empty icon="clock" title="Nothing has run yet">
              Each attempt appears as a bar as soon as its process starts.
            </Empty>
          ) : (
            <TimelineChart plot={plot} />
          )}
        </>
      )}
    </PlotState>
  );
}

function TimelineChart({ plot }: { readonly plot: TimelinePlot }) {
  const palette = usePalette();
  const open = useOpenTrial(plot.study);
  const option = useMemo(() => timelineOption(plot, palette), [plot, palette]);
  const table = useMemo(() => timelineTable(plot), [plot]);
  const trials = new Set(plot.rows.map((row) => row.trial)).size;
  return (
    <Chart
      label={`When ${plural(plot.rows.length, "attempt")} ran, on ${plural(plot.slots, "slot")}`}
      option={option}
      table={table}
      height={timelineHeight(plot)}
      legend={<Legend items={timelineLegend(plot, palette)} />}
      onClick={open}
      note={
        plot.sampled
          ? `The attempts of ${formatCount(trials)} of ${formatCount(plot.of)} trials.`
          : `One line for each slot that was in use at the same time: ${plural(plot.rows.length, "attempt")} of ${plural(trials, "trial")}.`
      }
    />
  );
}
