/** Where the candidate comes from and what became of it; every box leads on. */
import { useQuery } from "@tanstack/react-query";
import { Link, type LinkProps } from "@tanstack/react-router";
import { useMemo } from "react";
import { lineageQuery } from "../../api/queries/lineage";
import { BOX, lineageGraph, type Box, type BoxTarget } from "../../format/lineage";
import { plural } from "../../format/numbers";
import { stateLook } from "../../format/states";
import { visible } from "../../format/text";
import { Card } from "../../ui/Card";
import { Icon } from "../../ui/Icon";
import { Failure, Loading, Skeleton } from "../../ui/States";
import { cx } from "../../ui/cx";
import css from "./Lineage.module.css";
import tones from "../../ui/tones.module.css";

export function LineageCard({ candidate }: { readonly candidate: string }) {
  const found = useQuery(lineageQuery(candidate));
  const graph = useMemo(
    () => (found.data === undefined ? null : lineageGraph(candidate, found.data.nodes)),
    [candidate, found.data],
  );
  const note =
    graph === null || graph.hidden === 0
      ? "from its study to what became of it"
      : `and ${plural(graph.hidden, "more execution")}, in the table below`;
  return (
    <Card title="Lineage" note={note} isFlush>
      {graph !== null ? (
        <div
          ref={showSelf}
          className={css.scroll}
          // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- it scrolls by keyboard
          tabIndex={0}
          role="region"
          aria-label="Lineage, scrolls sideways"
        >
          <div className={css.canvas} style={{ width: graph.width, height: graph.height }}>
            <svg
              className={css.edges}
              width={graph.width}
              height={graph.height}
              aria-hidden="true"
              focusable="false"
            >
              {graph.edges.map((edge) => (
                <path key={`${edge.from} ${edge.to}`} d={edge.path} />
              ))}
            </svg>
            <ul>
              {graph.boxes.map((box) => (
                <BoxItem key={box.id} box={box} />
              ))}
            </ul>
          </div>
        </div>
      ) : found.isError ? (
        <Failure what="The lineage" error={found.error} onRetry={() => void found.refetch()} />
      ) : (
        <Loading what="the lineage">
          <Skeleton height="12rem" />
        </Loading>
      )}
    </Card>
  );
}

/** On a narrow screen the candidate itself is in sight, and what became of it. */
function showSelf(frame: HTMLDivElement | null): void {
  const self = frame?.querySelector("[aria-current]")?.parentElement;
  if (frame !== null && self instanceof HTMLElement && frame.scrollWidth > frame.clientWidth) {
    frame.scrollLeft = self.offsetLeft;
  }
}

function BoxItem({ box }: { readonly box: Box }) {
  const link = box.isSelf ? null : linkOf(box.target);
  const inside = <Inside box={box} />;
  return (
    <li
      className={cx(css.box, box.isSelf && css.self)}
      style={{ left: box.x, top: box.y, ...BOX }}
      title={`${visible(box.label)}: ${visible(box.detail)}`}
    >
      {link === null ? (
        <div className={css.card} {...(box.isSelf ? { "aria-current": "page" as const } : {})}>
          {inside}
        </div>
      ) : (
        <Link {...link} className={css.card}>
          {inside}
        </Link>
      )}
    </li>
  );
}

function Inside({ box }: { readonly box: Box }) {
  const look = box.state === null ? null : stateLook(box.state);
  return (
    <>
      <span className={css.words}>
        <span className={css.label}>{visible(box.label)}</span>
        <span className={css.detail}>{visible(box.detail)}</span>
      </span>
      {look !== null && (
        <span className={cx(css.state, tones[look.tone])} title={look.word}>
          <Icon name={look.icon} size={12} />
          <span className="visually-hidden">{look.word}</span>
        </span>
      )}
    </>
  );
}

function linkOf(target: BoxTarget): LinkProps | null {
  switch (target.to) {
    case "study":
      return { to: "/studies/$study", params: { study: target.study } };
    case "candidate":
      return { to: "/candidates/$candidate", params: { candidate: target.candidate } };
    case "trial":
      return {
        to: "/studies/$study/trials/$number",
        params: { study: target.study, number: target.number },
      };
    case "family":
      return { to: "/promotions/$family", params: { family: target.family } };
    case "model":
      return { to: "/models/$model", params: { model: target.model } };
    case "nowhere":
      return null;
  }
}
