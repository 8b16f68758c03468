/** A gain with its 95 % interval against nought, small enough for a row of a table. */
import { intervalOf, numberOf } from "../../format/evidence";
import { scaleOf } from "../../format/spread";
import { formatNumber } from "../../format/numbers";
import { None } from "../../ui/Values";
import { cx } from "../../ui/cx";
import css from "./GainBar.module.css";

export function GainBar({ evidence }: { readonly evidence: Readonly<Record<string, unknown>> }) {
  const gain = numberOf(evidence.gain);
  if (gain === null) return <None />;
  const [low, high] = intervalOf(evidence) ?? [gain, gain];
  const scale = scaleOf([0, gain, low, high]);
  const percent = (value: number) => `${String(scale.at(value))}%`;
  const said = `${formatNumber(low, 3)} to ${formatNumber(high, 3)}`;
  return (
    <span className={css.gain} title={`gain ${String(gain)}, 95 % interval ${said}`}>
      <span className={cx(css.track, low > 0 ? css.good : css.mute)} aria-hidden="true">
        <span className={css.zero} style={{ left: percent(0) }} />
        <span
          className={css.band}
          style={{ left: percent(low), width: `${String(scale.at(high) - scale.at(low))}%` }}
        />
        <span className={css.dot} style={{ left: percent(gain) }} />
      </span>
      <span className={css.text}>
        {gain > 0 && "+"}
        {formatNumber(gain)} <span className={css.interval}>{said}</span>
      </span>
    </span>
  );
}
