import { stateLook, type Tone } from "../format/states";
import { words } from "../format/numbers";
import css from "./Badge.module.css";
import tones from "./tones.module.css";
import { Icon } from "./Icon";
import { cx } from "./cx";

interface StateBadgeProps {
  readonly state: string;
  /** Why, as the ledger's code: shown after the word. */
  readonly reason?: string | null | undefined;
  readonly size?: "small" | "large";
}

/** A state as colour, shape and word. */
export function StateBadge({ state, reason, size = "small" }: StateBadgeProps) {
  const look = stateLook(state);
  return (
    <span
      className={cx(css.badge, tones[look.tone], size === "large" && css.large)}
      title={reason === null || reason === undefined ? undefined : `${look.word}: ${words(reason)}`}
    >
      <span className={cx(css.icon, look.moves && css.moves)}>
        <Icon name={look.icon} size={size === "large" ? 14 : 12} />
      </span>
      <span>{look.word}</span>
      {reason !== null && reason !== undefined && reason !== state && (
        <span className={css.reason}>{reasonAfter(look.word, reason)}</span>
      )}
    </span>
  );
}

/** `pruned_median` after "pruned" is "median". */
function reasonAfter(word: string, reason: string): string {
  const said = words(reason);
  return said.startsWith(`${word} `) ? said.slice(word.length + 1) : said;
}

interface TagProps {
  readonly children: string;
  readonly tone?: Tone;
  readonly title?: string;
}

/** A short word in a frame: a kind, a scope, a role. */
export function Tag({ children, tone = "mute", title }: TagProps) {
  return (
    <span className={cx(css.tag, tones[tone])} title={title ?? children}>
      {children}
    </span>
  );
}
