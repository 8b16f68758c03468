/** Moments: absolute in the reader's own zone, relative to now. */
import { formatDuration } from "./numbers";

const two = (value: number): string => String(value).padStart(2, "0");

/** 2026-11-30 04:05:12 GMT+9, in the reader's zone, which is named. */
export function formatMoment(iso: string): string {
  const at = new Date(iso);
  if (Number.isNaN(at.getTime())) return iso;
  const day = `${String(at.getFullYear())}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return `${day} ${formatClock(at)} ${zoneOf(at)}`;
}

const ZONE = new Intl.DateTimeFormat("en", { timeZoneName: "short" });

/** As it is at that moment: summer time is another. */
function zoneOf(at: Date): string {
  return ZONE.formatToParts(at).find((part) => part.type === "timeZoneName")?.value ?? "";
}

function formatClock(at: Date): string {
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

/** "just now", "3 min ago", "2 h ago", "5 d ago", "in 3 min"; a date when older than a month. */
export function formatRelative(iso: string, now_ms: number): string {
  const at = new Date(iso).getTime();
  if (Number.isNaN(at)) return iso;
  const seconds = (now_ms - at) / 1000;
  const size = Math.abs(seconds);
  if (size < 5) return "just now";
  if (size > 30 * 86_400) return formatMoment(iso).slice(0, 10);
  const text = largest(size);
  return seconds >= 0 ? `${text} ago` : `in ${text}`;
}

function largest(seconds: number): string {
  if (seconds < 60) return `${String(Math.floor(seconds))} s`;
  if (seconds < 3600) return `${String(Math.floor(seconds / 60))} min`;
  if (seconds < 86_400) return `${String(Math.floor(seconds / 3600))} h`;
  return `${String(Math.floor(seconds / 86_400))} d`;
}

/** Seconds between two moments as a duration; from the first to now while the second is open. */
export function formatSpan(from: string, to: string | null, now_ms: number): string {
  const end = to === null ? now_ms : new Date(to).getTime();
  return formatDuration((end - new Date(from).getTime()) / 1000);
}
