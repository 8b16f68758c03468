/** Views over the parameters: parallel coordinates, importances, slices, a contour. */
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import {
  contourQuery,
  importancesQuery,
  parallelQuery,
  sliceQuery,
} from "../../api/queries/analysis";
import type { ContourPlot, CoordinatesPlot, ImportancesPlot } from "../../api/types";
import { Chart } from "../../charts/Chart";
import { contourOption, contourTable } from "../../charts/contour";
import { importancesHeight, importancesOption, importancesTable } from "../../charts/importances";
import { Legend } from "../../charts/Legend";
import { usePalette } from "../../charts/palette";
import {
  coordinatesTable,
  isConstant,
  parallelOption,
  type AxisColumn,
} from "../../charts/parallel";
import { outcomesLegend, sliceOption, sliceTable } from "../../charts/slice";
import { formatCount, plural } from "../../format/numbers";
import { oneLine, shortName } from "../../format/text";
import { Chips } from "../../ui/Layout";
import { Empty } from "../../ui/States";
import css from "./Analysis.module.css";
import { AxisFields } from "./AxisFields";
import { NothingScored, PlotState, sampledNote } from "./PlotState";
import { chosenName, type AnalysisSearch, type StudyNames } from "./search";
import { useOpenTrial } from "./useOpenTrial";

export interface ViewProps {
  readonly study: string;
  readonly names: StudyNames;
  readonly search: AnalysisSearch;
  readonly change: (next: AnalysisSearch) => void;
}

const HEIGHT = 420;
const AXIS_PX = 92;
const PANELS = 24;

function ParamChips({ names, search, change }: ViewProps) {
  if (names.params.length < 2) return null;
  return (
    <div className={css.controls}>
      <Chips
        label="Parameters"
        options={names.params.map((name) => ({ value: name, label: shortName(name, 40) }))}
        chosen={search.params ?? names.params}
        onChange={(chosen) => {
          const kept = names.params.filter((name) => chosen.includes(name));
          change({
            params: kept.length === 0 || kept.length === names.params.length ? undefined : kept,
          });
        }}
      />
    </div>
  );
}

function NoParameters() {
  return (
    <Empty icon="chart" title="This study has no parameters">
      Its proposer changes the program itself; see the history and the trials.
    </Empty>
  );
}

const known = ({ names, search }: ViewProps) =>
  search.params?.filter((p) => names.params.includes(p));

export function ParallelView(props: ViewProps) {
  const found = useQuery(parallelQuery(props.study, known(props)));
  if (props.names.params.length === 0) return <NoParameters />;
  return (
    <>
      <ParamChips {...props} />
      <PlotState found={found} what="Parallel coordinates" height={HEIGHT}>
        {(plot) => (plot.number.length === 0 ? <NothingScored /> : <Parallel plot={plot} />)}
      </PlotState>
    </>
  );
}

function Parallel({ plot }: { readonly plot: CoordinatesPlot }) {
  const palette = usePalette();
  const open = useOpenTrial(plot.study);
  const option = useMemo(() => parallelOption(plot, palette), [plot, palette]);
  const table = useMemo(() => coordinatesTable(plot), [plot]);
  const constant = plot.axes.filter(isConstant).map((axis) => shortName(axis.name, 40));
  const notes = [
    "Drag along an axis to pick out the trials that pass there; the better a trial, the stronger its line.",
    constant.length > 0 ? `The same in all: ${constant.join(", ")}.` : undefined,
    sampledNote(plot, plot.number.length),
  ];
  return (
    <div className={css.wide}>
      <div style={{ minWidth: (plot.axes.length + 1) * AXIS_PX }}>
        <Chart
          label={`${plural(plot.number.length, "trial")} as lines through ${plural(plot.axes.length, "parameter")} to ${oneLine(plot.metric, 80)}`}
          option={option}
          table={table}
          height={HEIGHT}
          onClick={open}
          note={notes.filter(Boolean).join(" ")}
        />
      </div>
    </div>
  );
}

export function ImportancesView({ study, names }: ViewProps) {
  const found = useQuery(importancesQuery(study));
  if (names.params.length === 0) return <NoParameters />;
  return (
    <PlotState found={found} what="Importances" height={200}>
      {(plot) =>
        plot.importances.length === 0 ? (
          <Empty icon="chart" title="Nothing to tell apart yet">
            {plot.why_empty ?? "Importances need trials with a score."}
          </Empty>
        ) : (
          <Importances plot={plot} />
        )
      }
    </PlotState>
  );
}

