"""Reads what a model wrote as a patch: unified diffs and search/replace blocks.

Tolerated in a unified diff: text around it and a Markdown fence; wrong counts and line numbers in
a hunk's header (the lines themselves say where it goes); a blank context line without its leading
space; `a/` and `b/` before paths, or none. In a block: five or more of `<`, `=` and `>`. Trailing
white space of context never matters. Everything else has to be exact.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from unidiff import Hunk, PatchSet, UnidiffParseError

_HUNK: Final = re.compile(r"^@@+\s*(?:-(\d+)(?:,\d+)?\s+\+(\d+)(?:,\d+)?)?\s*@*.*$")
_FORBIDDEN: Final = (
    ("new file mode", "it creates a file"),
    ("deleted file mode", "it deletes a file"),
    ("old mode", "it changes a mode"),
    ("new mode", "it changes a mode"),
    ("rename from", "it renames a file"),
    ("rename to", "it renames a file"),
    ("copy from", "it copies a file"),
    ("copy to", "it copies a file"),
    ("similarity index", "it renames a file"),
    ("GIT binary patch", "it is binary"),
    ("Binary files", "it is binary"),
    ("Subproject commit", "it changes a submodule"),
)
_SEARCH: Final = re.compile(r"^<{5,}\s*SEARCH\s*$")
_MIDDLE: Final = re.compile(r"^={5,}\s*$")
_REPLACE: Final = re.compile(r"^>{5,}\s*REPLACE\s*$")
_FENCE: Final = re.compile(r"^\s*(```|~~~)")


@dataclass(frozen=True, slots=True)
class Change:
    """Some lines of one file, before and after. Lines are without their ends."""

    path: str
    before: tuple[str, ...]
    after: tuple[tuple[str, int | None], ...]
    """Each line, and which line of `before` it is if it is kept."""
    start: int
    """Where `before` begins, counted from 0, if the patch is right about that; -1: not said."""


@dataclass(slots=True)
class _Hunk:
    start: int
    lines: list[str] = field(default_factory=list)


def read_changes(patch: str, paths: Sequence[str]) -> list[Change]:
    """The changes in the order they are written. `paths` are the files there are: a diff that
    names none is about the only one.

    Raises ValueError: a sentence about what is wrong with it.
    """
    lines = patch.replace("\r\n", "\n").split("\n")
    if any(_SEARCH.match(line) for line in lines):
        changes = list(_read_blocks(lines, paths))
    else:
        changes = list(_read_diff(lines, paths))
    if not changes:
        raise ValueError(
            "there is no patch in it: write a unified diff (--- a/FILE, +++ b/FILE, @@ … @@) or "
            "blocks of <<<<<<< SEARCH, =======, >>>>>>> REPLACE"
        )
    return changes


# --- search/replace blocks -----------------------------------------------------------------------


def _read_blocks(lines: Sequence[str], paths: Sequence[str]) -> Iterator[Change]:
    path = paths[0] if len(paths) == 1 else ""
    index = 0
    while index < len(lines):
        line = lines[index]
        if not _SEARCH.match(line):
            path = _named_path(line, paths) or path
            index += 1
            continue
        middle = _next(lines, index, _MIDDLE, "=======")
        end = _next(lines, middle, _REPLACE, ">>>>>>> REPLACE")
        if not path:
            raise ValueError("a block says of no file: write its path in a line before the block")
        before, after = lines[index + 1 : middle], lines[middle + 1 : end]
        if not any(text.strip() for text in before):
            raise ValueError("a block searches for nothing: copy the lines that it replaces")
        yield Change(path, tuple(before), tuple((text, None) for text in after), -1)
        index = end + 1


def _next(lines: Sequence[str], start: int, marker: re.Pattern[str], shown: str) -> int:
    for index in range(start + 1, len(lines)):
        if marker.match(lines[index]):
            return index
        if _SEARCH.match(lines[index]):
            break
    raise ValueError(f"the block in line {start + 1} has no {shown}; close it")


def _named_path(line: str, paths: Sequence[str]) -> str | None:
    """A path that stands alone in a line, in whatever decoration people give it."""
    bare = line.strip().strip("`*#: ").removeprefix("File ").removeprefix("file: ").strip("`*: ")
    if bare in paths:
        return bare
    if re.fullmatch(r"[\w./\\-]+\.\w+", bare) and " " not in bare:
        return bare
    return None


# --- unified diffs -----------------------------------------------------------------------------


def _read_diff(lines: Sequence[str], paths: Sequence[str]) -> Iterator[Change]:
    for path, hunks in _files(lines, paths):
        text = [f"--- a/{path}", f"+++ b/{path}"]
        for hunk in hunks:
            text += [_header(hunk), *hunk.lines]
        try:
            parsed = PatchSet("\n".join(text) + "\n")
        except UnidiffParseError as error:
            raise ValueError(f"the diff of {path} cannot be read: {error}") from None
        for file in parsed:
            for found in file:
                yield _change(path, found)


def _change(path: str, hunk: Hunk) -> Change:
    before: list[str] = []
    after: list[tuple[str, int | None]] = []
    for line in hunk:
        text = line.value.rstrip("\n")
        if line.is_added:
            after.append((text, None))
        elif line.is_removed:
            before.append(text)
        elif line.is_context:
            after.append((text, len(before)))
            before.append(text)
    # A hunk of length 0 comes after the line it names; any other begins at it.
    start = hunk.source_start - 1 if before else hunk.source_start
    return Change(path, tuple(before), tuple(after), start)


def _header(hunk: _Hunk) -> str:
    """With counts that are those of its lines."""
    removed = sum(1 for line in hunk.lines if line[:1] in (" ", "-"))
    added = sum(1 for line in hunk.lines if line[:1] in (" ", "+"))
    return f"@@ -{hunk.start},{removed} +{hunk.start},{added} @@"


def _files(lines: Sequence[str], paths: Sequence[str]) -> Iterator[tuple[str, list[_Hunk]]]:
    """Each file's hunks. Prose and fences around them are passed over."""
    path = paths[0] if len(paths) == 1 else ""
    hunks: list[_Hunk] = []
    index = 0
    while index < len(lines):
        line = lines[index]
        _check_header(line)
        if _is_file_header(lines, index):
            if hunks:
                yield path, hunks
            path, hunks = _paths_of(line, lines[index + 1]), []
            index += 2
        elif _HUNK.match(line):
            if not path:
                raise ValueError(
                    f"the hunk in line {index + 1} says of no file: write --- and +++ first"
                )
            hunk, index = _read_hunk(lines, index)
            hunks.append(hunk)
        else:
            index += 1
    if hunks:
        yield path, hunks


