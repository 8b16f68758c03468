"""Pydantic's errors as problems in the words of the study file."""

import difflib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from controller.spec import study as s
from controller.spec.errors import Problem, path, shown
from controller.spec.plan_section import PlanSpec

Location: TypeAlias = tuple[str | int, ...]

_PARAMETERS: Final[Mapping[str | int, type[BaseModel]]] = {
    "float": s.FloatSpec,
    "int": s.IntSpec,
    "categorical": s.CategoricalSpec,
}

Sections: TypeAlias = Mapping[Location, type[BaseModel]]

STUDY_SECTIONS: Final[Sections] = {
    (): s.StudySpec,
    ("objective",): s.ObjectiveSpec,
    ("objectives", "*"): s.ObjectiveSpec,
    ("constraints", "*"): s.ConstraintSpec,
    ("program",): s.ProgramSpec,
    ("program", "plan"): PlanSpec,
    ("evaluator",): s.EvaluatorSpec,
    ("evaluator", "metrics", "*"): s.MetricSpec,
    ("proposer",): s.ProposerSpec,
    ("target",): s.TargetSpec,
    ("resources",): s.ResourcesSpec,
    ("noise",): s.NoiseSpec,
    ("pruning",): s.PruningSpec,
    ("budget",): s.BudgetSpec,
    ("stop",): s.StopSpec,
    ("retries",): s.RetriesSpec,
    ("promotion",): s.PromotionSpec,
    ("promotion", "guard", "*"): s.GuardSpec,
    ("notify", "*"): s.NotifySpec,
    ("retention",): s.RetentionSpec,
    ("convert", "*"): s.ConvertSpec,
}

_OWN_NAMES: Final = (
    ["space"],
    ["evaluator", "metrics"],
    ["promotion", "guard"],
    ["objectives"],
    ["convert"],
    ["constraints"],
    ["notify"],
    ["slices"],
)
"""Sections whose keys (or places) are the user's own."""


def problems_of(
    error: ValidationError, at: Location = (), sections: Sections = STUDY_SECTIONS
) -> Iterator[Problem]:
    """Every problem pydantic found, in its order; `at` is where in the file it looked, whose
    sections are a study file's unless others are named."""
    for details in error.errors(include_url=False):
        yield from _translate({**details, "loc": (*at, *details["loc"])}, sections)


def sections_of(error: ValidationError) -> set[str]:
    """The top-level keys that have a problem."""
    return {
        str(details["loc"][0]) for details in error.errors(include_url=False) if details["loc"]
    }


def suggestion(word: str, known: list[str]) -> str | None:
    """The known word that was probably meant."""
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return close[0] if close else None


def known_keys(location: Location, sections: Sections = STUDY_SECTIONS) -> list[str]:
    """The keys of a section, as pydantic locates it, in the file's words."""
    model = _PARAMETERS.get(location[-1]) if location[:1] == ("space",) else None
    if model is None:
        model = sections[_pattern(location)]
    return _keys(model)


def _keys(model: type[BaseModel]) -> list[str]:
    return [
        field.validation_alias if isinstance(field.validation_alias, str) else name
        for name, field in model.model_fields.items()
    ]


def _translate(details: ErrorDetails, sections: Sections) -> Iterator[Problem]:
    location = _without_tag(details["loc"])
    context = details.get("ctx", {})
    if details["type"] == "arl_problems":
        for problem in context["problems"]:
            yield Problem(
                f"{path(*location)}.{problem.field}", problem.rule, problem.remedy, problem.value
            )
        return
    if details["type"] == "extra_forbidden":
        yield _unknown_key(location, details["input"], sections, details["loc"][:-1])
        return
    if details["type"] in ("literal_error", "enum", "union_tag_invalid"):
        is_key = details["loc"][-1] == "[key]"
        yield _unknown_value(location, details["input"], context, "key" if is_key else "value")
        return
    rule, remedy = _RULES.get(details["type"], _other)(details["msg"], context)
    value = "" if details["type"] in _ABSENT else shown(details["input"])
    missing_tag = details["type"] == "union_tag_not_found" and isinstance(details["input"], dict)
    if missing_tag:
        location, value = (*location, "type"), ""
    yield Problem(path(*location), rule, remedy, value)


