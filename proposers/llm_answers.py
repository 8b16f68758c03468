"""Reads what a model answered: sets of parameters as JSON, or words and then a patch."""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from ledger.records import Params, ParamValue
from proposers.search_space import Float, SearchSpace, faults

RATIONALE_CHARS: Final = 2000
_THOUGHTS: Final = re.compile(r"\A\s*<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)
_FENCE: Final = re.compile(r"^\s*(```|~~~)")
_STARTS: Final = re.compile(r"^(<{5,}\s*SEARCH\s*$|diff --git |--- |@@+ )")
_REPLACE: Final = re.compile(r"^>{5,}\s*REPLACE\s*$")
_LEAD_LINES: Final = 3
_OPENINGS: Final = 50
"""Braces at which a JSON object is looked for."""


class Unreadable(Exception):
    """An answer that is not what was asked for: why, for the model."""


def without_thoughts(text: str) -> str:
    """Some models think aloud before they answer."""
    return _THOUGHTS.sub("", text, count=1)


def read_proposals(text: str) -> list[tuple[Mapping[str, object], str]]:
    """Parameters and rationale of each proposal, unchecked. Raises Unreadable."""
    document = _find_object(without_thoughts(text))
    listed = document.get("proposals")
    if not isinstance(listed, list):
        raise Unreadable('the key "proposals" with a list is missing')
    found: list[tuple[Mapping[str, object], str]] = []
    for place, item in enumerate(listed, 1):
        params = item.get("params") if isinstance(item, dict) else None
        if not isinstance(params, dict):
            raise Unreadable(f'proposal {place} has no object "params"')
        rationale = item.get("rationale")
        found.append((params, rationale if isinstance(rationale, str) else ""))
    return found


def _find_object(text: str) -> Mapping[str, object]:
    """The first JSON object with proposals: models put words and fences around it."""
    decoder = json.JSONDecoder(object_pairs_hook=_no_duplicates, parse_constant=_no_constant)
    first: Mapping[str, object] | None = None
    at = text.find("{")
    for _ in range(_OPENINGS):
        if at < 0:
            break
        end = at + 1
        try:
            found, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):  # also a number of thousands of digits
            found = None
        if isinstance(found, dict) and "proposals" in found:
            return found
        first = first or found
        at = text.find("{", end)
    if first is None:
        raise Unreadable("there is no JSON object in it, or it is broken")
    return first


def _no_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise Unreadable(f"the key {twice!r} is there twice in one object")
    return found


def _no_constant(name: str) -> object:
    raise Unreadable(f"{name} is no JSON number: write a finite one")


def read_params(space: SearchSpace, given: Mapping[str, object]) -> Params:
    """The point that was given. An integer is taken for a float range, text never for a number.

    Raises Unreadable: every fault of it.
    """
    wrong = [f"{n} is {_kind(v)}" for n, v in given.items() if not _is_value(v)]
    if wrong:
        raise Unreadable("; ".join(wrong) + ": write a number, text, true or false")
    params = {name: _typed(space, name, value) for name, value in _values(given)}
    found = list(faults(space, params))
    if found:
        raise Unreadable("; ".join([*found, *_in_quotes(space, params)]))
    return dict(sorted(params.items()))


def _values(given: Mapping[str, object]) -> Iterator[tuple[str, ParamValue]]:
    for name, value in given.items():
        if isinstance(value, bool | int | float | str):
            yield name, value


def _is_value(value: object) -> bool:
    return isinstance(value, bool | int | float | str)


def _typed(space: SearchSpace, name: str, value: ParamValue) -> ParamValue:
    if type(value) is int and isinstance(space.get(name), Float):
        try:
            return float(value)
        except OverflowError:
            return value
    return value


def _in_quotes(space: SearchSpace, params: Params) -> Iterator[str]:
    for name, value in params.items():
        distribution = space.get(name)
        is_text = isinstance(value, str) and distribution is not None
        if is_text and distribution is not None and not _takes_text(distribution):
            yield f"{name} is text: write the number without quotes"


def _takes_text(distribution: object) -> bool:
    return any(isinstance(choice, str) for choice in getattr(distribution, "choices", ()))


def _kind(value: object) -> str:
    return {dict: "an object", list: "a list", type(None): "null"}.get(type(value), "no value")


def split_patch(text: str, paths: Collection[str]) -> tuple[str, str]:
    """The words before a patch, and the patch: what is written around it is no part of it.

    The patch is the whole answer where no beginning of one is found.
    """
    lines = without_thoughts(text).replace("\r\n", "\n").split("\n")
    start = next((i for i, line in enumerate(lines) if _STARTS.match(line)), None)
    if start is None:
        return "", "\n".join(lines)
    before = lines[:start]
    lead = [line for line in before[-_LEAD_LINES:] if any(path in line for path in paths)]
    words = [w for w in before if w not in lead and not _FENCE.match(w)]
    end = _end(lines, start)
    return "\n".join(words).strip()[:RATIONALE_CHARS], "\n".join([*lead[-1:], *lines[start:end]])


def _end(lines: list[str], start: int) -> int:
    """Behind the last line that may belong to it."""
    last_block = max((i for i, line in enumerate(lines) if _REPLACE.match(line)), default=None)
    if last_block is not None:
        return last_block + 1
    kept = (i for i in range(len(lines) - 1, start, -1) if lines[i][:1] in ("+", "-", " ", "@"))
    return next(kept, start) + 1
