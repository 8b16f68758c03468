/** Checking a promotion against what is stored, and taking its evidence along. */
import { useMutation } from "@tanstack/react-query";
import { problemText } from "../../api/problems";
import type { Incumbent } from "../../api/queries/promotions";
import { checkIncumbent, evidenceAddress } from "../../api/queries/registry";
import { visible } from "../../format/text";
import { Button } from "../../ui/Button";
import { Icon } from "../../ui/Icon";
import { Notice } from "../../ui/States";
import { CheckResult } from "./CheckResult";
import css from "./Models.module.css";
import type { ReactNode } from "react";

interface EvidenceActionsProps {
  readonly of: Incumbent;
  /** Further buttons of the same row. */
  readonly children?: ReactNode;
}

export function EvidenceActions({ of, children }: EvidenceActionsProps) {
  const check = useMutation({ mutationFn: () => checkIncumbent(of.model, of.seq) });
  return (
    <>
      <div className={css.actions}>
        {children}
        <Button
          look="quiet"
          icon="check"
          isBusy={check.isPending}
          aria-label={`Check incumbent ${String(of.seq)}`}
          onClick={() => check.mutate()}
        >
          Check
        </Button>
        {of.signature !== null && (
          <>
            <a
              className={css.save}
              href={evidenceAddress(of.model, of.seq, true)}
              aria-label={`Evidence with model of incumbent ${String(of.seq)}`}
              download
            >
              <Icon name="download" />
              Evidence with model
            </a>
            <a
              className={css.save}
              href={evidenceAddress(of.model, of.seq, false)}
              aria-label={`Evidence of incumbent ${String(of.seq)}`}
              download
            >
              <Icon name="download" />
              Evidence
            </a>
          </>
        )}
      </div>
      {check.data !== undefined && <CheckResult found={check.data} />}
      {check.isError && (
        <div role="alert">
          <Notice tone="bad">{visible(problemText(check.error))}</Notice>
        </div>
      )}
    </>
  );
}