def _without_tag(location: Location) -> Location:
    """Without the tag pydantic puts behind the name of a parameter, or behind a mapping's key."""
    kept = [part for part in location if part != "[key]"]
    if len(kept) > 2 and kept[0] == "space" and kept[2] in _PARAMETERS:
        del kept[2]
    return tuple(kept)


def _pattern(location: Location) -> Location:
    """The location with the user's own names replaced by `*`."""
    parts = list(location)
    for prefix in _OWN_NAMES:
        if parts[: len(prefix)] == prefix and len(parts) > len(prefix):
            parts[len(prefix)] = "*"
    return tuple(parts)


def _unknown_key(location: Location, value: object, sections: Sections, at: Location) -> Problem:
    key, section = str(location[-1]), location[:-1]
    known = known_keys(at, sections)
    near, elsewhere = suggestion(key, known), _homes(key, section, sections)
    if elsewhere:
        remedy = f"write {' or '.join(elsewhere)} instead"
    elif near is not None:
        remedy = f"write {near} instead"
    else:
        remedy = f"write one of {', '.join(known)}"
    return Problem(path(*location), "no such key", remedy, shown(value))


def _homes(key: str, section: Location, sections: Sections) -> list[str]:
    """Where in the file a key belongs that is not known in `section`."""
    return [
        path(*where, key)
        for where, model in sections.items()
        if where != section and "*" not in where and key in _keys(model)
    ][:2]


def _unknown_value(
    location: Location, value: object, context: Mapping[str, Any], what: str
) -> Problem:
    if "discriminator" in context:
        location, value = (*location, "type"), context["tag"]
    expected = str(context.get("expected") or context.get("expected_tags"))
    known = [word.strip(" '") for word in expected.replace(" or ", ",").split(",")]
    near = suggestion(str(value), known)
    remedy = f"write {near} instead" if near else _one_of(known)
    return Problem(path(*location), f"no such {what}", remedy, shown(value))


def _one_of(words: list[str]) -> str:
    if len(words) == 1:
        return f"write {words[0]}"
    return f"write {', '.join(words[:-1])} or {words[-1]}"


_Rule: TypeAlias = Callable[[str, Mapping[str, Any]], tuple[str, str]]


def _other(message: str, context: Mapping[str, Any]) -> tuple[str, str]:
    return message[:1].lower() + message[1:], "correct it"


def _said(rule: str, remedy: str) -> _Rule:
    return lambda message, context: (rule, remedy)


def _bound(comparison: str, key: str, word: str) -> _Rule:
    def rule(message: str, context: Mapping[str, Any]) -> tuple[str, str]:
        limit = f"{context[key]:g}" if abs(context[key]) < 2**53 else str(context[key])
        return f"it must be {comparison} {limit}", f"write a {word} number"

    return rule


_MAPPING: Final = _said("this section is a mapping", "write keys and values below it")
_TEXT: Final = _said("it must be text", "write it in quotes")
_INTEGER: Final = _said("it must be a whole number", "write one without a point")
_ABSENT: Final = frozenset({"missing", "arl_absent"})

_RULES: Final[Mapping[str, _Rule]] = {
    "arl": lambda message, context: (context["rule"], context["remedy"]),
    "missing": _said("this key is needed", "add it"),
    "union_tag_not_found": _said("this key is needed", "write float, int or categorical"),
    "string_type": _TEXT,
    "string_too_short": _said("it must not be empty", "write something or leave it out"),
    "string_too_long": _said("the text is too long", "write a shorter one"),
    "string_pattern_mismatch": _said(
        "a name has letters, digits and . _ - only, at most 100", "write such a name"
    ),
    "string_unicode": _said("it holds half a character", "write valid Unicode"),
    "int_type": _INTEGER,
    "int_from_float": _INTEGER,
    "float_type": _said("it must be a number", "write one without quotes"),
    "bool_type": _said("it must be true or false", "write true or false without quotes"),
    "finite_number": _said("numbers must be finite", "write a finite number"),
    "tuple_type": _said("it must be a list", "write [a, b, …]"),
    "too_short": _said("the list must not be empty", "write at least one item or leave it out"),
    "dict_type": _MAPPING,
    "model_type": _MAPPING,
    "model_attributes_type": _MAPPING,
    "greater_than": _bound("above", "gt", "larger"),
    "greater_than_equal": _bound("at least", "ge", "larger"),
    "less_than": _bound("below", "lt", "smaller"),
    "less_than_equal": _bound("at most", "le", "smaller"),
}
