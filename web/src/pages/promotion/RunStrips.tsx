/** The runs that a gate compared: every run a dot, the mean a line, its 95 % interval a band. */
import {
  comparisons,
  failedText,
  type Comparison,
  type Gate,
  type RunGroup,
} from "../../format/evidence";
import { meanInterval, meanOf, scaleOf, type Scale } from "../../format/spread";
import { shortId } from "../../format/lineage";
import { formatNumber } from "../../format/numbers";
import { Empty } from "../../ui/States";
import { CandidateLink } from "../../ui/Values";
import { cx } from "../../ui/cx";
import css from "./RunStrips.module.css";

export function RunStrips({ gate }: { readonly gate: Gate }) {
  const found = comparisons(gate);
  if (found.length === 0) {
    return (
      <Empty icon="repeat" title="Nothing to compare yet">
        {gate.state === "open"
          ? "The first replays are still running."
          : "The family ended before one of its members was replayed."}
      </Empty>
    );
  }
  return (
    <div className={css.strips}>
      {found.map((one) => (
        <Strip key={one.id} comparison={one} />
      ))}
    </div>
  );
}

function Strip({ comparison }: { readonly comparison: Comparison }) {
  const { groups, bar } = comparison;
  const shown = groups.filter((group) => group.values.length > 0);
  const scale = scaleOf([
    ...shown.flatMap((group) => [...group.values, ...(meanInterval(group.values) ?? [])]),
    ...(bar === null ? [] : [bar]),
  ]);
  return (
    <section className={css.strip} aria-label={comparison.title}>
      <h3>{comparison.title}</h3>
      <p className={css.note}>
        {comparison.note}
        {bar !== null && ` · bar at ${formatNumber(bar)} (dashed)`}
      </p>
      <div className={css.rows}>
        {shown.map((group) => (
          <Row key={group.id} group={group} scale={scale} bar={bar} />
        ))}
      </div>
      <div className={css.ends} aria-hidden="true">
        <span>{formatNumber(scale.low, 3)}</span>
        <span>{formatNumber(scale.high, 3)}</span>
      </div>
    </section>
  );
}

interface RowProps {
  readonly group: RunGroup;
  readonly scale: Scale;
  readonly bar: number | null;
}

function Row({ group, scale, bar }: RowProps) {
  const mean = meanOf(group.values);
  const interval = meanInterval(group.values);
  const percent = (value: number) => `${String(scale.at(value))}%`;
  const half = mean === null || interval === null ? null : interval[1] - mean;
  return (
    <div className={css.row}>
      <span className={css.label}>
        {group.label}{" "}
        {group.candidate !== undefined && (
          <CandidateLink id={group.candidate}>{shortId(group.candidate)}</CandidateLink>
        )}
      </span>
      <div className={cx(css.track, css[group.side])} title={group.values.join(", ")}>
        {bar !== null && <span className={css.bar} style={{ left: percent(bar) }} />}
        {interval !== null && (
          <span
            className={css.span}
            style={{
              left: percent(interval[0]),
              width: `${String(scale.at(interval[1]) - scale.at(interval[0]))}%`,
            }}
          />
        )}
        {group.values.map((value, at) => (
          <span key={at} className={css.dot} style={{ left: percent(value) }} />
        ))}
        {mean !== null && <span className={css.mean} style={{ left: percent(mean) }} />}
      </div>
      <span className={css.said} title={failedText(group.failed)}>
        {mean === null ? "" : formatNumber(mean)}
        {half !== null && ` ± ${formatNumber(half, 2)}`}
        {` · ${String(group.values.length)}`}
        <span className="visually-hidden"> runs</span>
        {group.failed > 0 && ` (${String(group.failed)} failed)`}
      </span>
    </div>
  );
}
