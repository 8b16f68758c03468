"""From the bytes of a study file to plain data: YAML 1.2's plain values, or JSON.

YAML is read the way people expect today: `1e-4` is a number, `on`, `yes` and `12:30` are text,
nothing is merged and no tag makes an object. A key that is written twice is a problem.
"""

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeAlias

import yaml

from controller.spec.errors import Problem, StudyRefused, path, shown

FILE_BYTES: Final = 1024 * 1024
VALUES: Final = 100_000
"""Aliases can make a small file huge; more values than this are refused."""
DEPTH: Final = 40
LARGEST: Final = 10**300
"""Larger numbers are no floats."""

Plain: TypeAlias = bool | int | float | str | list["Plain"] | dict[str, "Plain"] | None

_JSON_WORDS: Final = (".json",)


class _Loader(yaml.SafeLoader):
    """SafeLoader with YAML 1.2's core schema instead of 1.1's guesses."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Merge keys left YAML with 1.2; and merging merges is how small files get huge."""


for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?(?:0|[1-9][0-9_]*)|0x[0-9a-fA-F]+|0o[0-7]+", "-+0123456789"),
    (
        "float",
        r"[-+]?(?:(?:\.[0-9]+|[0-9][0-9_]*\.[0-9_]*)(?:[eE][-+]?[0-9]+)?"
        r"|[0-9][0-9_]*[eE][-+]?[0-9]+|\.(?:inf|Inf|INF))|\.(?:nan|NaN|NAN)",
        "-+0123456789.",
    ),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
):
    _Loader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(rf"(?:{_pattern})\Z"), list(_first)
    )


def read_word(text: str) -> bool | int | float | str:
    """What one bare word means in a study file; null is text, since no parameter has it. Raises
    ValueError for a number of too many digits."""
    loader = _Loader("")
    try:
        tag = loader.resolve(yaml.ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]  # its stubs lack it
        word: object = loader.construct_object(yaml.ScalarNode(tag, text))
    finally:
        loader.dispose()
    return word if isinstance(word, bool | int | float) else text


def read_document(file: Path, what: str = "study file") -> tuple[Plain, list[Problem]]:
    """The file's content as plain data, and what is wrong with it that leaves it readable.
    `what` is what people call such a file.

    Raises:
        StudyRefused: the file is missing, too large, not UTF-8 or not YAML (JSON where its
            name ends in .json).
    """
    text = _read_text(file, what)
    loaded, problems = _from_json(text) if file.suffix in _JSON_WORDS else _from_yaml(text)
    plain, faults = to_plain(loaded)
    return plain, problems + faults


def to_plain(value: object) -> tuple[Plain, list[Problem]]:
    """`value` as plain data, every other thing in it replaced by null and told as a problem."""
    problems: list[Problem] = []
    plain = _Walk(problems).plain(value, ())
    return plain, problems


