/** Picking trials for comparison: a box in a row, a button over a table or on a trial's page. */
import { useNavigate } from "@tanstack/react-router";
import { Button } from "../../ui/Button";
import { textOfIds } from "./search";
import { clearPicks, togglePick, usePicks } from "./selection";

interface PickProps {
  readonly trial: string;
  readonly number: number;
}

export function PickBox({ trial, number }: PickProps) {
  const is_picked = usePicks().includes(trial);
  return (
    <input
      type="checkbox"
      checked={is_picked}
      aria-label={`Compare trial ${String(number)}`}
      onClick={(event) => event.stopPropagation()}
      onChange={() => togglePick(trial)}
    />
  );
}

/** Shown once something is picked. */
export function CompareButton() {
  const picks = usePicks();
  const navigate = useNavigate();
  if (picks.length === 0) return null;
  return (
    <>
      <Button
        icon="compare"
        onClick={() => void navigate({ to: "/compare", search: { trials: textOfIds(picks) } })}
      >
        Compare {picks.length}
      </Button>
      <Button
        look="quiet"
        icon="cross"
        aria-label="Pick none"
        title="Pick none"
        onClick={clearPicks}
      />
    </>
  );
}

/** On a trial's page: with those picked before. */
export function CompareTrial({ trial }: { readonly trial: string }) {
  const picks = usePicks();
  const navigate = useNavigate();
  const all = picks.includes(trial) ? picks : [...picks, trial];
  return (
    <Button
      icon="compare"
      onClick={() => {
        if (!picks.includes(trial)) togglePick(trial);
        void navigate({ to: "/compare", search: { trials: textOfIds(all) } });
      }}
    >
      {all.length === 1 ? "Compare" : `Compare ${String(all.length)}`}
    </Button>
  );
}
