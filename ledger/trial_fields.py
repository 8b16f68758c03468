"""What trials are sorted and filtered by: columns, parameters, scores, last reported metrics."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, TypeGuard

from sqlalchemy import (
    ColumnElement,
    Double,
    Select,
    Text,
    and_,
    case,
    cast,
    collate,
    exists,
    func,
    literal,
    not_,
    or_,
)
from sqlalchemy.dialects.postgresql import JSONB

from ledger.database import ReadSession
from ledger.digests import canonical_json
from ledger.errors import InvalidInput
from ledger.records import Json, ParamValue, Split, Study
from ledger.rows import CANDIDATES, EVALUATIONS, LATEST, TRIALS

_WRITTEN: Final = re.compile(
    r"(number|value|wall_s|created|params\.[A-Za-z_]\w{0,99}|(?:scores|metrics)\..{1,200}?)", re.S
)
_CONDITION: Final = re.compile(rf"{_WRITTEN.pattern}(>=|<=|!=|=|<|>)(.{{0,500}})", re.S)
_SHOWN: Final = 80


class Source(StrEnum):
    NUMBER = "number"
    VALUE = "value"
    WALL_S = "wall_s"
    CREATED = "created"
    PARAMS = "params"
    SCORES = "scores"
    METRICS = "metrics"


@dataclass(frozen=True, slots=True)
class Field:
    """`number`, `value`, `wall_s`, `created`, `params.NAME`, `scores.NAME` (on the search split)
    or `metrics.NAME` (the last that was reported)."""

    source: Source
    name: str = ""

    def __str__(self) -> str:
        return f"{self.source}.{self.name}" if self.name else str(self.source)


@dataclass(frozen=True, slots=True)
class Condition:
    """One comparison, like `params.lr>=0.001`."""

    field: Field
    operator: str
    """One of = != < <= > >=."""
    operand: str


def parse_field(text: str) -> Field:
    """Raises InvalidInput."""
    if _WRITTEN.fullmatch(text) is None:
        raise InvalidInput(
            f"sort: {text[:_SHOWN]!r} is no column: write number, value, wall_s, created, "
            "params.NAME, scores.NAME or metrics.NAME"
        )
    source, _, name = text.partition(".")
    return Field(Source(source), name)


def parse_condition(text: str) -> Condition:
    """Raises InvalidInput."""
    found = _CONDITION.fullmatch(text)
    if found is None:
        raise InvalidInput(
            f"where: {text[:_SHOWN]!r} is no comparison: write one like params.lr>=0.001, "
            "value<0.5 or metrics.train/loss<2 (columns: number, value, wall_s, created, "
            "params.NAME, scores.NAME, metrics.NAME)"
        )
    return Condition(parse_field(found[1]), found[2], found[3])


def is_textual(study: Study, field: Field) -> bool:
    """Whether a parameter is compared as text: its choices are not all numbers."""
    choices = _choices(study, field)
    return choices is not None and not all(_is_number(choice) for choice in choices)


def _choices(study: Study, field: Field) -> Sequence[Json] | None:
    """Of a parameter that is one of several values."""
    if field.source is not Source.PARAMS:
        return None
    space = study.spec.get("space")
    parameter = space.get(field.name) if isinstance(space, Mapping) else None
    choices = parameter.get("choices") if isinstance(parameter, Mapping) else None
    return choices if isinstance(choices, list | tuple) else None


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def joined(query: Select[Any], field: Field) -> Select[Any]:
    """`query` over trials with the rows that hold `field` beside each; a trial without is kept."""
    if field.source is Source.PARAMS:
        return query.join(CANDIDATES, CANDIDATES.c.id == TRIALS.c.candidate_id)
    if field.source is Source.SCORES:
        scored = and_(EVALUATIONS.c.trial_id == TRIALS.c.id, EVALUATIONS.c.split == Split.SEARCH)
        return query.outerjoin(EVALUATIONS, scored)
    if field.source is Source.METRICS:
        same = and_(LATEST.c.trial_id == TRIALS.c.id, LATEST.c.metric == field.name)
        return query.outerjoin(LATEST, same)
    return query


def key_of(session: ReadSession, field: Field, *, textual: bool = False) -> ColumnElement[Any]:
    """The value to sort by, of a query that `joined` made; null where a trial has none."""
    if field.source is Source.VALUE:
        return TRIALS.c.value
    if field.source is Source.WALL_S:
        return TRIALS.c.ended_at - TRIALS.c.started_at
    if field.source is Source.CREATED:
        return TRIALS.c.created_at
    if field.source is Source.PARAMS:
        return _member(session, CANDIDATES.c.params, field.name, textual=textual)
    if field.source is Source.SCORES:
        return _member(session, EVALUATIONS.c.scores, field.name, textual=False)
    if field.source is Source.METRICS:
        said = case((LATEST.c.value.like('"%'), None), else_=LATEST.c.value)
        spoken: ColumnElement[Any] = cast(said, Double)
        return spoken
    return TRIALS.c.number


def _member(
    session: ReadSession, document: ColumnElement[Any], name: str, *, textual: bool
) -> ColumnElement[Any]:
    """One member of a stored JSON object: as text, or as a number and null where it is none."""
    if session.dialect.name == "sqlite":
        path = f"$.{json.dumps(name, ensure_ascii=False)}"
        found, kind = func.json_extract(document, path), func.json_type(document, path)
        if textual:
            return case((kind.in_(("true", "false")), kind), else_=cast(found, Text))
        return case((kind.in_(("integer", "real")), found))
    member = cast(document, JSONB)[name]
    if textual:
        # By code points, as SQLite and Python do, whatever the database's language is.
        return collate(member.astext, "C")
    return case((func.jsonb_typeof(member) == "number", cast(member.astext, Double)))


def condition_clause(
    session: ReadSession, study: Study, condition: Condition
) -> ColumnElement[bool]:
    """A condition on a trial that needs no join. Raises InvalidInput."""
    field, operator = condition.field, condition.operator
    textual = is_textual(study, field)
    if textual:
        return _textual(session, condition, _choices(study, field) or ())
    wanted = condition_number(condition)
    key = key_of(session, field)
    compared = {
        "=": key == wanted,
        "!=": key != wanted,
        "<": key < wanted,
        "<=": key <= wanted,
        ">": key > wanted,
        ">=": key >= wanted,
    }[operator]
    return _beside(field, compared)


def _beside(field: Field, holds: ColumnElement[bool]) -> ColumnElement[bool]:
    """What `holds` of the rows beside a trial, asked trial by trial, so that a page that is full
    asks no more."""
    beside: dict[Source, tuple[ColumnElement[bool], ...]] = {
        Source.PARAMS: (CANDIDATES.c.id == TRIALS.c.candidate_id,),
        Source.SCORES: (
            EVALUATIONS.c.trial_id == TRIALS.c.id,
            EVALUATIONS.c.split == Split.SEARCH,
        ),
        Source.METRICS: (LATEST.c.trial_id == TRIALS.c.id, LATEST.c.metric == field.name),
    }
    if field.source not in beside:
        return holds
    return exists().where(*beside[field.source], holds).correlate(TRIALS)


def _textual(
    session: ReadSession, condition: Condition, choices: Sequence[Json]
) -> ColumnElement[bool]:
    if condition.operator not in ("=", "!="):
        raise InvalidInput(
            f"where: {condition.field}{condition.operator}: the parameter is a choice; compare "
            "it with = or !="
        )
    meant = [choice for choice in choices if _is_meant(choice, condition.operand)]
    name = condition.field.name
    said = (has_param(session, name, value) for value in (condition.operand, *meant))
    clause = _beside(condition.field, or_(*said))
    return clause if condition.operator == "=" else not_(clause)


def _is_meant(choice: Json, operand: str) -> TypeGuard[bool | int | float]:
    """Whether a choice that is no text is written so."""
    if isinstance(choice, bool):
        return operand == ("true" if choice else "false")
    if not isinstance(choice, int | float):
        return False
    try:
        return float(operand) == choice
    except ValueError:
        return False


def has_param(session: ReadSession, name: str, value: ParamValue) -> ColumnElement[bool]:
    """Whether a candidate's parameter is exactly this. Parameters are canonical JSON of one
    level, so `,"name":value,` occurs in `,...,` exactly when the parameter has that value: a
    quote inside a string would be written with a backslash."""
    params = CANDIDATES.c.params
    inside = literal(",").concat(func.substr(params, 2, func.length(params) - 2)).concat(",")
    wanted = f",{canonical_json({name: value})[1:-1]},"
    find = func.instr if session.dialect.name == "sqlite" else func.strpos
    return find(inside, wanted) > 0


def condition_number(condition: Condition) -> float:
    """What a column of numbers is compared with. Raises InvalidInput."""
    try:
        value = float(condition.operand)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InvalidInput(
            f"where: {condition.field}{condition.operator}{condition.operand[:_SHOWN]!r}: "
            "write a finite number"
        )
    return value
