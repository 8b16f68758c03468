"""Parameters given on the command line, read as a study file would read them."""

import json
import math
from collections.abc import Mapping, Sequence

from controller.cli.text import plain
from ledger.errors import InvalidInput
from ledger.records import Json, ParamValue

_WORDS = {"true": True, "True": True, "false": False, "False": False}


def parse_params(spec: Mapping[str, Json], pairs: Sequence[str]) -> dict[str, Json]:
    """`NAME=VALUE` words as parameters of the study's space.

    Raises:
        InvalidInput: a word has no `=`, a name is there twice, a number is not finite.
    """
    space = spec.get("space")
    found: dict[str, Json] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise InvalidInput(f"params: {plain(pair)!r}: write NAME=VALUE, like lr=1e-4")
        if name in found:
            raise InvalidInput(f"params.{plain(name)}: it is given twice; keep one of them")
        parameter = space.get(name) if isinstance(space, Mapping) else None
        found[name] = _fitted(parse_value(text, name), parameter)
    return found


def parse_value(text: str, name: str) -> ParamValue:
    """A number, true, false, or text; quotes make anything text. Raises InvalidInput."""
    if text in _WORDS:
        return _WORDS[text]
    if len(text) > 1 and text[0] == text[-1] == '"':
        try:
            return str(json.loads(text))
        except ValueError:
            return text[1:-1]
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1]
    for read in (int, float):
        try:
            value = read(text)
        except ValueError:
            continue
        if not math.isfinite(value):
            raise InvalidInput(f"params.{plain(name)}: {plain(text)}: numbers must be finite")
        return value
    return text


def _fitted(value: ParamValue, parameter: Json) -> ParamValue:
    """A whole number for a real parameter is the real number: 1 and 1.0 are one candidate."""
    is_real = isinstance(parameter, Mapping) and parameter.get("type") == "float"
    if is_real and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value
