/** Workers in words and rows: those that drive studies, those that wait for one, those that fell silent. */
import type { Lease, Worker } from "../../api/queries/system";
import { formatCount } from "../../format/numbers";
import type { Tone } from "../../format/states";

export const WORKER_TONES: Readonly<Record<Worker["state"], Tone>> = {
  driving: "good",
  idle: "mute",
  gone: "warn",
};

export const liveWorkers = (workers: readonly Worker[]): number =>
  workers.filter((worker) => worker.state !== "gone").length;

/** `2 driving, 1 idle`, without what there is none of. */
export function workersNote(workers: readonly Worker[]): string {
  const counted = (["driving", "idle", "gone"] as const).map(
    (state) => [state, workers.filter((worker) => worker.state === state).length] as const,
  );
  const said = counted.filter(([, count]) => count > 0);
  return said.length === 0
    ? "none is at work"
    : said.map(([state, count]) => `${formatCount(count)} ${state}`).join(", ");
}

export interface WorkerRow {
  readonly worker: Worker;
  /** Null in the one row of a worker that holds no study. */
  readonly lease: Lease | null;
}

/** One row for each study that a worker holds, and one for a worker that holds none. */
export const workerRows = (workers: readonly Worker[]): readonly WorkerRow[] =>
  workers.flatMap((worker): readonly WorkerRow[] =>
    worker.leases.length === 0
      ? [{ worker, lease: null }]
      : worker.leases.map((lease) => ({ worker, lease })),
  );
