"""Parameters given on the command line, read as a study file would read them."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence

from controller.cli.text import clipped, plain
from controller.spec.documents import read_word
from ledger.errors import InvalidInput
from ledger.records import Json, ParamValue


def parse_params(spec: Mapping[str, Json], pairs: Sequence[str]) -> dict[str, Json]:
    """`NAME=VALUE` words as parameters of the study's space.

    Raises:
        InvalidInput: a word has no `=`, a name is there twice, a number is not finite.
    """
    space = spec.get("space")
    found: dict[str, Json] = {}
    for name, text in _split("params", pairs, "lr=1e-4"):
        parameter = space.get(name) if isinstance(space, Mapping) else None
        found[name] = _fitted(parse_value(text, f"params.{plain(name)}"), parameter)
    return found


def parse_fields(section: str, pairs: Sequence[str]) -> dict[str, Json]:
    """`FIELD=VALUE` words as fields of a section of the study file; `none` is null. Raises
    InvalidInput."""
    found: dict[str, Json] = {}
    for name, text in _split(section, pairs, "goal=0.95"):
        is_none = text in ("none", "null")
        found[name] = None if is_none else parse_value(text, f"{section}.{plain(name)}")
    return found


def _split(section: str, pairs: Sequence[str], example: str) -> Iterator[tuple[str, str]]:
    """Name and text of each, every name once."""
    seen: set[str] = set()
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise InvalidInput(f"{section}: {plain(pair)!r}: write NAME=VALUE, like {example}")
        if name in seen:
            raise InvalidInput(f"{section}.{plain(name)}: it is given twice; keep one of them")
        seen.add(name)
        yield name, text


def parse_value(text: str, place: str) -> ParamValue:
    """A number, true, false, or text; quotes make anything text. Raises InvalidInput."""
    if len(text) > 1 and text[0] == text[-1] == '"':
        try:
            return str(json.loads(text))
        except ValueError:
            return text[1:-1]
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1]
    try:
        value = read_word(text.strip())
    except ValueError as error:
        raise InvalidInput(f"{place}: {clipped(text, 60)}: {error}") from None
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidInput(f"{place}: {plain(text)}: numbers must be finite")
    return text if isinstance(value, str) else value


def _fitted(value: ParamValue, parameter: Json) -> ParamValue:
    """A whole number for a real parameter is the real number: 1 and 1.0 are one candidate."""
    is_real = isinstance(parameter, Mapping) and parameter.get("type") == "float"
    if is_real and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value
