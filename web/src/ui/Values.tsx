/** Single values in a line of text: numbers, moments, digests, things to copy. */
import { putOnClipboard } from "./clipboard";
import { useState, type ReactNode } from "react";
import { Link } from "@tanstack/react-router";
import { formatBytes, formatDuration, formatNumber } from "../format/numbers";
import { formatMoment, formatRelative } from "../format/times";
import { useNow } from "./useNow";
import { Icon } from "./Icon";
import css from "./Values.module.css";

interface NumberValueProps {
  readonly value: number | null | undefined;
  /** `bytes` and `seconds` are written as people do; any other is put behind the number. */
  readonly unit?: string;
  readonly digits?: number;
}

/** A number with its unit; the full one on hover; NaN and infinities marked; a dash for none. */
export function NumberValue({ value, unit, digits = 4 }: NumberValueProps) {
  if (value === null || value === undefined) return <None />;
  if (!Number.isFinite(value)) return <NonFinite value={value} />;
  if (unit === "bytes")
    return <Figures title={`${String(value)} bytes`}>{formatBytes(value)}</Figures>;
  if (unit === "seconds")
    return <Figures title={`${String(value)} s`}>{formatDuration(value)}</Figures>;
  return (
    <Figures title={String(value)}>
      {formatNumber(value, digits)}
      {unit !== undefined && <span className={css.unit}> {unit}</span>}
    </Figures>
  );
}

/** Digits of one width, so that nothing moves when a number changes. */
function Figures({ title, children }: { readonly title: string; readonly children: ReactNode }) {
  return (
    <span className="figures" title={title}>
      {children}
    </span>
  );
}

/** Not a number, or one without end: said, never hidden. */
function NonFinite({ value }: { readonly value: number }) {
  return (
    <span
      data-non-finite
      className={css.non_finite}
      title="The program reported a value that is no finite number"
    >
      <Icon name="alert" size={12} />
      {formatNumber(value)}
    </span>
  );
}

export function None() {
  return (
    <span className={css.none} aria-label="none">
      –
    </span>
  );
}

/** "3 min ago", kept up to date; the moment itself on hover. */
export function RelativeTime({ at }: { readonly at: string | null | undefined }) {
  const now_ms = useNow();
  if (at === null || at === undefined) return <None />;
  return (
    <time dateTime={at} title={formatMoment(at)} className={css.time}>
      {formatRelative(at, now_ms)}
    </time>
  );
}

export function Moment({ at }: { readonly at: string | null | undefined }) {
  if (at === null || at === undefined) return <None />;
  return (
    <time dateTime={at} className={css.time}>
      {formatMoment(at)}
    </time>
  );
}

export function CopyButton({ text, what }: { readonly text: string; readonly what: string }) {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    try {
      await putOnClipboard(text);
      setCopied(true);
      setTimeout(() => setCopied(false), 1500);
    } catch {
      setCopied(false); // the browser refused
    }
  };
  return (
    <button
      type="button"
      className={css.copy}
      onClick={() => void copy()}
      title={`Copy ${what}`}
      aria-label={copied ? `Copied ${what}` : `Copy ${what}`}
    >
      <Icon name={copied ? "check" : "copy"} size={13} />
    </button>
  );
}

/** An id or a digest: the first characters, the whole of it on hover and to copy. */
export function Digest({
  value,
  what = "digest",
}: {
  readonly value: string | null | undefined;
  readonly what?: string;
}) {
  if (value === null || value === undefined || value === "") return <None />;
  return (
    <span className={css.digest}>
      <code title={value}>{value.length > 18 ? `${value.slice(0, 12)}…` : value}</code>
      <CopyButton text={value} what={what} />
    </span>
  );
}

/** Text of unknown length and origin: one line, the rest on hover. */
export function Clipped({ children }: { readonly children: string }) {
  return (
    <span className={css.clipped} title={children}>
      {children}
    </span>
  );
}

export function CandidateLink({
  id,
  children,
}: {
  readonly id: string;
  readonly children?: ReactNode;
}) {
  return (
    <Link to="/candidates/$candidate" params={{ candidate: id }} className={css.code}>
      {children ?? id}
    </Link>
  );
}