def _is_file_header(lines: Sequence[str], index: int) -> bool:
    following = lines[index + 1] if index + 1 < len(lines) else ""
    return lines[index].startswith("--- ") and following.startswith("+++ ")


def _check_header(line: str) -> None:
    for start, what in _FORBIDDEN:
        if line.startswith(start):
            raise ValueError(f"{what} ({start}): a patch changes the lines of files that exist")


def _paths_of(source: str, target: str) -> str:
    old, new = _path_of(source[4:]), _path_of(target[4:])
    if "/dev/null" in (old, new):
        raise ValueError("it creates or deletes a file: a patch changes files that exist")
    if old != new:
        raise ValueError(f"it renames {old} to {new}: a patch keeps the names")
    return new


def _path_of(text: str) -> str:
    name = text.split("\t")[0].rstrip()
    if name.startswith('"'):
        raise ValueError(f"the path {name} is quoted: write it plainly")
    if name.startswith(("a/", "b/")):
        name = name[2:]
    return name


def _read_hunk(lines: Sequence[str], index: int) -> tuple[_Hunk, int]:
    """The hunk whose header is at `index`, and the index behind it."""
    match = _HUNK.match(lines[index])
    hunk = _Hunk(int(match[1]) if match and match[1] else 0)
    index += 1
    while index < len(lines):
        line = lines[index]
        if _HUNK.match(line) or _is_file_header(lines, index) or line.startswith("diff --git"):
            break
        if line[:1] in ("+", "-", " "):
            hunk.lines.append(line)
        elif line == "" and _goes_on(lines, index):
            hunk.lines.append(" ")
        elif not line.startswith("\\"):
            break
        index += 1
    if not any(line[:1] in ("+", "-") for line in hunk.lines):
        raise ValueError("a hunk changes nothing: write lines with + and -")
    return hunk, index


def _goes_on(lines: Sequence[str], index: int) -> bool:
    """Whether a blank line is one of the hunk: a line of it follows."""
    for line in lines[index + 1 :]:
        if line:
            return line[:1] in ("+", "-", " ")
    return False
