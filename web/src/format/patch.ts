/** A unified diff as rows of two sides. */

export interface Piece {
  readonly text: string;
  readonly isChanged: boolean;
}

export interface Side {
  readonly number: number;
  readonly pieces: readonly Piece[];
}

export interface DiffRow {
  readonly kind: "same" | "changed" | "added" | "removed";
  readonly before: Side | null;
  readonly after: Side | null;
}

export interface Hunk {
  readonly header: string;
  readonly rows: readonly DiffRow[];
}

export interface FileDiff {
  readonly path: string;
  readonly hunks: readonly Hunk[];
  readonly added: number;
  readonly removed: number;
}

const HUNK = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@(.*)$/;

interface OpenFile {
  path: string;
  hunks: Hunk[];
  added: number;
  removed: number;
}

/** Lines before the first `@@` of a file other than its name are left out. */
export function parsePatch(patch: string): readonly FileDiff[] {
  const files: OpenFile[] = [];
  const lines = patch.split("\n");
  for (let at = 0; at < lines.length; at += 1) {
    const line = lines[at] ?? "";
    const next = lines[at + 1] ?? "";
    if (line.startsWith("--- ") && next.startsWith("+++ ")) {
      files.push({ path: pathOf(line, next), hunks: [], added: 0, removed: 0 });
      at += 1;
      continue;
    }
    const opened = HUNK.exec(line);
    if (opened === null) continue;
    let file = files.at(-1);
    if (file === undefined) {
      file = { path: "", hunks: [], added: 0, removed: 0 };
      files.push(file);
    }
    at = readHunk(lines, at, opened, file);
  }
  return files;
}

function pathOf(before: string, after: string): string {
  const name = (line: string): string =>
    (line.slice(4).split("\t")[0] ?? "").replace(/^[ab]\//, "");
  const renamed = name(after);
  return renamed === "/dev/null" ? name(before) : renamed;
}

/** Reads from the `@@` line on; gives the index of the last line that belongs to the hunk. */
function readHunk(
  lines: readonly string[],
  start: number,
  opened: RegExpExecArray,
  file: OpenFile,
): number {
  let before = Number(opened[1]);
  let after = Number(opened[2]);
  const rows: DiffRow[] = [];
  let removed: string[] = [];
  let added: string[] = [];
  const flush = () => {
    rows.push(...paired(removed, added, before, after));
    before += removed.length;
    after += added.length;
    file.removed += removed.length;
    file.added += added.length;
    removed = [];
    added = [];
  };
  let at = start;
  for (let next = start + 1; next < lines.length; next += 1) {
    const line = lines[next] ?? "";
    const isFileHead = line.startsWith("--- ") && (lines[next + 1] ?? "").startsWith("+++ ");
    if (isFileHead || !/^[ +\-\\]/.test(line)) {
      if (line !== "" || next === lines.length - 1) break;
    }
    at = next;
    const text = line.slice(1);
    if (line.startsWith("-")) {
      if (added.length > 0) flush();
      removed.push(text);
    } else if (line.startsWith("+")) added.push(text);
    else if (!line.startsWith("\\")) {
      flush();
      const pieces = [{ text, isChanged: false }];
      rows.push({
        kind: "same",
        before: { number: before, pieces },
        after: { number: after, pieces },
      });
      before += 1;
      after += 1;
    }
  }
  flush();
  file.hunks.push({ header: (opened[3] ?? "").trim(), rows });
  return at;
}

function paired(
  removed: readonly string[],
  added: readonly string[],
  before: number,
  after: number,
): DiffRow[] {
  const rows: DiffRow[] = [];
  for (let index = 0; index < Math.max(removed.length, added.length); index += 1) {
    const left = removed[index];
    const right = added[index];
    if (left !== undefined && right !== undefined) {
      const [old_pieces, new_pieces] = changedPieces(left, right);
      rows.push({
        kind: "changed",
        before: { number: before + index, pieces: old_pieces },
        after: { number: after + index, pieces: new_pieces },
      });
    } else if (left !== undefined) {
      rows.push({ kind: "removed", before: whole(before + index, left), after: null });
    } else if (right !== undefined) {
      rows.push({ kind: "added", before: null, after: whole(after + index, right) });
    }
  }
  return rows;
}

const whole = (number: number, text: string): Side => ({
  number,
  pieces: [{ text, isChanged: false }],
});

/** What two lines begin and end with in common is unchanged; the middle is marked. */
export function changedPieces(before: string, after: string): [readonly Piece[], readonly Piece[]] {
  const most = Math.min(before.length, after.length);
  let head = 0;
  while (head < most && before[head] === after[head]) head += 1;
  let tail = 0;
  while (tail < most - head && before.at(-1 - tail) === after.at(-1 - tail)) tail += 1;
  const isNothingShared = head + tail < 0.25 * most;
  const cut = (line: string): readonly Piece[] =>
    isNothingShared
      ? [{ text: line, isChanged: false }]
      : [
          { text: line.slice(0, head), isChanged: false },
          { text: line.slice(head, line.length - tail), isChanged: true },
          { text: line.slice(line.length - tail), isChanged: false },
        ].filter((piece) => piece.text !== "");
  return [cut(before), cut(after)];
}
