/** The positions of a model's pointer, and what can be done with each. */
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { useBarred } from "../../api/queries/access";
import type { Incumbent } from "../../api/queries/promotions";
import { shortId } from "../../format/lineage";
import { oneLine } from "../../format/text";
import { Tag } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { Timeline, type TimelineItem } from "../../ui/Timeline";
import { CandidateLink, RelativeTime } from "../../ui/Values";
import { EvidenceActions } from "./EvidenceActions";
import css from "./Models.module.css";
import { NoteDialog } from "./NoteDialog";
import { RollBackDialog } from "./RollBackDialog";

/** Characters of a note; the whole is its title. */
const SHOWN = 600;

interface IncumbentsProps {
  readonly model: string;
  readonly positions: readonly Incumbent[];
}

interface Asked {
  readonly what: "roll back" | "note";
  readonly of: Incumbent;
}

export function Incumbents({ model, positions }: IncumbentsProps) {
  const [asked, setAsked] = useState<Asked | null>(null);
  const [current] = positions;
  if (current === undefined) return null;
  return (
    <>
      <Timeline label="Incumbents" items={positions.map((one) => item(one, current, setAsked))} />
      {asked?.what === "roll back" && (
        <RollBackDialog
          model={model}
          to={asked.of}
          current={current}
          onClose={() => setAsked(null)}
        />
      )}
      {asked?.what === "note" && (
        <NoteDialog model={model} of={asked.of} onClose={() => setAsked(null)} />
      )}
    </>
  );
}

function item(
  incumbent: Incumbent,
  current: Incumbent,
  onAsk: (asked: Asked) => void,
): TimelineItem {
  const is_current = incumbent.seq === current.seq;
  return {
    id: String(incumbent.seq),
    icon: "flag",
    tone: is_current ? "good" : "mute",
    title: (
      <>
        <CandidateLink id={incumbent.candidate}>{shortId(incumbent.candidate)}</CandidateLink>{" "}
        {is_current && <Tag tone="good">in place</Tag>}
        {incumbent.aliases.map((alias) => (
          <Tag key={alias} tone="info">{`@${oneLine(alias, 64)}`}</Tag>
        ))}
      </>
    ),
    detail: (
      <>
        <How incumbent={incumbent} />
        {incumbent.note !== "" && <p>{oneLine(incumbent.note, 300)}</p>}
        <Notes incumbent={incumbent} />
        <Actions incumbent={incumbent} current={current} onAsk={onAsk} />
      </>
    ),
    aside: <RelativeTime at={incumbent.at} />,
  };
}

function How({ incumbent }: { readonly incumbent: Incumbent }) {
  const { seq, rolled_back_to, signature, family, study } = incumbent;
  const place = `Incumbent ${String(seq)}`;
  const how =
    rolled_back_to === null
      ? `${place}, approved`
      : `${place}, rolled back to ${String(rolled_back_to)}`;
  return (
    <p className={css.how}>
      {`${how} by ${oneLine(incumbent.approver, 80)}, from `}
      <Link to="/studies/$study" params={{ study }}>
        {study}
      </Link>
      {family !== null && (
        <>
          {" · "}
          <Link to="/promotions/$family" params={{ family }}>
            evidence
          </Link>
        </>
      )}
      {signature === null ? " · not signed" : ` · signed with key ${signature.key.slice(0, 12)}…`}
    </p>
  );
}

function Notes({ incumbent }: { readonly incumbent: Incumbent }) {
  if (incumbent.notes.length === 0) return null;
  return (
    <ul className={css.notes} aria-label={`Notes on incumbent ${String(incumbent.seq)}`}>
      {incumbent.notes.map((note, at) => (
        <li key={at}>
          <span title={note.note.length > SHOWN ? oneLine(note.note, 2000) : undefined}>
            {oneLine(note.note, SHOWN)}
          </span>{" "}
          <span className={css.who}>
            {oneLine(note.actor, 80)}, <RelativeTime at={note.at} />
          </span>
        </li>
      ))}
    </ul>
  );
}

interface ActionsProps {
  readonly incumbent: Incumbent;
  readonly current: Incumbent;
  readonly onAsk: (asked: Asked) => void;
}

function Actions({ incumbent, current, onAsk }: ActionsProps) {
  const barred = useBarred("promote");
  const is_in_place =
    incumbent.candidate === current.candidate && incumbent.family === current.family;
  return (
    <EvidenceActions of={incumbent}>
      {!is_in_place && (
        <Button
          look="quiet"
          icon="repeat"
          barred={barred}
          aria-label={`Roll back to incumbent ${String(incumbent.seq)}`}
          onClick={() => onAsk({ what: "roll back", of: incumbent })}
        >
          Roll back
        </Button>
      )}
      <Button
        look="quiet"
        icon="file"
        barred={barred}
        aria-label={`Note on incumbent ${String(incumbent.seq)}`}
        onClick={() => onAsk({ what: "note", of: incumbent })}
      >
        Note
      </Button>
    </EvidenceActions>
  );
}
