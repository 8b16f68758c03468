/** Scores and parameters of several trials, a column each. */
import { useQueries, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { promotionQuery } from "../../api/queries/promotions";
import { studyQuery } from "../../api/queries/studies";
import type { Trial } from "../../api/types";
import { colourOf } from "../../charts/arms";
import { usePalette } from "../../charts/palette";
import { intervalOf } from "../../format/evidence";
import { numberAt } from "../../format/finite";
import { formatCount, formatNumber, plural } from "../../format/numbers";
import { oneLine, shortName } from "../../format/text";
import { StateBadge } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { Card } from "../../ui/Card";
import { cx } from "../../ui/cx";
import { None, NumberValue } from "../../ui/Values";
import { paramText } from "../study/ParamsList";
import css from "./Compare.module.css";
import { bestPlace, paramRows, scoreRows } from "./shaping";

interface ComparedProps {
  readonly trials: readonly Trial[];
}

export function ScoresCompared({
  trials,
  onRemove,
}: ComparedProps & { readonly onRemove: (id: string) => void }) {
  const study = useQuery(studyQuery(trials[0]?.study ?? ""));
  const objective = study.data?.objective;
  const values = trials.map((trial) => numberAt(trial.value, "value", trial.non_finite));
  const best = objective === undefined ? null : bestPlace(values, objective.direction);
  return (
    <Card title="Scores" note="From the evaluator alone.">
      <Scrolling label="Scores">
        <Head trials={trials} onRemove={onRemove} />
        <tbody>
          <tr>
            <th scope="row">Outcome</th>
            {trials.map((trial) => (
              <td key={trial.id}>
                <StateBadge state={trial.outcome} reason={trial.reason} />
              </td>
            ))}
          </tr>
          <tr>
            <th scope="row">{objective === undefined ? "Value" : oneLine(objective.metric, 60)}</th>
            {values.map((value, at) => (
              <td key={trials[at]?.id} className={cx(at === best && css.best)}>
                <NumberValue value={value} digits={5} />
                {at === best && <span className={css.small}>best of these</span>}
              </td>
            ))}
          </tr>
          <Gains trials={trials} />
          {scoreRows(trials).map((row) => (
            <tr key={`${row.split}/${row.metric}`}>
              <th scope="row" title={oneLine(row.metric)}>
                {shortName(row.metric, 36)}
                <span className={css.small}>{row.split}</span>
              </th>
              {row.values.map((value, at) => (
                <td key={trials[at]?.id}>
                  <NumberValue value={value} digits={5} />
                  {(row.items[at] ?? 0) > 0 && (
                    <span className={css.small}>{plural(row.items[at] ?? 0, "item")}</span>
                  )}
                </td>
              ))}
            </tr>
          ))}
          <tr>
            <th scope="row">Took</th>
            {trials.map((trial) => (
              <td key={trial.id}>
                <NumberValue value={trial.wall_s} unit="seconds" />
              </td>
            ))}
          </tr>
        </tbody>
      </Scrolling>
    </Card>
  );
}

/** The gain over the incumbent with its interval, of trials that a gate judged. */
function Gains({ trials }: ComparedProps) {
  const families = useQueries({
    queries: trials.map((trial) => ({
      ...promotionQuery(trial.family ?? ""),
      enabled: trial.family !== null,
    })),
  });
  if (trials.every((trial) => trial.family === null)) return null;
  return (
    <tr>
      <th scope="row">
        Gain in replays
        <span className={css.small}>95 % interval</span>
      </th>
      {families.map((family, at) => {
        const evidence = family.data?.evidence ?? {};
        const { gain } = evidence;
        const interval = intervalOf(evidence);
        return (
          <td key={trials[at]?.id}>
            {typeof gain === "number" ? <NumberValue value={gain} /> : <None />}
            {interval !== null && (
              <span className={css.small}>
                {formatNumber(interval[0])} to {formatNumber(interval[1])}
              </span>
            )}
          </td>
        );
      })}
    </tr>
  );
}

export function ParamsCompared({ trials }: ComparedProps) {
  const rows = paramRows(trials);
  const same = rows.filter((row) => !row.differs).length;
  if (rows.length === 0) return null;
  return (
    <Card
      title="Parameters"
      note={
        trials.length < 2
          ? "Add another trial to see what differs."
          : `${formatCount(rows.length - same)} differ${rows.length - same === 1 ? "s" : ""}, ${formatCount(same)} the same in all.`
      }
    >
      <Scrolling label="Parameters">
        <Head trials={trials} />
        <tbody>
          {rows.map((row) => (
            <tr key={row.name} className={cx(!row.differs && trials.length > 1 && css.same)}>
              <th scope="row" title={oneLine(row.name)}>
                {shortName(row.name, 36)}
              </th>
              {row.values.map((value, at) => (
                <td key={trials[at]?.id}>{value === undefined ? <None /> : paramText(value)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </Scrolling>
    </Card>
  );
}

function Scrolling({ label, children }: { readonly label: string; readonly children: ReactNode }) {
  return (
    // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- it scrolls by keyboard
    <div className={css.scroll} tabIndex={0} role="region" aria-label={label}>
      <table className={css.table}>{children}</table>
    </div>
  );
}

function Head({ trials, onRemove }: ComparedProps & { readonly onRemove?: (id: string) => void }) {
  const palette = usePalette();
  return (
    <thead>
      <tr>
        <td />
        {trials.map((trial, at) => (
          <th key={trial.id} scope="col">
            <span className={css.head}>
              <span className={css.swatch} style={{ background: colourOf(palette, at) }} />
              <Link
                to="/studies/$study/trials/$number"
                params={{ study: trial.study, number: String(trial.number) }}
              >
                Trial {trial.number}
              </Link>
              {onRemove !== undefined && (
                <Button
                  look="quiet"
                  icon="cross"
                  aria-label={`Leave out trial ${String(trial.number)}`}
                  onClick={() => onRemove(trial.id)}
                />
              )}
            </span>
            <span className={css.small}>{trial.study}</span>
          </th>
        ))}
      </tr>
    </thead>
  );
}
