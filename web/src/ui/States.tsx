/** What a view shows when there is nothing, nothing yet, or something went wrong. */
import { useEffect, type ReactNode } from "react";
import { isMissing, problemText } from "../api/problems";
import { visible } from "../format/text";
import { Button } from "./Button";
import { Icon, type IconName } from "./Icon";
import css from "./States.module.css";

interface EmptyProps {
  readonly icon?: IconName;
  readonly title: string;
  readonly children?: ReactNode;
  /** It is the whole page, and its title the page's heading. */
  readonly isPage?: boolean;
}

export function Empty({ icon = "flask", title, children, isPage = false }: EmptyProps) {
  const Title = isPage ? "h1" : "p";
  return (
    <div className={css.state}>
      <span className={css.mark}>
        <Icon name={icon} size={22} />
      </span>
      <Title className={css.title}>{title}</Title>
      {children !== undefined && <div className={css.text}>{children}</div>}
    </div>
  );
}

interface FailureProps {
  readonly error: unknown;
  readonly what: string;
  readonly onRetry?: () => void;
  /** It is the whole page, and what it says the page's heading. */
  readonly isPage?: boolean;
  /** Where to go instead. */
  readonly children?: ReactNode;
}

/** Says what could not be had and why, in the server's own words, and offers to try again. */
export function Failure({ error, what, onRetry, isPage = false, children }: FailureProps) {
  const Title = isPage ? "h1" : "p";
  const is_missing = isMissing(error);
  const said = `${what} ${is_missing ? "was not found" : "could not be shown"}`;
  useEffect(() => {
    if (isPage) document.title = `${said} · ARL`;
  }, [isPage, said]);
  return (
    <div className={css.state} role="alert">
      <span className={is_missing ? css.mark : css.bad}>
        <Icon name={is_missing ? "question" : "alert"} size={22} />
      </span>
      <Title className={css.title}>{said}</Title>
      <p className={css.text}>{visible(problemText(error))}</p>
      {children}
      {onRetry !== undefined && (
        <Button icon="refresh" onClick={onRetry}>
          Try again
        </Button>
      )}
    </div>
  );
}

interface SkeletonProps {
  /** As many lines as the content will have, so that nothing moves when it comes. */
  readonly lines?: number;
  /** CSS length; for a block such as a chart. */
  readonly height?: string;
}

export function Skeleton({ lines = 1, height }: SkeletonProps) {
  if (height !== undefined) {
    return <div className={css.block} style={{ height }} aria-hidden="true" />;
  }
  return (
    <div className={css.lines} aria-hidden="true">
      {Array.from({ length: lines }, (_, index) => (
        <span
          key={index}
          className={css.line}
          style={{ width: `${String(92 - ((index * 37) % 45))}%` }}
        />
      ))}
    </div>
  );
}

/** Read out while a view loads; what is seen is its skeleton. */
export function Loading({
  what,
  children,
}: {
  readonly what: string;
  readonly children: ReactNode;
}) {
  return (
    <div role="status" aria-busy="true">
      <span className="visually-hidden">Loading {what}</span>
      {children}
    </div>
  );
}

interface NoticeProps {
  readonly tone?: "info" | "warn" | "bad";
  readonly children: ReactNode;
  readonly actions?: ReactNode;
}

/** One thing to know about the view, at its top. */
export function Notice({ tone = "info", children, actions }: NoticeProps) {
  return (
    <div className={`${css.notice ?? ""} ${css[`notice_${tone}`] ?? ""}`} role="note">
      <Icon name={tone === "info" ? "info" : "alert"} />
      <div className={css.notice_text}>{children}</div>
      {actions}
    </div>
  );
}
