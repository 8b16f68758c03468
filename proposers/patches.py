"""Applies the patches that a model writes: text in, text out, byte-exact outside of what they say.

Two forms are understood, a unified diff and search/replace blocks (see proposers.patch_text). A
patch changes regular text files of the `mutable` list and nothing else: it creates, deletes,
renames and re-modes nothing.
"""

import ast
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from ledger.states import Reason
from proposers.patch_text import Change, read_changes

__all__ = ["PatchRefused", "apply_patch"]

PATCH_BYTES: Final = 256 * 1024
FILE_BYTES: Final = 1024 * 1024
CHANGES: Final = 200

_LINES: Final = re.compile(r"[^\n]*\n|[^\n]+")
_ALLOWED_CONTROLS: Final = frozenset("\t\n\r")
_HIDDEN: Final = (
    (0x00AD, 0x00AD),  # soft hyphen
    (0x061C, 0x061C),  # Arabic letter mark
    (0x180E, 0x180E),  # Mongolian vowel separator
    (0x200B, 0x200F),  # zero-width, and marks of direction
    (0x2028, 0x202E),  # separators of lines, and overrides of direction
    (0x2060, 0x206F),  # invisible operators, isolates
    (0xFE00, 0xFE0F),  # variation selectors
    (0xFEFF, 0xFEFF),  # byte order mark
    (0xFFF9, 0xFFFB),  # interlinear annotation
    (0xE0000, 0xE0FFF),  # tags and more selectors
)
"""Characters that a reader does not see, or that make text read otherwise than it runs."""


