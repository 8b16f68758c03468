"""Reads a study file into a StudySpec, or says everything that is wrong with it at once."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final, cast

from pydantic import BaseModel, TypeAdapter, ValidationError

from controller.spec.documents import Plain, read_document, to_plain
from controller.spec.errors import Problem, StudyRefused, shown
from controller.spec.files import check_files, missing_files
from controller.spec.rules import broken_rules
from controller.spec.study import StudySpec
from controller.spec.translation import problems_of, sections_of
from ledger.records import Json

__all__ = [
    "check_files",
    "json_schema",
    "load_study",
    "parse_study",
    "resolved",
    "schema_of",
    "with_setting",
]

SCHEMA_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def load_study(file: Path) -> StudySpec:
    """The study a YAML (or, by its name, JSON) file describes; its files are checked to be there.

    Raises:
        StudyRefused: with every problem found, each naming the field, the value and the rule.
    """
    document, problems = read_document(file)
    return _accepted(document, problems, file.parent)


def parse_study(document: object, base: Path | None = None) -> StudySpec:
    """The study a document describes: what a file holds, or what `resolved` gave.

    Args:
        base: where relative paths start; None leaves the files unchecked.

    Raises:
        StudyRefused: with every problem found.
    """
    plain, problems = to_plain(document)
    return _accepted(plain, problems, base)


def resolved(spec: StudySpec) -> dict[str, Json]:
    """The whole study with every default, in the file's own words; `parse_study` gives an equal
    spec back. Durations are seconds and sizes bytes."""
    document: dict[str, Json] = spec.model_dump(mode="json", by_alias=True)
    return document


def with_setting(spec: StudySpec, section: str, value: Json) -> StudySpec:
    """The study with another section in place of its own. Raises StudyRefused."""
    return parse_study({**resolved(spec), section: value})


def json_schema() -> dict[str, Json]:
    """The JSON Schema of a study file, for editors."""
    return schema_of(StudySpec, "ARL study")


def schema_of(model: type[BaseModel], title: str) -> dict[str, Json]:
    """The JSON Schema of a file that such a model reads."""
    schema: dict[str, Json] = model.model_json_schema(by_alias=True, mode="validation")
    return {"$schema": SCHEMA_DIALECT, "title": title, **_without_titles(schema)}


def _accepted(document: Plain, problems: list[Problem], base: Path | None) -> StudySpec:
    if not isinstance(document, dict):
        what = "the file is empty" if document is None else "a study is a mapping"
        given = "" if document is None else shown(document)
        problems.append(Problem("", what, "write name, objective, program, space, …", given))
        raise StudyRefused(problems)
    spec, readable, invalid = _validated(document)
    told = {problem.field for problem in problems}
    # What was replaced while reading was told already; that it is missing now says nothing new.
    problems += [problem for problem in invalid if problem.field not in told]
    problems += broken_rules(spec, readable)
    if base is not None and {"program", "evaluator"} <= readable:
        problems += missing_files(spec, base)
    if problems:
        raise StudyRefused(problems)
    return spec


def _validated(document: Mapping[str, Plain]) -> tuple[StudySpec, set[str], list[Problem]]:
    """The spec, which of its sections can be read, and why the others cannot."""
    everything = set(StudySpec.model_fields)
    # Through JSON, because strict models take lists for tuples and text for names only there.
    text = json.dumps(document)
    try:
        spec = StudySpec.model_validate_json(text, by_alias=True, by_name=False)
    except ValidationError as error:
        readable = everything - sections_of(error)
        sections = {name: _section(name, document[name]) for name in readable & document.keys()}
        if space := _readable_parameters(document.get("space")):
            sections["space"] = space
            readable.add("space")
        return StudySpec.model_construct(None, **sections), readable, list(problems_of(error))
    return spec, everything, []


def _section(name: str, value: Plain) -> object:
    annotation = cast("type[object]", StudySpec.model_fields[name].annotation)
    return TypeAdapter(annotation).validate_json(json.dumps(value), by_alias=True, by_name=False)


def _readable_parameters(space: Plain) -> dict[str, object]:
    """The parameters of a space that are right by themselves: one bad parameter should not hide
    what the rules say of the others."""
    found: dict[str, object] = {}
    for name, value in space.items() if isinstance(space, dict) else ():
        try:
            found[name] = _section("space", {name: value})
        except ValidationError:
            continue
    return {name: cast("dict[str, object]", section)[name] for name, section in found.items()}


def _without_titles(schema: Json) -> dict[str, Json]:
    """Pydantic titles every field with its own name, which tells an editor's user nothing."""
    cleaned = _clean(schema)
    if not isinstance(cleaned, dict):
        raise TypeError("a schema is a mapping")
    cleaned.pop("title", None)
    return cleaned


def _clean(value: Json, *, names: bool = False) -> Json:
    if isinstance(value, Mapping):
        return {
            key: _clean(item, names=key in ("properties", "$defs"))
            for key, item in value.items()
            if names or key != "title"
        }
    if isinstance(value, list):
        return [_clean(item) for item in value]
    return value
