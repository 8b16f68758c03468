/** The words and units of conversions: methods, and what was measured of a converted model. */
import { oneLine } from "./text";
import { formatBytes, formatDuration, formatNumber, words } from "./numbers";

const METHODS: Readonly<Record<string, string>> = {
  merge: "adapter merged",
  keep: "adapter kept beside the base",
  int8: "8 bits",
  int4: "4 bits",
  gptq: "GPTQ, 4 bits",
  awq: "AWQ, 4 bits",
};

/** An unknown method is shown as it is. */
export const methodText = (method: string): string => METHODS[method] ?? oneLine(method, 40);

const FIGURES: Readonly<Record<string, string>> = {
  first_token_s: "First token",
  token_s: "Each further token",
  tokens_per_s: "Tokens a second, batched",
  load_s: "Loading",
  size_bytes: "Size on disk",
  peak_memory_bytes: "Peak memory",
  own_memory_bytes: "Peak memory of the model",
};

export const figureTitle = (name: string): string => FIGURES[name] ?? oneLine(words(name), 60);

/** In the unit that the end of a figure's name says; nothing where there is no number. */
export function figureText(name: string, value: number | null): string {
  if (value === null) return "–";
  if (name.endsWith("_bytes")) return formatBytes(value);
  if (name.endsWith("_per_s")) return formatNumber(value);
  return name.endsWith("_s") ? formatDuration(value) : formatNumber(value);
}
