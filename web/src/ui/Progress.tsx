import { formatAmount, formatShare, resourceName } from "../format/numbers";
import css from "./Progress.module.css";
import { cx } from "./cx";

export interface BudgetLine {
  readonly limit: number | null;
  readonly spent: number;
  readonly reserved: number;
  readonly overrun: number;
}

interface BudgetBarProps {
  readonly resource: string;
  readonly line: BudgetLine;
  readonly isCompact?: boolean;
}

/** What is spent (solid) and set aside for what runs (striped) of a limit. */
export function BudgetBar({ resource, line, isCompact = false }: BudgetBarProps) {
  const { limit, spent, reserved, overrun } = line;
  const name = resourceName(resource);
  const said = `${formatAmount(resource, spent)}${limit === null ? "" : ` of ${formatAmount(resource, limit)}`}`;
  const share = (value: number): number =>
    limit === null || limit <= 0 ? 0 : Math.min(1, Math.max(0, value / limit));
  const used = share(spent);
  const held = Math.min(share(reserved), 1 - used);
  return (
    <div
      className={cx(css.budget, isCompact && css.compact)}
      title={isCompact ? `${name}: ${said}` : undefined}
    >
      {!isCompact && (
        <div className={css.line}>
          <span className={css.name}>{name}</span>
          <span className={css.said}>
            {said}
            {limit === null && <span className={css.faint}> · no limit</span>}
          </span>
        </div>
      )}
      {limit !== null && (
        <div
          className={css.track}
          role="progressbar"
          aria-label={name}
          aria-valuenow={Math.round(used * 100)}
          aria-valuetext={said}
        >
          <span
            className={cx(css.spent, overrun > 0 && css.full)}
            style={{ width: `${String(used * 100)}%` }}
          />
          <span className={css.held} style={{ width: `${String(held * 100)}%` }} />
        </div>
      )}
      {!isCompact && (reserved > 0 || overrun > 0) && (
        <div className={css.faint}>
          {reserved > 0 && `${formatAmount(resource, reserved)} set aside for what runs`}
          {reserved > 0 && overrun > 0 && " · "}
          {overrun > 0 && `${formatAmount(resource, overrun)} over its reservation`}
        </div>
      )}
      {isCompact && <span className={css.share}>{limit === null ? said : formatShare(used)}</span>}
    </div>
  );
}
