/** Trials side by side, of one study or several: `/compare?trials=a,b,c`. */
import { useQueries } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useState } from "react";
import { trialByIdQuery } from "../../api/queries/compare";
import { problemText } from "../../api/problems";
import { oneLine } from "../../format/text";
import { Button } from "../../ui/Button";
import { Card } from "../../ui/Card";
import { TextField } from "../../ui/Field";
import { Stack } from "../../ui/Layout";
import { PageHeader } from "../../ui/PageHeader";
import { Empty, Loading, Notice, Skeleton } from "../../ui/States";
import css from "./Compare.module.css";
import { CurvesCompared } from "./CurvesCompared";
import { ParamsCompared, ScoresCompared } from "./TablesCompared";
import { idsOf, MOST, textOfIds } from "./search";
import { usePicks } from "./selection";

const route = getRouteApi("/compare");

export function ComparePage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const picks = usePicks();
  const ids = idsOf(search.trials ?? textOfIds(picks));
  const found = useQueries({ queries: ids.map((id) => trialByIdQuery(id)) });
  const show = (next: readonly string[]) =>
    void navigate({ search: { trials: textOfIds(next) }, replace: true });
  const remove = (id: string) => show(ids.filter((other) => other !== id));
  const trials = found.flatMap((one) => one.data ?? []);
  const is_waiting = found.some((one) => one.isPending);
  return (
    <>
      <PageHeader title="Compare" note="What differs between trials, and what came of it." />
      <Stack>
        <AddTrial ids={ids} onAdd={(id) => show([...ids, id])} />
        {found.map((one, at) =>
          one.error === null ? null : (
            <Notice
              key={ids[at]}
              tone="bad"
              actions={
                <Button look="quiet" onClick={() => remove(ids[at] ?? "")}>
                  Leave it out
                </Button>
              }
            >
              {oneLine(ids[at] ?? "", 80)}: {problemText(one.error)}
            </Notice>
          ),
        )}
        {ids.length === 0 ? (
          <Card>
            <Empty icon="compare" title="No trials chosen">
              Tick trials in a study&rsquo;s list of trials, or press Compare on a trial&rsquo;s
              page. The address of this page keeps the choice, to send or to come back to.
            </Empty>
          </Card>
        ) : is_waiting ? (
          <Loading what="the trials">
            <Skeleton height="20rem" />
          </Loading>
        ) : (
          trials.length > 0 && (
            <>
              <ScoresCompared trials={trials} onRemove={remove} />
              <ParamsCompared trials={trials} />
              <CurvesCompared trials={trials} />
            </>
          )
        )}
      </Stack>
    </>
  );
}

interface AddTrialProps {
  readonly ids: readonly string[];
  readonly onAdd: (id: string) => void;
}

function AddTrial({ ids, onAdd }: AddTrialProps) {
  const [text, setText] = useState("");
  if (ids.length >= MOST) return null;
  return (
    <form
      className={css.add}
      onSubmit={(event) => {
        event.preventDefault();
        const id = text.trim();
        if (id === "") return;
        setText("");
        onAdd(id);
      }}
    >
      <TextField
        label="Add a trial by its id"
        value={text}
        maxLength={200}
        placeholder="STUDY-12"
        onChange={setText}
      />
      <Button type="submit">Add</Button>
    </form>
  );
}
