/** What the trial's programs wrote: the end of it, followed as it grows. */
import { useQuery } from "@tanstack/react-query";
import { useLayoutEffect, useMemo, useRef, useState } from "react";
import { logsQuery, type LogListed } from "../../api/queries/logs";
import type { Trial } from "../../api/types";
import { formatBytes, words } from "../../format/numbers";
import { visible } from "../../format/text";
import { Button } from "../../ui/Button";
import { Card } from "../../ui/Card";
import { SelectField } from "../../ui/Field";
import { Empty, Failure, Loading, Skeleton } from "../../ui/States";
import { CopyButton } from "../../ui/Values";
import css from "./Trial.module.css";
import { useLog } from "./useLog";

/** So near to the end the view goes with it. */
const NEAR_PX = 40;

export function LogsCard({ trial }: { readonly trial: Trial }) {
  const found = useQuery(logsQuery(trial.id));
  const [chosen, setChosen] = useState<string>();
  // Attempts come while one looks: the newest is shown until another is chosen.
  const attempts = trial.attempts.map((attempt) => attempt.id);
  const listed = found.data?.items ?? [];
  const current = chosen ?? bestLog(listed) ?? attempts[0];
  return (
    <Card
      title="Logs"
      isFlush
      actions={
        trial.attempts.length > 1 && (
          <SelectField
            label="Attempt"
            isLabelHidden
            value={current ?? ""}
            onChange={setChosen}
            options={trial.attempts.map((attempt) => ({
              value: attempt.id,
              label: [
                attempt.kind,
                attempt.split === null ? "" : words(attempt.split),
                `#${String(attempt.index)}`,
              ]
                .filter(Boolean)
                .join(" "),
            }))}
          />
        )
      }
    >
      {current === undefined ? (
        <Empty icon="file" title="No program was started" />
      ) : (
        <LogView key={current} attempt={current} />
      )}
    </Card>
  );
}

/** The training's log if it is here: what one looks for first. */
function bestLog(items: readonly LogListed[]): string | undefined {
  const here = items.filter((item) => item.is_here);
  return (here.findLast((item) => item.kind === "train") ?? here.at(-1))?.attempt;
}

function LogView({ attempt }: { readonly attempt: string }) {
  const { log, error, loadEarlier, retry } = useLog(attempt);
  const frame = useRef<HTMLPreElement>(null);
  const is_at_end = useRef(true);
  const text = useMemo(() => visible(log?.text ?? ""), [log?.text]);
  useLayoutEffect(() => {
    const element = frame.current;
    if (element !== null && is_at_end.current) element.scrollTop = element.scrollHeight;
  }, [text]);
  if (log === undefined) {
    if (error !== undefined) return <Failure what="The log" error={error} onRetry={retry} />;
    return (
      <Loading what="the log">
        <Skeleton height="26rem" />
      </Loading>
    );
  }
  if (log.size_bytes === 0 && log.is_over) {
    return <Empty icon="file" title="The log is empty, or no longer kept" />;
  }
  return (
    <>
      <pre
        ref={frame}
        className={css.log}
        data-over={log.is_over ? true : undefined}
        // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- it scrolls by keys
        tabIndex={0}
        role="region"
        aria-label={`Log of ${attempt}`}
        onScroll={({ currentTarget: at }) => {
          is_at_end.current = at.scrollHeight - at.scrollTop - at.clientHeight < NEAR_PX;
        }}
      >
        {text === "" ? <span className={css.small}>Nothing was written yet.</span> : text}
      </pre>
      <div className={css.log_foot}>
        <span>
          {formatBytes(log.size_bytes)}
          {log.is_over ? "" : error === undefined ? " · following" : " · cut off"}
        </span>
        <span className={css.log_tools}>
          {error !== undefined && (
            <Button look="quiet" icon="refresh" onClick={retry}>
              Follow again
            </Button>
          )}
          {log.begin > 0 && (
            <Button
              look="quiet"
              icon="arrow_up"
              onClick={() => {
                is_at_end.current = false;
                loadEarlier();
              }}
            >
              Earlier ({formatBytes(log.begin)})
            </Button>
          )}
          <CopyButton text={log.text} what="log" />
        </span>
      </div>
    </>
  );
}
