/** What a trial reported while it ran, one small chart per metric. */
import { useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { valuesQuery } from "../../api/queries/trials";
import type { Curve, Trial } from "../../api/types";
import { Chart } from "../../charts/Chart";
import { curvesOption, curvesTable, orderMetrics, type NamedCurve } from "../../charts/curve";
import { usePalette } from "../../charts/palette";
import { curvePoints } from "../../format/finite";
import { formatCount, plural } from "../../format/numbers";
import { isTrialOver } from "../../format/states";
import { oneLine } from "../../format/text";
import { Button } from "../../ui/Button";
import { Card } from "../../ui/Card";
import { Empty, Failure, Loading, Skeleton } from "../../ui/States";
import { NumberValue } from "../../ui/Values";
import css from "./Trial.module.css";

const FIRST = 6;

interface CurvesCardProps {
  readonly trial: Trial;
  readonly objective: string;
}

export function CurvesCard({ trial, objective }: CurvesCardProps) {
  const [is_all, setAll] = useState(false);
  const found = useQuery(valuesQuery(trial.id));
  const curves = useMemo(
    () => ordered(found.data?.curves ?? [], objective),
    [found.data, objective],
  );
  return (
    <Card
      title="Reported"
      note="What the program said while it ran. Scores come from the evaluator alone."
    >
      {found.data === undefined ? (
        found.isError ? (
          <Failure what="The curves" error={found.error} onRetry={() => void found.refetch()} />
        ) : (
          <Loading what="curves">
            <Skeleton height="26rem" />
          </Loading>
        )
      ) : curves.length === 0 ? (
        <Empty
          icon="chart"
          title={isTrialOver(trial.state) ? "It reported nothing" : "Nothing reported yet"}
        />
      ) : (
        <>
          <div className={css.charts}>
            {(is_all ? curves : curves.slice(0, FIRST)).map((curve) => (
              <MetricChart key={curve.metric} curve={curve} />
            ))}
          </div>
          {curves.length > FIRST && (
            <div className={css.all}>
              <Button look="quiet" onClick={() => setAll(!is_all)}>
                {is_all ? "Fewer" : `All ${plural(curves.length, "metric")}`}
              </Button>
            </div>
          )}
        </>
      )}
    </Card>
  );
}

function ordered(curves: readonly Curve[], objective: string): readonly Curve[] {
  const by_name = new Map(curves.map((curve) => [curve.metric, curve]));
  return orderMetrics([...by_name.keys()], objective).flatMap((name) => by_name.get(name) ?? []);
}

function MetricChart({ curve }: { readonly curve: Curve }) {
  const palette = usePalette();
  const named = useMemo(
    (): readonly NamedCurve[] => [{ name: curve.metric, curve, colour: palette.accent }],
    [curve, palette],
  );
  const option = useMemo(() => curvesOption(named, palette), [named, palette]);
  const table = useMemo(() => curvesTable(named), [named]);
  const last = curvePoints(curve).at(-1);
  const name = oneLine(curve.metric, 80);
  return (
    <div className={css.metric}>
      <h3 title={name}>{name}</h3>
      <Chart
        label={`${name} over ${plural(curve.of, "step")}`}
        option={option}
        table={table}
        height={150}
        legend={
          last !== undefined && (
            <span className={css.small}>
              <NumberValue value={last.value} /> at step {formatCount(last.step)}
              {curve.sampled &&
                ` · ${formatCount(curve.steps.length)} of ${formatCount(curve.of)} points`}
            </span>
          )
        }
      />
    </div>
  );
}