class PatchRefused(Exception):
    """A patch that is not applied: why, in one sentence that says what to write instead."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        """malformed_patch or no_change."""


def apply_patch(
    files: Mapping[str, str],
    patch: str,
    *,
    mutable: Collection[str],
    required_calls: Collection[str] = (),
) -> dict[str, str]:
    """The mutable files after the patch, unchanged ones included.

    Args:
        files: text of the mutable files by path; a mutable file that is no text is absent.
        mutable: the only paths that may be named, byte for byte.
        required_calls: names (`report`, `reporting.report`) of calls that are made somewhere in
            the mutable Python files before, and must be so afterwards.

    Raises PatchRefused.
    """
    _check_text(patch)
    try:
        changes = read_changes(patch, sorted(files))
    except ValueError as error:
        raise _malformed(str(error)) from None
    if len(changes) > CHANGES:
        raise _malformed(f"it has {len(changes)} hunks: at most {CHANGES}; change less at once")
    result = dict(files)
    for path in dict.fromkeys(change.path for change in changes):
        if path not in mutable or path not in files:
            known = ", ".join(sorted(files)) or "none"
            raise _malformed(f"{path!r} is no file that may be changed; these are: {known}")
        result[path] = _changed(files[path], [c for c in changes if c.path == path])
    if result == dict(files):
        raise PatchRefused(Reason.NO_CHANGE, "the files are the same afterwards; change something")
    _check_result(files, result, required_calls)
    return result


def _malformed(detail: str) -> PatchRefused:
    return PatchRefused(Reason.MALFORMED_PATCH, detail)


def _check_text(patch: str) -> None:
    size = len(patch.encode("utf-8", "surrogatepass"))
    if size > PATCH_BYTES:
        raise _malformed(f"it has {size} bytes: at most {PATCH_BYTES}; change less at once")
    for number, line in enumerate(patch.split("\n"), 1):
        for character in line:
            if _is_hidden(character):
                raise _malformed(
                    f"line {number} holds U+{ord(character):04X}, which cannot be seen; write an "
                    "escape for it, or leave it out"
                )


def _is_hidden(character: str) -> bool:
    code = ord(character)
    if code < 0x20 or 0x7F <= code < 0xA0:
        return character not in _ALLOWED_CONTROLS
    return 0xD800 <= code < 0xE000 or any(low <= code <= high for low, high in _HIDDEN)


def _changed(text: str, changes: list[Change]) -> str:
    """One file after its changes: each is found in the text as it was before any of them."""
    lines = _LINES.findall(text)  # not splitlines, which ends lines at a dozen other characters
    ending = "\r\n" if lines and all(line.endswith("\r\n") for line in lines[:-1]) else "\n"
    if len(lines) == 1 and not text.endswith("\r\n"):
        ending = "\n"
    places: list[tuple[int, int, list[str]]] = []
    for change in changes:
        start = _find(lines, change)
        after = _lines_after(lines, start, change, ending)
        places.append((start, start + len(change.before), after))
    places.sort(key=lambda place: (place[0], place[1]))
    result: list[str] = []
    at = 0
    for start, end, changed in places:
        if start < at:
            raise _malformed(f"two hunks change line {start + 1}; write one for both")
        result += [*lines[at:start], *changed]
        at = end
    result += lines[at:]
    found = "".join(_terminated(result, text, ending))
    if len(found.encode()) > FILE_BYTES:
        raise _malformed(f"a file would have more than {FILE_BYTES} bytes; write a smaller one")
    return found


def _find(lines: list[str], change: Change) -> int:
    """Where the lines before are: at the place that is given, else at the only other one."""
    before = [line.rstrip() for line in change.before]
    present = [line.rstrip() for line in lines]
    size = len(before)
    if not size:
        return min(max(change.start, 0), len(lines))
    start = change.start
    if 0 <= start <= len(lines) - size and present[start : start + size] == before:
        return start
    found = [i for i in range(len(lines) - size + 1) if present[i : i + size] == before]
    if len(found) == 1:
        return found[0]
    first = next((line for line in change.before if line.strip()), "")
    where = f"the lines from {first.strip()[:80]!r} on"
    if found:
        raise _malformed(
            f"{where} are in {change.path} {len(found)} times; give more lines around the change"
        )
    raise _malformed(f"{where} are not in {change.path}; copy them from the file as it is now")


def _lines_after(lines: list[str], start: int, change: Change, ending: str) -> list[str]:
    """What stands there afterwards: kept lines keep their own bytes, white space included."""
    after: list[str] = []
    for text, old in change.after:
        after.append(text.rstrip("\r") + ending if old is None else lines[start + old])
    return after


def _terminated(result: list[str], before: str, ending: str) -> Iterator[str]:
    """Every line but the last ends; the last one does as it did before."""
    had_end = not before or before.endswith(("\n", "\r"))
    for index, line in enumerate(result):
        is_last = index == len(result) - 1
        bare = line.rstrip("\r\n")
        if is_last:
            yield bare + (ending if had_end else "")
        else:
            yield line if line.endswith(("\n", "\r")) else bare + ending


def _check_result(
    before: Mapping[str, str], after: Mapping[str, str], required_calls: Collection[str]
) -> None:
    """Python that was Python still is, and still makes the calls it has to make."""
    made_before: set[str] = set()
    made: set[str] = set()
    for path, text in after.items():
        if not path.endswith(".py"):
            continue
        calls = _calls(before[path])
        if calls is None:
            continue  # another dialect of Python than ours, from the start
        made_before |= calls
        try:
            made |= set(_call_names(ast.parse(text)))
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            line = getattr(error, "lineno", None)
            raise _malformed(
                f"{path} is no Python any more: {getattr(error, 'msg', error)}"
                + (f" in line {line}" if line else "")
            ) from None
    for name in required_calls:
        if _is_made(name, made_before) and not _is_made(name, made):
            raise _malformed(f"the call {name}(…) is gone; leave it in")


def _calls(text: str) -> set[str] | None:
    try:
        return set(_call_names(ast.parse(text)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _call_names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = _dotted(node.func)
            if name:
                yield name


def _dotted(node: ast.expr) -> str:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        parts.append(node.id)
    return ".".join(reversed(parts))


def _is_made(name: str, calls: set[str]) -> bool:
    return any(call == name or call.endswith(f".{name}") for call in calls)
