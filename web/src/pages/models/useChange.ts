import { useMutation, useQueryClient } from "@tanstack/react-query";
import { keys } from "../../api/keys";
import { isConflict, problemText } from "../../api/problems";
import { visible } from "../../format/text";
import { useToast } from "../../ui/Toasts";

interface Change<Given> {
  readonly ask: (given: Given) => void;
  readonly isBusy: boolean;
  readonly problem: string | undefined;
  /** Somebody else was first, or it is not there any more: the page has been loaded anew. */
  readonly isOver: boolean;
}

/** One change of a model: told when it is done, and the page refreshed however it ends. */
export function useChange<Given, Made>(
  act: (given: Given) => Promise<Made>,
  done: (made: Made) => string,
  onDone: () => void,
): Change<Given> {
  const client = useQueryClient();
  const say = useToast();
  const change = useMutation({
    mutationFn: act,
    onSuccess: (made) => {
      say("good", done(made));
      onDone();
    },
    onSettled: () => void client.invalidateQueries({ queryKey: keys.promotions() }),
  });
  const is_over = isConflict(change.error);
  return {
    ask: change.mutate,
    isBusy: change.isPending,
    problem:
      change.error === null
        ? undefined
        : `${is_over ? "Nothing was changed. " : ""}${visible(problemText(change.error))}`,
    isOver: is_over,
  };
}
