/** A log from its end on, followed for as long as it grows and the tab is seen. */
import { useCallback, useEffect, useState } from "react";
import { readLog } from "../../api/queries/logs";
import {
  earlierPlace,
  firstRange,
  RANGE_BYTES,
  withEarlier,
  withNewer,
  type LogState,
} from "./logState";

const WAIT_S = 15;
const AGAIN_MS = 2000;

interface Log {
  readonly log: LogState | undefined;
  readonly error: unknown;
  readonly loadEarlier: () => void;
  readonly retry: () => void;
}

/** One attempt's; the caller gives the component another key for another attempt. */
export function useLog(attempt: string): Log {
  const [log, setLog] = useState<LogState>();
  const [error, setError] = useState<unknown>();
  const [round, setRound] = useState(0);

  useEffect(() => {
    const abort = new AbortController();
    const follow = async () => {
      let shown = firstRange(
        await readLog(
          attempt,
          { offset: -RANGE_BYTES, limit: RANGE_BYTES, wait_s: 0 },
          abort.signal,
        ),
      );
      setLog(shown);
      setError(undefined);
      while (!shown.is_over && !abort.signal.aborted) {
        await untilSeen(abort.signal);
        const place = { offset: shown.end, limit: RANGE_BYTES, wait_s: WAIT_S };
        const range = await readLog(attempt, place, abort.signal);
        shown = withNewer(shown, range);
        setLog((now) => (now === undefined ? now : withNewer(now, range)));
        // A server that is busy answers at once: nothing is asked in a hurry.
        if (range.text === "") await pause(AGAIN_MS, abort.signal);
      }
    };
    follow().catch((found: unknown) => {
      if (!abort.signal.aborted) setError(found);
    });
    return () => abort.abort();
  }, [attempt, round]);

  const loadEarlier = useCallback(() => {
    if (log === undefined || log.begin === 0) return;
    const place = { ...earlierPlace(log), wait_s: 0 };
    readLog(attempt, place, new AbortController().signal).then(
      (range) => setLog((now) => (now === undefined ? now : withEarlier(now, range))),
      (found: unknown) => setError(found),
    );
  }, [attempt, log]);

  return { log, error, loadEarlier, retry: () => setRound((now) => now + 1) };
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}

function untilSeen(signal: AbortSignal): Promise<void> {
  if (!document.hidden) return Promise.resolve();
  return new Promise((resolve) => {
    document.addEventListener("visibilitychange", () => resolve(), { once: true, signal });
    signal.addEventListener("abort", () => resolve());
  });
}
