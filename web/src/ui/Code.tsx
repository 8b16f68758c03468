/** Code, JSON and patches, always as text. */
import { Fragment, useMemo } from "react";
import { parsePatch, type DiffRow, type FileDiff, type Side } from "../format/patch";
import { visible } from "../format/text";
import css from "./Code.module.css";
import { cx } from "./cx";
import { PHONE, useMedia } from "./useMedia";
import { CopyButton } from "./Values";

interface CodeViewProps {
  readonly text: string;
  /** What it is, for the copy button and for screen readers. */
  readonly what: string;
  readonly isTall?: boolean;
  /** Sentences: lines break where there is no room. */
  readonly isProse?: boolean;
}

export function CodeView({ text, what, isTall = false, isProse = false }: CodeViewProps) {
  return (
    <div className={css.frame}>
      <div className={css.copy}>
        <CopyButton text={text} what={what} />
      </div>
      <pre
        className={cx(css.code, isTall && css.tall, isProse && css.prose)}
        // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- it scrolls by keys
        tabIndex={0}
        role="region"
        aria-label={what}
      >
        {visible(text)}
      </pre>
    </div>
  );
}

export function JsonView({ value, what }: { readonly value: unknown; readonly what: string }) {
  const text = useMemo(() => JSON.stringify(value, null, 2), [value]);
  return <CodeView text={text} what={what} />;
}

/** A unified diff: side by side, or one below the other on a phone. */
export function DiffView({ patch }: { readonly patch: string }) {
  const files = useMemo(() => parsePatch(patch), [patch]);
  const is_narrow = useMedia(PHONE);
  if (files.length === 0) return <CodeView text={patch} what="patch" />;
  return (
    <div className={css.files}>
      {files.map((file, index) => (
        <FileView key={index} file={file} isNarrow={is_narrow} />
      ))}
    </div>
  );
}

function FileView({ file, isNarrow }: { readonly file: FileDiff; readonly isNarrow: boolean }) {
  const path = visible(file.path);
  return (
    <section className={css.file} aria-label={path}>
      <header className={css.file_head}>
        <code>{path}</code>
        <span className={css.added}>+{file.added}</span>
        <span className={css.removed}>−{file.removed}</span>
      </header>
      {/* eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- it scrolls by keyboard */}
      <div className={css.scroll} tabIndex={0} role="region" aria-label={`Changes of ${path}`}>
        <table className={cx(css.diff, isNarrow && css.narrow)}>
          <colgroup>
            {/* Fixed, and the first row spans all: widths are said here or they are equal. */}
            {Array.from({ length: isNarrow ? 1 : 2 }, (_, index) => (
              <Fragment key={index}>
                <col className={css.number_column} />
                <col />
              </Fragment>
            ))}
          </colgroup>
          <tbody>
            {file.hunks.map((hunk, index) => (
              <Fragment key={index}>
                <tr className={css.hunk}>
                  <td colSpan={isNarrow ? 2 : 4}>
                    {hunk.header === "" ? "⋯" : visible(hunk.header)}
                  </td>
                </tr>
                {hunk.rows.map((row, at) =>
                  isNarrow ? <StackedRow key={at} row={row} /> : <SplitRow key={at} row={row} />,
                )}
              </Fragment>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function SplitRow({ row }: { readonly row: DiffRow }) {
  const is_same = row.kind === "same";
  return (
    <tr>
      <SideCells side={row.before} look={is_same ? "same" : "del"} />
      <SideCells side={row.after} look={is_same ? "same" : "add"} />
    </tr>
  );
}

function StackedRow({ row }: { readonly row: DiffRow }) {
  if (row.kind === "same") {
    return (
      <tr>
        <SideCells side={row.after} look="same" />
      </tr>
    );
  }
  return (
    <>
      {row.before !== null && (
        <tr>
          <SideCells side={row.before} look="del" />
        </tr>
      )}
      {row.after !== null && (
        <tr>
          <SideCells side={row.after} look="add" />
        </tr>
      )}
    </>
  );
}

const SIGNS = { same: " ", del: "−", add: "+" } as const;

function SideCells({
  side,
  look,
}: {
  readonly side: Side | null;
  readonly look: keyof typeof SIGNS;
}) {
  if (side === null) {
    return (
      <>
        <td className={cx(css.number, css.void)} />
        <td className={css.void} />
      </>
    );
  }
  return (
    <>
      <td className={cx(css.number, css[look])} data-number={side.number} />
      <td className={cx(css.text, css[look])}>
        <span className={css.sign}>{SIGNS[look]}</span>
        {side.pieces.map((piece, index) =>
          piece.isChanged ? <mark key={index}>{visible(piece.text)}</mark> : visible(piece.text),
        )}
      </td>
    </>
  );
}
