"""The search space as a language model is told of it, in words and as a JSON Schema."""

import json
from typing import Final

from ledger.records import Params, ParamValue
from proposers.chat import Schema
from proposers.search_space import (
    Categorical,
    Conditions,
    Distribution,
    Float,
    Int,
    SearchSpace,
    in_order,
)

LISTED: Final = 64
"""Values of a stepped range that a schema lists, since it has no word for such a range."""


def space_text(space: SearchSpace) -> str:
    """One line for each parameter."""
    return "\n".join(f"- {_json(name)}: {_allows(space[name])}" for name in in_order(space))


def _allows(distribution: Distribution) -> str:
    return f"{_values(distribution)}{_condition(distribution.when)}"


def _values(distribution: Distribution) -> str:
    if isinstance(distribution, Categorical):
        return "one of " + ", ".join(_json(choice) for choice in distribution.choices)
    if isinstance(distribution, Int):
        step = "" if distribution.step == 1 else f", only {distribution.low} plus multiples of "
        step += "" if distribution.step == 1 else str(distribution.step)
        kind = "an integer"
    else:
        step = "" if distribution.step is None else f", only {distribution.low} plus multiples of "
        step += "" if distribution.step is None else str(distribution.step)
        kind = "a number"
    scale = "; its order of magnitude is what matters" if distribution.log else ""
    return f"{kind} from {distribution.low} to {distribution.high}{step}{scale}"


def _condition(when: Conditions) -> str:
    if not when:
        return ""
    said = " and ".join(
        f"{_json(parent)} is {' or '.join(_json(value) for value in values)}"
        for parent, values in when
    )
    return f". Only if {said}; otherwise leave it out"


def space_schema(space: SearchSpace, count: int) -> Schema:
    """Of an answer with `count` points. Conditions are left to words: servers take few of them."""
    names = in_order(space)
    params = {
        "type": "object",
        "properties": {name: _schema(space[name]) for name in names},
        "required": [name for name in names if not space[name].when],
        "additionalProperties": False,
    }
    item = {
        "type": "object",
        "properties": {"rationale": {"type": "string"}, "params": params},
        "required": ["rationale", "params"],
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "properties": {
            "proposals": {"type": "array", "items": item, "minItems": count, "maxItems": count}
        },
        "required": ["proposals"],
        "additionalProperties": False,
    }


def _schema(distribution: Distribution) -> Schema:
    if isinstance(distribution, Categorical):
        return {"enum": list(distribution.choices)}
    if distribution.step not in (None, 1) and (distribution.size or 0) <= LISTED:
        return {"enum": [distribution.at(index) for index in range(distribution.size or 0)]}
    kind = "number" if isinstance(distribution, Float) else "integer"
    return {"type": kind, "minimum": distribution.low, "maximum": distribution.high}


def params_text(params: Params) -> str:
    return json.dumps(dict(sorted(params.items())), ensure_ascii=False)


def _json(value: ParamValue) -> str:
    return json.dumps(value, ensure_ascii=False)
