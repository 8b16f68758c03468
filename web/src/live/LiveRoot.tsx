/** The one event stream of the page: of the study that is shown, or of all of them. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { keys } from "../api/keys";
import { studyQuery } from "../api/queries/studies";
import type { Entry } from "../api/types";
import { EntryApplier } from "./apply";
import { setRetry, setStreamState } from "./status";
import { EventStream } from "./stream";

/** A tab that nobody sees gives its connection back after this. */
const HIDDEN_MS = 60_000;
const ALL_MS = 1000;

export function LiveRoot() {
  const { study } = useParams({ strict: false });
  return study === undefined ? <LiveAll /> : <LiveStudy key={study} study={study} />;
}

function LiveStudy({ study }: { readonly study: string }) {
  // The stream begins where the first answer ended, so nothing falls between the two.
  const { data, isError } = useQuery(studyQuery(study));
  const id = data?.study;
  const [lost, setLost] = useState(0);
  // There is no such study, or no server: how live the page is can still be said.
  if (data === undefined && isError) return <LiveAll />;
  if (data === undefined || id !== study) return null;
  return (
    <StudyStream key={lost} study={id} from={data.head.seq} onLost={() => setLost(lost + 1)} />
  );
}

interface StudyStreamProps {
  readonly study: string;
  readonly from: number;
  readonly onLost: () => void;
}

function StudyStream({ study, from, onLost }: StudyStreamProps) {
  const client = useQueryClient();
  useEffect(() => {
    const applier = new EntryApplier(client, study);
    const stop = keepStream({
      url: `/api/v1/studies/${encodeURIComponent(study)}/events`,
      after: String(from),
      // A stream leaves the list of non-finite numbers out where there is none.
      onData: (data) => applier.add(Object.assign({ non_finite: [] }, data as Entry)),
      onLost: () => void client.resetQueries().then(onLost),
    });
    return () => {
      stop();
      applier.close();
    };
    // eslint-disable-next-line react-hooks/exhaustive-deps -- where it begins and whom it tells, once
  }, [client, study]);
  return null;
}

function LiveAll() {
  const client = useQueryClient();
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const refresh = () => {
      timer ??= setTimeout(() => {
        timer = undefined;
        void client.invalidateQueries({ queryKey: keys.studies() });
        void client.invalidateQueries({ queryKey: keys.promotions() });
        void client.invalidateQueries({ queryKey: keys.candidates() });
        void client.invalidateQueries({ queryKey: ["entries"] });
      }, ALL_MS);
    };
    const stop = keepStream({
      url: "/api/v1/events",
      after: null,
      onData: refresh,
      onAgain: refresh,
    });
    return () => {
      stop();
      clearTimeout(timer);
    };
  }, [client]);
  return null;
}

interface KeptStream {
  readonly url: string;
  readonly after: string | null;
  readonly onData: (data: unknown) => void;
  readonly onLost?: () => void;
  /** Connected again after a cut. */
  readonly onAgain?: () => void;
}

/** Open while the tab is seen; resumes where it was. Gives what closes it for good. */
function keepStream({ url, after, onData, onLost, onAgain }: KeptStream): () => void {
  let last = after;
  let was_live = false;
  let stream: EventStream | undefined;
  let hiding: ReturnType<typeof setTimeout> | undefined;

  const open = () => {
    stream = new EventStream({
      url,
      after: last,
      ...(onLost === undefined ? {} : { onLost }),
      onState: (state) => {
        if (state === "live" && was_live) onAgain?.();
        was_live ||= state === "live";
        setStreamState(state);
      },
      onEvent: (event) => {
        last = event.id ?? last;
        onData(JSON.parse(event.data));
      },
    });
    setRetry(() => stream?.retryNow());
  };
  const onVisibility = () => {
    clearTimeout(hiding);
    if (document.hidden) {
      hiding = setTimeout(() => {
        stream?.close();
        stream = undefined;
      }, HIDDEN_MS);
    } else if (stream === undefined) open();
  };
  open();
  document.addEventListener("visibilitychange", onVisibility);
  return () => {
    document.removeEventListener("visibilitychange", onVisibility);
    clearTimeout(hiding);
    stream?.close();
  };
}
