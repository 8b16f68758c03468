/** Whose proposals won, and how each arm's values moved. */
import { useMemo } from "react";
import type { Arm, Proposer } from "../../api/types";
import { armName, armPoints, armsLegend, armsOption, armsTable, colourOf } from "../../charts/arms";
import { Chart } from "../../charts/Chart";
import { Legend } from "../../charts/Legend";
import { usePalette } from "../../charts/palette";
import { numberAt } from "../../format/finite";
import { formatCount, formatShare, words } from "../../format/numbers";
import { oneLine } from "../../format/text";
import { Card } from "../../ui/Card";
import { Empty } from "../../ui/States";
import { None, NumberValue } from "../../ui/Values";
import css from "./Proposer.module.css";

export function ArmsCard({ proposer }: { readonly proposer: Proposer }) {
  const palette = usePalette();
  return (
    <Card title="Who brought what" note="A win is a trial that was the best so far when it ended.">
      {proposer.arms.length === 0 ? (
        <Empty icon="chart" title="No proposal has ended yet" />
      ) : (
        // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- it scrolls by keyboard
        <div className={css.scroll} tabIndex={0} role="region" aria-label="Arms">
          <table className={css.table}>
            <thead>
              <tr>
                <th scope="col">Arm</th>
                <th scope="col">Share of wins</th>
                <th scope="col" className={css.number}>
                  Wins
                </th>
                <th scope="col" className={css.number}>
                  Trials
                </th>
                <th scope="col" className={css.number}>
                  Best
                </th>
                <th scope="col">Outcomes</th>
              </tr>
            </thead>
            <tbody>
              {proposer.arms.map((arm, place) => (
                <tr key={arm.name}>
                  <td>
                    <span className={css.name} title={oneLine(arm.name)}>
                      <span
                        className={css.swatch}
                        style={{ background: colourOf(palette, place) }}
                      />
                      {oneLine(armName(arm.name), 60)}
                    </span>
                  </td>
                  <td>
                    <Share share={arm.share_of_wins} />
                  </td>
                  <td className={css.number}>{formatCount(arm.improved)}</td>
                  <td className={css.number}>{formatCount(arm.trials)}</td>
                  <td className={css.number}>
                    <NumberValue
                      value={numberAt(
                        arm.best_value,
                        `arms/${String(place)}/best_value`,
                        proposer.non_finite,
                      )}
                    />
                  </td>
                  <td>{outcomesText(arm)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Card>
  );
}

function Share({ share }: { readonly share: number | null }) {
  if (share === null) return <None />;
  return (
    <span className={css.share}>
      <span className={css.track} aria-hidden="true">
        <span className={css.fill} style={{ width: `${String(share * 100)}%` }} />
      </span>
      {formatShare(share)}
    </span>
  );
}

/** "3 kept, 15 discarded", the most frequent first. */
function outcomesText(arm: Arm): string {
  return Object.entries(arm.outcomes)
    .filter(([, count]) => count > 0)
    .sort(([, a], [, b]) => b - a)
    .map(([outcome, count]) => `${formatCount(count)} ${words(outcome)}`)
    .join(", ");
}

export function LearningCard({ proposer }: { readonly proposer: Proposer }) {
  const palette = usePalette();
  const option = useMemo(() => armsOption(proposer, palette), [proposer, palette]);
  const table = useMemo(() => armsTable(proposer), [proposer]);
  const window = Math.max(0, ...proposer.arms.map((arm) => arm.curve.window));
  if (proposer.arms.every((arm) => armPoints(arm).length === 0)) return null;
  return (
    <Card
      title="Learning"
      note={`The mean ${oneLine(proposer.metric, 40)} of each arm's latest ${String(window)} trials: a proposer that learns ${proposer.direction === "maximize" ? "rises" : "falls"}.`}
    >
      <Chart
        label={`Mean ${proposer.metric} of each arm's latest trials`}
        option={option}
        table={table}
        height={300}
        legend={<Legend items={armsLegend(proposer, palette)} />}
        note={
          proposer.arms.some((arm) => arm.curve.sampled)
            ? "Some points are left out of long curves."
            : undefined
        }
      />
    </Card>
  );
}
