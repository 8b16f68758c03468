/** What can be asked of a study in its present state, and what was asked and waits. */
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useBarred } from "../../api/queries/access";
import { keys } from "../../api/keys";
import { problemText } from "../../api/problems";
import { askStudy, type StudyVerb } from "../../api/queries/studies";
import type { Study } from "../../api/types";
import { isStudyOver } from "../../format/states";
import { oneLine } from "../../format/text";
import { Button } from "../../ui/Button";
import { Confirm } from "../../ui/Dialog";
import type { IconName } from "../../ui/Icon";
import { Notice } from "../../ui/States";
import { useToast } from "../../ui/Toasts";
import { RelativeTime } from "../../ui/Values";

interface Action {
  readonly verb: StudyVerb;
  readonly label: string;
  readonly icon: IconName;
  readonly done: string;
  /** What will happen; asked about before it does. */
  readonly warning?: string;
}

const ACTIONS: Readonly<Record<StudyVerb, Action>> = {
  pause: {
    verb: "pause",
    label: "Pause",
    icon: "pause",
    done: "Paused: no new trial starts, running ones go on",
  },
  resume: { verb: "resume", label: "Resume", icon: "play", done: "Resumed" },
  stop: {
    verb: "stop",
    label: "Stop",
    icon: "stop",
    done: "Stopping: running trials finish",
    warning:
      "Running trials finish, no new one starts, and nothing is replayed. The study is then completed; it can be extended later.",
  },
  cancel: {
    verb: "cancel",
    label: "Cancel",
    icon: "ban",
    done: "Cancelled",
    warning:
      "Everything that runs is ended now and what it did so far is lost. A cancelled study cannot be taken up again.",
  },
};

/** Which verbs the state allows. */
function verbsOf(state: string): readonly StudyVerb[] {
  if (isStudyOver(state)) return [];
  if (state === "paused") return ["resume", "cancel"];
  if (state === "running") return ["pause", "stop", "cancel"];
  if (state === "submitted") return ["cancel"];
  return ["pause", "cancel"];
}

export function StudyActions({ study }: { readonly study: Study }) {
  const [asked, setAsked] = useState<Action | null>(null);
  const barred = useBarred("submit");
  const client = useQueryClient();
  const say = useToast();
  const ask = useMutation({
    mutationFn: (action: Action) => askStudy(study.study, action.verb),
    onSuccess: (command, action) => {
      if (command.answer === "refused") say("bad", oneLine(command.detail));
      else
        say(
          "good",
          command.answer === "applied"
            ? action.done
            : `${action.label} was asked for; the worker will do it`,
        );
    },
    onError: (error) => say("bad", problemText(error)),
    onSettled: () => {
      setAsked(null);
      void client.invalidateQueries({ queryKey: keys.study(study.study) });
    },
  });
  return (
    <>
      {verbsOf(study.state).map((verb) => {
        const action = ACTIONS[verb];
        return (
          <Button
            key={verb}
            icon={action.icon}
            look={verb === "cancel" ? "danger" : "plain"}
            barred={barred}
            isBusy={ask.isPending && ask.variables.verb === verb}
            onClick={() => (action.warning === undefined ? ask.mutate(action) : setAsked(action))}
          >
            {action.label}
          </Button>
        );
      })}
      {asked !== null && (
        <Confirm
          title={`${asked.label} ${oneLine(study.name, 60)}?`}
          verb={`${asked.label} the study`}
          isDangerous={asked.verb === "cancel"}
          isBusy={ask.isPending}
          onConfirm={() => ask.mutate(asked)}
          onClose={() => setAsked(null)}
        >
          <p>{asked.warning}</p>
        </Confirm>
      )}
    </>
  );
}

export function PendingCommands({ study }: { readonly study: Study }) {
  if (study.pending_commands.length === 0) return null;
  return (
    <Notice tone="info">
      {study.pending_commands.map((command) => (
        <p key={command.id}>
          {oneLine(command.actor, 80)} asked to {command.verb} <RelativeTime at={command.at} />; the
          worker has not done it yet{study.worker === null && ", and no worker has the study"}.
        </p>
      ))}
    </Notice>
  );
}
