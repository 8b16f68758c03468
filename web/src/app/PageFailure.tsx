import type { ErrorComponentProps } from "@tanstack/react-router";
import { serverAnswers } from "../api/client";
import { Unreachable } from "../api/problems";
import { Card } from "../ui/Card";
import { Failure } from "../ui/States";

/** The page's own code could not be had: the server is gone, or another version is there. */
const isCodeMissing = (error: unknown): boolean =>
  error instanceof Error && /preload|dynamically imported|module script/i.test(error.message);

async function reloadIfThere(): Promise<void> {
  if (await serverAnswers()) window.location.reload();
}

/** A page that broke: the rest of the dashboard goes on. */
export function PageFailure({ error, reset }: ErrorComponentProps) {
  const is_missing = isCodeMissing(error);
  return (
    <Card>
      <Failure
        what="This page"
        error={is_missing ? new Unreachable() : error}
        onRetry={is_missing ? () => void reloadIfThere() : reset}
        isPage
      />
    </Card>
  );
}
