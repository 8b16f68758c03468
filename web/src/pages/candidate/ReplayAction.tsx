/** Asking for a candidate to be put before the promotion gate. */
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { keys } from "../../api/keys";
import { problemText } from "../../api/problems";
import { useBarred } from "../../api/queries/access";
import { replayCandidate } from "../../api/queries/lineage";
import { oneLine } from "../../format/text";
import { Button } from "../../ui/Button";
import { Confirm } from "../../ui/Dialog";
import { useToast } from "../../ui/Toasts";

export function ReplayAction({ candidate }: { readonly candidate: string }) {
  const [is_asked, setAsked] = useState(false);
  const barred = useBarred("submit");
  const client = useQueryClient();
  const say = useToast();
  const replay = useMutation({
    mutationFn: () => replayCandidate(candidate),
    onSuccess: (command) => {
      if (command.answer === "refused") say("bad", oneLine(command.detail));
      else say("good", "It is put before the gate: its replays appear here as they end");
    },
    onError: (error) => say("bad", problemText(error)),
    onSettled: () => {
      setAsked(false);
      void client.invalidateQueries({ queryKey: keys.candidate(candidate) });
    },
  });
  return (
    <>
      <Button icon="repeat" barred={barred} onClick={() => setAsked(true)}>
        Replay
      </Button>
      {is_asked && (
        <Confirm
          title="Put this candidate before the gate?"
          verb="Replay"
          isBusy={replay.isPending}
          onConfirm={() => replay.mutate()}
          onClose={() => setAsked(false)}
        >
          <p>
            It runs again on fresh seeds and is compared with fresh runs of the incumbent. Each
            replay costs a run and a use of the holdout.
          </p>
        </Confirm>
      )}
    </>
  );
}