function Importances({ plot }: { readonly plot: ImportancesPlot }) {
  const palette = usePalette();
  const option = useMemo(() => importancesOption(plot, palette), [plot, palette]);
  const table = useMemo(() => importancesTable(plot), [plot]);
  return (
    <Chart
      label={`How much each parameter separates the best tenth of the trials, by ${plot.metric}`}
      option={option}
      table={table}
      height={importancesHeight(plot)}
      note={`Share of what separates the best tenth from all trials, one parameter at a time (PED-ANOVA), from ${formatCount(plot.used)} of ${plural(plot.of, "trial")}.`}
    />
  );
}

export function SliceView(props: ViewProps) {
  const found = useQuery(sliceQuery(props.study, known(props)));
  const palette = usePalette();
  if (props.names.params.length === 0) return <NoParameters />;
  return (
    <>
      <ParamChips {...props} />
      <PlotState found={found} what="Slices" height={HEIGHT}>
        {(plot) =>
          plot.number.length === 0 ? (
            <NothingScored />
          ) : (
            <>
              <div className={css.legend}>
                <Legend items={outcomesLegend(plot, palette)} />
                {plot.sampled && (
                  <p className={css.sampled}>{sampledNote(plot, plot.number.length)}</p>
                )}
              </div>
              <div className={css.panels}>
                {plot.axes.slice(0, PANELS).map((axis) => (
                  <Slice
                    key={axis.name}
                    plot={plot}
                    axis={axis}
                    height={plot.axes.length === 1 ? 360 : 210}
                  />
                ))}
              </div>
              {plot.axes.length > PANELS && (
                <p>
                  The first {PANELS} of {plot.axes.length} parameters; choose others above.
                </p>
              )}
            </>
          )
        }
      </PlotState>
    </>
  );
}

interface SliceProps {
  readonly plot: CoordinatesPlot;
  readonly axis: AxisColumn;
  readonly height: number;
}

function Slice({ plot, axis, height }: SliceProps) {
  const palette = usePalette();
  const open = useOpenTrial(plot.study);
  const option = useMemo(() => sliceOption(plot, axis, palette), [plot, axis, palette]);
  const table = useMemo(() => sliceTable(plot, axis), [plot, axis]);
  const name = oneLine(axis.name, 80);
  return (
    <div className={css.panel}>
      <Chart
        label={`${plot.metric} over ${name}`}
        option={option}
        table={table}
        height={height}
        legend={<h3 title={name}>{shortName(axis.name, 30)}</h3>}
        onClick={open}
      />
    </div>
  );
}

export function ContourView({ study, names, search, change }: ViewProps) {
  const x = chosenName(names.params, search.x);
  const y = chosenName(names.params, search.y, x);
  if (x === undefined) return <NoParameters />;
  if (y === undefined) {
    return (
      <Empty icon="chart" title="A contour needs two parameters">
        This study has one; its slice shows all there is.
      </Empty>
    );
  }
  return (
    <>
      <AxisFields names={names.params} x={x} y={y} onChange={change} />
      <Contour study={study} x={x} y={y} />
    </>
  );
}

function Contour({
  study,
  x,
  y,
}: {
  readonly study: string;
  readonly x: string;
  readonly y: string;
}) {
  const found = useQuery(contourQuery(study, x, y));
  return (
    <PlotState found={found} what="The contour" height={HEIGHT}>
      {(plot) =>
        plot.count.flat().every((count) => count === 0) ? (
          <NothingScored />
        ) : (
          <ContourChart plot={plot} />
        )
      }
    </PlotState>
  );
}

function ContourChart({ plot }: { readonly plot: ContourPlot }) {
  const palette = usePalette();
  const option = useMemo(() => contourOption(plot, palette), [plot, palette]);
  const table = useMemo(() => contourTable(plot), [plot]);
  const used = plot.count.flat().reduce((sum, count) => sum + count, 0);
  return (
    <Chart
      label={`Mean ${plot.metric} over ${plot.x.name} and ${plot.y.name}`}
      option={option}
      table={table}
      height={HEIGHT}
      note={[
        "Strong cells hold trials; pale ones are filled from their neighbours.",
        sampledNote(plot, used),
      ]
        .filter(Boolean)
        .join(" ")}
    />
  );
}
