import { Link } from "@tanstack/react-router";
import { Icon } from "../../ui/Icon";
import css from "./Trial.module.css";

interface NeighboursProps {
  readonly study: string;
  readonly number: number;
  readonly total: unknown;
}

/** The trials before and after, by number. */
export function Neighbours({ study, number, total }: NeighboursProps) {
  const last = typeof total === "number" ? total - 1 : number;
  return (
    <nav className={css.neighbours} aria-label="Neighbouring trials">
      {number > 0 && (
        <Link
          to="/studies/$study/trials/$number"
          params={{ study, number: String(number - 1) }}
          className={css.step}
        >
          <Icon name="chevron_left" size={14} /> {number - 1}
        </Link>
      )}
      {number < last && (
        <Link
          to="/studies/$study/trials/$number"
          params={{ study, number: String(number + 1) }}
          className={css.step}
        >
          {number + 1} <Icon name="chevron_right" size={14} />
        </Link>
      )}
    </nav>
  );
}
