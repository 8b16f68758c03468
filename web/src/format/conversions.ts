/** The words and units of conversions: methods, and what was measured of a converted model. */
import type { ConvertWanted } from "../api/types";
import { oneLine } from "./text";
import { formatBytes, formatDuration, formatNumber, words } from "./numbers";
import { own } from "./own";

const WORDS: Readonly<Record<string, string>> = {
  merge: "adapter merged",
  keep: "adapter kept beside the base",
  int8: "8 bits",
  int4: "4 bits",
  gptq: "GPTQ, 4 bits",
  awq: "AWQ, 4 bits",
};

/** An unknown method is shown as it is. */
export const methodText = (method: string): string => WORDS[method] ?? oneLine(method, 40);

export type Method = "merge" | "keep" | "int8" | "int4" | "gptq" | "awq";

/** As choices of a form. */
export const METHODS: readonly { readonly value: Method; readonly label: string }[] = [
  { value: "merge", label: "Merge the adapter into its base" },
  { value: "keep", label: "Keep the adapter beside its base" },
  { value: "int8", label: "8 bits, weights only (torchao)" },
  { value: "int4", label: "4 bits, weights only (torchao)" },
  { value: "gptq", label: "GPTQ, 4 bits with calibration" },
  { value: "awq", label: "AWQ, 4 bits with calibration" },
];

/** What a form for one holds, as it was typed. */
export interface Entered {
  readonly method: Method;
  readonly margin: string;
  readonly seeds: string;
  readonly group_size: string;
  readonly calibration_rows: string;
}

const CALIBRATED: readonly Method[] = ["gptq", "awq"];

/** The request: only what the method takes, and nothing for a field left empty. A word that is no
 * number is sent as it stands, for the server to say what to write instead. */
export function wantedOf(entered: Entered): ConvertWanted {
  const { method } = entered;
  const given: Record<string, unknown> =
    method === "merge" || method === "keep" ? { merge: method === "merge" } : { quantize: method };
  const is_grouped = method === "int4" || CALIBRATED.includes(method);
  const texts: Record<string, string> = {
    margin: entered.margin,
    seeds: entered.seeds,
    ...(is_grouped ? { group_size: entered.group_size } : {}),
    ...(CALIBRATED.includes(method) ? { calibration_rows: entered.calibration_rows } : {}),
  };
  for (const [name, text] of Object.entries(texts)) {
    if (text.trim() === "") continue;
    const number = Number(text);
    given[name] = Number.isFinite(number) ? number : text;
  }
  return given;
}

const FIGURES: Readonly<Record<string, string>> = {
  first_token_s: "First token",
  token_s: "Each further token",
  tokens_per_s: "Tokens a second, batched",
  load_s: "Loading",
  size_bytes: "Size on disk",
  peak_memory_bytes: "Peak memory",
  own_memory_bytes: "Peak memory of the model",
};

export const figureTitle = (name: string): string => own(FIGURES, name) ?? oneLine(words(name), 60);

/** In the unit that the end of a figure's name says; nothing where there is no number. */
export function figureText(name: string, value: number | null): string {
  if (value === null) return "–";
  if (name.endsWith("_bytes")) return formatBytes(value);
  if (name.endsWith("_per_s")) return formatNumber(value);
  return name.endsWith("_s") ? formatDuration(value) : formatNumber(value);
}
