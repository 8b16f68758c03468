/** Amounts of a machine in words. */
import { formatBytes, formatNumber, plural } from "./numbers";
import { oneLine } from "./text";

interface Amounts {
  readonly cpus: number;
  readonly memory_bytes: number;
}

/** What trials hold, the GPUs by their ids. */
export function heldText(held: Amounts & { readonly gpu_ids: readonly string[] }): string {
  const ids = held.gpu_ids.map((id) => oneLine(id, 40)).join(", ");
  return amounts(held, ids === "" ? "" : `GPU ${ids}`);
}

/** What one more trial needs. */
export function wantedText(wanted: Amounts & { readonly gpus: number }): string {
  return amounts(wanted, wanted.gpus === 0 ? "" : plural(wanted.gpus, "GPU"));
}

function amounts({ cpus, memory_bytes }: Amounts, gpus: string): string {
  const parts = [
    cpus > 0 ? `${formatNumber(cpus)} ${cpus === 1 ? "CPU" : "CPUs"}` : "",
    memory_bytes > 0 ? formatBytes(memory_bytes) : "",
    gpus,
  ];
  return parts.filter((part) => part !== "").join(", ") || "nothing";
}
