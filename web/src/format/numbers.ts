/** Numbers and quantities as people read them; the same everywhere. */
import { own } from "./own";

const MINUS = "\u2212";

const withMinus = (text: string): string => text.replace(/^-/, MINUS).replace("e-", `e${MINUS}`);

/** At most `digits` significant digits, without trailing zeros: 0.8125, 12 300, 3.1e−6. */
export function formatNumber(value: number, digits = 4): string {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : `${MINUS}∞`;
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e7 || size < 1e-4) {
    const [mantissa = "", exponent = ""] = value.toExponential(digits - 1).split("e");
    return withMinus(`${trimZeros(mantissa)}e${exponent.replace("+", "")}`);
  }
  if (Number.isInteger(value)) return withMinus(grouped(String(value)));
  const decimals = Math.max(0, digits - 1 - Math.floor(Math.log10(size)));
  return withMinus(grouped(trimZeros(value.toFixed(decimals))));
}

function trimZeros(text: string): string {
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

/** A thin space between groups of three from five digits on. */
function grouped(text: string): string {
  const [whole = "", rest] = text.split(".");
  const digits = whole.replace("-", "");
  if (digits.length < 5) return text;
  const cut = whole.replace(/\B(?=(\d{3})+$)/g, "\u202f");
  return rest === undefined ? cut : `${cut}.${rest}`;
}

export function formatCount(value: number): string {
  return grouped(String(Math.round(value)));
}

export function formatShare(share: number): string {
  const percent = share * 100;
  if (percent > 0 && percent < 0.1) return "< 0.1 %";
  return `${formatNumber(percent, percent < 10 ? 2 : 3)} %`;
}

const BYTE_UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"] as const;

export function formatBytes(bytes: number): string {
  let size = bytes;
  let unit = 0;
  while (size >= 1024 && unit < BYTE_UNITS.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? String(size) : formatNumber(size, 3)} ${BYTE_UNITS[unit] ?? "B"}`;
}

/** 480 ms, 3.2 s, 4 min 05 s, 2 h 10 min, 3 d 4 h. */
export function formatDuration(seconds: number): string {
  if (!Number.isFinite(seconds)) return formatNumber(seconds);
  const size = Math.max(0, seconds);
  if (size === 0) return "0 s";
  if (size < 0.9995) return `${String(Math.max(1, Math.round(size * 1000)))} ms`;
  if (size < 9.95) return `${trimZeros(size.toFixed(1))} s`;
  const whole = Math.round(size);
  if (whole < 60) return `${String(whole)} s`;
  if (whole < 3600) return `${String(Math.floor(whole / 60))} min ${padded(whole % 60)} s`;
  if (whole < 86_400) {
    return `${String(Math.floor(whole / 3600))} h ${padded(Math.floor((whole % 3600) / 60))} min`;
  }
  return `${String(Math.floor(whole / 86_400))} d ${String(Math.floor((whole % 86_400) / 3600))} h`;
}

const padded = (value: number): string => String(value).padStart(2, "0");

/** What a budget counts, in its own unit. */
export function formatAmount(resource: string, value: number): string {
  switch (resource) {
    case "wall_s":
      return formatDuration(value);
    case "gpu_s":
      return `${formatNumber(value / 3600, 3)} GPU h`;
    case "llm_cost_usd":
      return `$${formatNumber(value, 3)}`;
    case "trials":
      return formatCount(value);
    default:
      return formatNumber(value);
  }
}

const RESOURCES: Readonly<Record<string, string>> = {
  trials: "Trials",
  wall_s: "Wall time",
  gpu_s: "GPU time",
  llm_tokens: "Model tokens",
  llm_cost_usd: "Model cost",
};

export const resourceName = (resource: string): string =>
  own(RESOURCES, resource) ?? words(resource);

/** `stage1_futility` is read as "stage1 futility". */
export const words = (code: string): string => code.replaceAll("_", " ");

/** As a sentence begins. */
export const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${formatCount(count)} ${count === 1 ? one : many}`;
}
