/** Approving or declining a family that passed and waits; for those with the scope. */
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { keys } from "../../api/keys";
import { problemText } from "../../api/problems";
import { useBarred } from "../../api/queries/access";
import { decidePromotion, type Decision, type PromotionDetail } from "../../api/queries/promotions";
import { bestOf } from "../../format/evidence";
import { oneLine } from "../../format/text";
import { Button } from "../../ui/Button";
import { Confirm } from "../../ui/Dialog";
import { TextField } from "../../ui/Field";
import { Notice } from "../../ui/States";
import { useToast } from "../../ui/Toasts";

const DONE: Readonly<Record<Decision, string>> = {
  approve: "Approved: it is the incumbent now",
  decline: "Declined: the incumbent stays",
};

export function DecisionActions({ family }: { readonly family: PromotionDetail }) {
  const [asked, setAsked] = useState<Decision | null>(null);
  const [note, setNote] = useState("");
  const barred = useBarred("promote");
  const client = useQueryClient();
  const say = useToast();
  const decide = useMutation({
    mutationFn: (decision: Decision) => decidePromotion(family.family, decision, note),
    onSuccess: (command, decision) => {
      if (command.answer === "refused") say("bad", oneLine(command.detail));
      else if (command.answer === "applied") say("good", DONE[decision]);
      else say("good", "It was asked for; the worker of the study will do it");
    },
    onError: (error) => say("bad", problemText(error)),
    onSettled: () => {
      setAsked(null);
      void client.invalidateQueries({ queryKey: keys.promotions() });
      void client.invalidateQueries({ queryKey: keys.study(family.study) });
    },
  });
  if (family.state !== "awaiting_approval") return null;
  const model = oneLine(family.model, 60);
  const is_approval = asked === "approve";
  return (
    <>
      <Button icon="ban" barred={barred} onClick={() => setAsked("decline")}>
        Decline
      </Button>
      <Button icon="check" look="strong" barred={barred} onClick={() => setAsked("approve")}>
        Approve
      </Button>
      {asked !== null && (
        <Confirm
          title={is_approval ? `Promote to ${model}?` : `Decline the promotion to ${model}?`}
          verb={is_approval ? "Approve and promote" : "Decline"}
          isDangerous={!is_approval}
          isBusy={decide.isPending}
          onConfirm={() => decide.mutate(asked)}
          onClose={() => setAsked(null)}
        >
          <p>
            {is_approval ? (
              <>
                <code>{bestOf(family.evidence) ?? family.candidates[0]}</code> becomes the incumbent
                of {model}: what is proposed next has to beat it. The evidence and your name go into
                the ledger with it.
              </>
            ) : (
              <>
                The incumbent of {model} stays. The family is closed for good; the candidate can be
                put before the gate again, on fresh seeds and with a stricter test.
              </>
            )}
          </p>
          {is_approval && (
            <TextField
              label="Why"
              hint="optional; it is kept with the promotion"
              value={note}
              maxLength={2000}
              onChange={setNote}
            />
          )}
        </Confirm>
      )}
    </>
  );
}

export function ApprovalNotice({ family }: { readonly family: PromotionDetail }) {
  const barred = useBarred("promote");
  if (family.state !== "awaiting_approval") return null;
  return (
    <Notice tone="warn">
      {barred === null
        ? "Every check passed. It waits for you or someone else to approve or decline it."
        : "Every check passed. It waits for someone whose token has the scope promote."}
    </Notice>
  );
}