def _read_text(file: Path, what: str) -> str:
    try:
        if not file.is_file():
            rule = "it is not a file" if file.exists() else "there is no such file"
            raise StudyRefused([_file_problem(file, rule, f"name a {what}")])
        with file.open("rb") as stream:
            content = stream.read(FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        rule = f"it cannot be read: {why}"
        raise StudyRefused([_file_problem(file, rule, "name a readable file")]) from error
    if len(content) > FILE_BYTES:
        rule = f"a {what} has at most {FILE_BYTES} bytes"
        raise StudyRefused([_file_problem(file, rule, "keep data in files of its own")])
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        rule = f"byte {error.start} is not UTF-8"
        raise StudyRefused([_file_problem(file, rule, "save the file as UTF-8")]) from error


def _file_problem(file: Path, rule: str, remedy: str) -> Problem:
    return Problem("", rule, remedy, shown(str(file)))


def _from_json(text: str) -> tuple[object, list[Problem]]:
    problems: list[Problem] = []

    def pairs(items: list[tuple[str, object]]) -> dict[str, object]:
        kept: dict[str, object] = {}
        for key, value in items:
            if key in kept:
                problems.append(_twice(key, ""))
            kept.setdefault(key, value)
        return kept

    try:
        return json.loads(text, object_pairs_hook=pairs), problems
    except (ValueError, RecursionError) as error:
        raise StudyRefused([_syntax("JSON", str(error))]) from error


def _from_yaml(text: str) -> tuple[object, list[Problem]]:
    try:
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return None, []
            problems = list(_duplicates(node, (), set()))
            return loader.construct_document(node), problems
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise StudyRefused([_syntax("YAML", f"{where}{error.problem}")]) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise StudyRefused([_syntax("YAML", _one_line(error))]) from error
    except (LookupError, AttributeError) as error:  # its library's, of `!!int ""` and the like
        what = "a value is not what its tag (!!int, !!bool, …) says"
        raise StudyRefused([_syntax("YAML", what)]) from error


def _syntax(language: str, what: str) -> Problem:
    return Problem("", f"this is not {language}: {what}", "correct the file there")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def _twice(field: str, lines: str) -> Problem:
    return Problem(field, f"the key is written twice{lines}", "keep one of them")


def _duplicates(
    node: yaml.Node, parts: tuple[str | int, ...], seen: set[int]
) -> Iterator[Problem]:
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for index, child in enumerate(node.value):
            yield from _duplicates(child, (*parts, index), seen)
    elif isinstance(node, yaml.MappingNode):
        first: dict[str, int] = {}
        for key, child in node.value:
            name = str(key.value)
            line = key.start_mark.line + 1
            if name in first:
                yield _twice(path(*parts, name), f" (lines {first[name]} and {line})")
            first.setdefault(name, line)
            yield from _duplicates(child, (*parts, name), seen)


class _Walk:
    """Copies a value into plain data, counting what it makes."""

    def __init__(self, problems: list[Problem]) -> None:
        self._problems = problems
        self._values = 0

    def plain(self, value: object, parts: tuple[str | int, ...]) -> Plain:
        self._values += 1
        if self._values > VALUES or len(parts) > DEPTH:
            rule = f"a study has at most {VALUES} values and is at most {DEPTH} levels deep"
            raise StudyRefused([Problem(path(*parts), rule, "keep data in files of its own")])
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int):
            return self._integer(value, parts)
        if isinstance(value, str):
            return self._text(value, parts)
        if isinstance(value, float):
            return self._number(value, parts)
        if isinstance(value, list | tuple):
            return [self.plain(item, (*parts, i)) for i, item in enumerate(value)]
        if isinstance(value, dict):
            return self._mapping(value, parts)
        rule = "values are text, numbers, true, false, null, lists and mappings"
        self._refuse(parts, rule, "write one of those", str(value))
        return None

    def _text(self, value: str, parts: tuple[str | int, ...]) -> Plain:
        try:
            value.encode()
        except UnicodeEncodeError:
            self._refuse(parts, "it holds half a character", "write valid Unicode", value)
            return None
        if "\0" in value:
            # No argument, variable or file name can hold one.
            self._refuse(parts, "it holds a NUL character", "remove it", value)
            return None
        return value

    def _integer(self, value: int, parts: tuple[str | int, ...]) -> Plain:
        if abs(value) < LARGEST:
            return value
        self._refuse(parts, "the number is too large", "write a smaller one", "…")
        return None

    def _number(self, value: float, parts: tuple[str | int, ...]) -> Plain:
        if math.isfinite(value):
            return value
        self._refuse(parts, "numbers must be finite", "write a finite number", value)
        return None

    def _mapping(self, value: dict[object, object], parts: tuple[str | int, ...]) -> Plain:
        kept: dict[str, Plain] = {}
        for key, item in value.items():
            if isinstance(key, str) and self._text(key, parts) is not None:
                kept[key] = self.plain(item, (*parts, key))
            else:
                self._refuse(parts, "keys are text", f'write "{key}" in quotes', key)
        return kept

    def _refuse(self, parts: tuple[str | int, ...], rule: str, remedy: str, value: object) -> None:
        self._problems.append(Problem(path(*parts), rule, remedy, shown(value)))
