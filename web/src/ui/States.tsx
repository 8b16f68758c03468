/** What a view shows when there is nothing, nothing yet, or something went wrong. */
import type { ReactNode } from "react";
import { problemText } from "../api/problems";
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
}

/** Says what could not be had and why, in the server's own words, and offers to try again. */
export function Failure({ error, what, onRetry, isPage = false }: FailureProps) {
  const Title = isPage ? "h1" : "p";
  return (
    <div className={css.state} role="alert">
      <span className={css.bad}>
        <Icon name="alert" size={22} />
      </span>
      <Title className={css.title}>{what} could not be shown</Title>
      <p className={css.text}>{problemText(error)}</p>
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
