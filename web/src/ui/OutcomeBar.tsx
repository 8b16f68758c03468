import { formatCount, plural, words } from "../format/numbers";
import { stateLook } from "../format/states";
import css from "./OutcomeBar.module.css";
import { cx } from "./cx";

const ORDER = [
  "kept",
  "complete",
  "measured",
  "discarded",
  "served",
  "deciding",
  "evaluating",
  "running",
  "proposed",
  "pruned",
  "failed",
  "cancelled",
];

interface OutcomeBarProps {
  readonly counts: Readonly<Record<string, number | undefined>>;
  readonly isCompact?: boolean;
}

/** How many trials ended how: one bar, and each number beside its word. */
export function OutcomeBar({ counts, isCompact = false }: OutcomeBarProps) {
  const known = [...ORDER, ...Object.keys(counts).filter((word) => !ORDER.includes(word))];
  const parts = known.flatMap((word) => {
    const count = counts[word] ?? 0;
    return count > 0 ? [{ word, count, tone: stateLook(word).tone }] : [];
  });
  const total = parts.reduce((sum, part) => sum + part.count, 0);
  const said = parts.map((part) => `${formatCount(part.count)} ${words(part.word)}`).join(", ");
  if (total === 0) return <span className={css.none}>no trials</span>;
  return (
    <div
      className={cx(css.outcomes, isCompact && css.compact)}
      title={isCompact ? said : undefined}
    >
      <div className={css.bar} role="img" aria-label={`${plural(total, "trial")}: ${said}`}>
        {parts.map((part) => (
          <span
            key={part.word}
            className={cx(css.part, css[part.tone], css[part.word])}
            style={{ flexGrow: part.count }}
          />
        ))}
      </div>
      {isCompact ? (
        <span className={css.total}>{formatCount(total)}</span>
      ) : (
        <ul className={css.words}>
          {parts.map((part) => (
            <li key={part.word}>
              <span className={cx(css.dot, css[part.tone], css[part.word])} />
              <b>{formatCount(part.count)}</b> {words(part.word)}
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
