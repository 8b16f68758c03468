import { Button } from "../ui/Button";
import { cx } from "../ui/cx";
import { Icon } from "../ui/Icon";
import css from "./LiveBadge.module.css";
import { retryStream, useStreamState } from "./status";

const WORDS = {
  connecting: "connecting",
  live: "live",
  reconnecting: "reconnecting",
  stopped: "server stopped",
  refused: "not live",
} as const;

/** Whether what is shown follows the ledger. */
export function LiveBadge() {
  const state = useStreamState();
  return (
    <span className={cx(css.badge, css[state])} role="status">
      <span className={css.dot} />
      {WORDS[state]}
    </span>
  );
}

/** Over every page while the server is gone. What was read stays to be read. */
export function ServerBanner() {
  const state = useStreamState();
  if (state !== "stopped") return null;
  return (
    <div className={css.banner} role="alert">
      <Icon name="unplugged" />
      <span className={css.text}>
        The server does not answer. What you see is what it said last; runs go on without it.
      </span>
      <Button icon="refresh" onClick={retryStream}>
        Try now
      </Button>
    </div>
  );
}
