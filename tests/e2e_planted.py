"""Answers of the API in which every text is one that attacks whoever shows it."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

Schema = Mapping[str, Any]
OPENAPI: Final = Path(__file__).resolve().parent.parent / "web" / "openapi.json"
ADDRESSING: Final = frozenset(
    "study trial candidate attempt digest model family chain notification campaign id parent "
    "incumbent leader next_cursor artifact bundle against compared_with previous reference tree "
    "candidates pool served_as evaluator token gpu_ids took_over conversion key".split()
)
"""What the next requests, and rows beside one another, are found by: planted in a turn of its
own, in which many pages have nothing to show."""
ALL_THE_SAME: Final = frozenset(
    {"ModelCallListed.model", "ModelCallOut.model", "ModelUseOut.model"}
)
"""Of the same names, and nothing is found by them: a study's author wrote them."""
DEEP: Final = 6
KEY: Final = "__proto__"
"""A name that no table of the page may take for one of its own."""


def payload(place: str) -> str:
    """A text for one field: it breaks out of attributes, elements, scripts and markdown; as an
    address it is a script; it turns, hides and colours what follows."""
    run = f"hacked('{place}')"
    return (
        f"javascript:{run}//{place}'\"`><img data-planted='{place}' src=x onerror=\"{run}\">"
        f"<svg data-planted onload={run}></textarea></title></style><script data-planted>{run}"
        f"</script><iframe data-planted srcdoc='<script>parent.{run}</script>'></iframe>"
        f"{{{{constructor.constructor('{run}')()}}}} ${{{run}}} [x](javascript:{run}) ]]> --> "
        "\u202eesrever\u2066 \u200b\x1b[31mred \x1b]8;;javascript:hacked(1)\x07x\x07"
    )


@dataclass
class Planter:
    """Replaces every text of an answer, and puts one where there might be one."""

    addressing: bool = False
    """Plant in what addresses things, too."""
    planted: set[str] = field(default_factory=set)
    """`Schema.property` of every field that a text was planted in."""
    asked: set[str] = field(default_factory=set)
    """Paths that were asked for, as the document writes them."""
    _document: Mapping[str, Any] = field(
        default_factory=lambda: json.loads(OPENAPI.read_text(encoding="utf-8"))
    )

    @property
    def schemas(self) -> Mapping[str, Schema]:
        found: Mapping[str, Schema] = self._document["components"]["schemas"]
        return found

    def answer(self, path: str, given: Any) -> Any:
        """The answer of GET `path` (an address below the server's), planted."""
        schema = self._schema_at(path)
        return given if schema is None else self._value(schema, given, "")

    def invented(self, path: str) -> Any:
        """What GET `path` might answer where nothing is there: its example, planted. None: there
        is no such operation."""
        schema = self._schema_at(path)
        return None if schema is None else self._value(schema, self._made(schema), "")

    def operations(self) -> set[str]:
        """Every path that answers GET with a document."""
        paths: Mapping[str, Any] = self._document["paths"]
        return {path for path, item in paths.items() if self._answer_of(item) is not None}

    def reachable(self, operations: Iterable[str]) -> set[str]:
        """`Schema.property` of every text that these operations answer."""
        found: set[str] = set()
        for item in map(self._document["paths"].__getitem__, operations):
            for name in _names_below(self._answer_of(item), self.schemas, set()):
                found |= {
                    f"{name}.{key}"
                    for key, schema in self.schemas[name].get("properties", {}).items()
                    if self._is_planted(f"{name}.{key}", schema) and _is_text(schema)
                }
        return found

    def _schema_at(self, path: str) -> Schema | None:
        parts = path.split("?")[0].strip("/").split("/")
        best = ""
        for template, item in self._document["paths"].items():
            names = template.strip("/").split("/")
            fits = len(names) == len(parts) and all(
                name.startswith("{") or name == part
                for name, part in zip(names, parts, strict=True)
            )
            if fits and "get" in item and (not best or best.count("{") > template.count("{")):
                best = template
        if not best:
            return None
        self.asked.add(best)
        return self._answer_of(self._document["paths"][best])

    @staticmethod
    def _answer_of(item: Mapping[str, Any]) -> Schema | None:
        answers = item.get("get", {}).get("responses", {}).get("200", {}).get("content", {})
        found: Schema | None = answers.get("application/json", {}).get("schema")
        return found

    def _is_planted(self, place: str, schema: Schema) -> bool:
        key = place.rpartition(".")[2]
        if _is_time(key, schema):
            return False
        return self.addressing or place in ALL_THE_SAME or key not in ADDRESSING

    def _value(self, schema: Schema, given: Any, place: str) -> Any:
        schema = self._resolved(schema, given)
        if "properties" in schema:
            return self._object(schema, given) if isinstance(given, Mapping) else given
        if isinstance(given, str) and place:
            return self._text(schema, given, place)
        if isinstance(given, Mapping):
            return self._free(schema.get("additionalProperties"), given, place)
        if isinstance(given, list):
            items = schema.get("items", {})
            return [self._value(items, one, place) for one in given]
        return given

    def _object(self, schema: Schema, given: Mapping[str, Any]) -> dict[str, Any]:
        made = {}
        name = schema["title"]
        for key, value in given.items():
            own = schema["properties"].get(key, {})
            if not self._is_planted(f"{name}.{key}", own):
                made[key] = self._value(own, value, "")
            elif value in (None, "", [], {}) and not name.endswith("Columns"):
                made[key] = self._filled(own, value, f"{name}.{key}")
            else:
                made[key] = self._value(own, value, f"{name}.{key}")
        return made

    def _filled(self, schema: Schema, given: Any, place: str) -> Any:
        """Something where this answer has nothing."""
        made = self._made(schema)
        return given if made is None else self._value(schema, made, place)

    def _made(self, schema: Schema, depth: int = 0) -> Any:
        """Something that the schema allows."""
        if "$ref" in schema:
            schema = self.schemas[schema["$ref"].rsplit("/", 1)[-1]]
        example = (schema.get("examples") or [None])[0]
        if "properties" in schema:  # an example says less than there may be
            made = {k: self._made(one, depth + 1) for k, one in schema["properties"].items()}
            return made | (example or {})
        if example is not None:
            return example
        if schema.get("enum"):
            return schema["enum"][0]
        for key in ("const", "default"):
            if schema.get(key) is not None:
                return schema[key]
        if choices := [c for c in schema.get("anyOf", ()) if c.get("type") != "null"]:
            return self._made(choices[0], depth)
        if schema.get("type") == "array":
            items = schema.get("items", {})
            return [self._made(items, depth + 1)] if depth < DEEP else []
        plain = {"string": "text", "integer": 1, "number": 0.5, "boolean": True}
        return plain.get(str(schema.get("type")), {"name": "text"})

    def _text(self, schema: Schema, given: str, place: str) -> str:
        if not _is_text(schema):
            return given
        self.planted.add(place)
        return payload(place)

    def _free(self, schema: Any, given: Mapping[str, Any], place: str) -> dict[str, Any]:
        """A table by names that a user gave: what it says, and one name more."""
        values = schema if isinstance(schema, Mapping) else {}
        made = {key: self._value(values, value, place) for key, value in given.items()}
        if place and made:
            self.planted.add(place)
            made[payload(place)] = next(iter(made.values()))
            made[KEY] = next(iter(made.values()))
        return made

    def _resolved(self, schema: Schema, given: Any) -> Schema:
        for _ in range(9):
            if "$ref" in schema:
                schema = self.schemas[schema["$ref"].rsplit("/", 1)[-1]]
            elif choices := [c for c in schema.get("anyOf", ()) if _fits(c, given, self.schemas)]:
                schema = choices[0]
            elif len(schema.get("allOf", ())) == 1:
                schema = schema["allOf"][0]
            else:
                break
        return schema


def _fits(schema: Schema, given: Any, schemas: Mapping[str, Schema]) -> bool:
    if "$ref" in schema:
        target = schemas[schema["$ref"].rsplit("/", 1)[-1]]
        return _fits(target, given, schemas)
    kinds: dict[str, Callable[[Any], bool]] = {
        "null": lambda one: one is None,
        "string": lambda one: isinstance(one, str),
        "array": lambda one: isinstance(one, list),
        "object": lambda one: isinstance(one, Mapping),
    }
    check = kinds.get(str(schema.get("type")))
    if check is not None:
        return check(given)
    return (not isinstance(given, str | list | Mapping) and given is not None) or not schema


def _is_time(key: str, schema: Schema) -> bool:
    formats = {s.get("format") for s in (schema, *schema.get("anyOf", ()))}
    return "date-time" in formats or key in ("at", "now", "since") or key.endswith("_at")


def _is_text(schema: Schema) -> bool:
    """Whether a text of anybody's may stand there."""
    if "enum" in schema or "const" in schema or "$ref" in schema:
        return False
    if schema.get("type") == "string":
        return True
    if any(_is_text(one) for one in schema.get("anyOf", ())):
        return True
    if schema.get("type") == "array":
        return _is_text(schema.get("items", {}))
    return "additionalProperties" in schema or not schema.keys() - {"title", "description"}


def _names_below(schema: Any, schemas: Mapping[str, Schema], seen: set[str]) -> Iterator[str]:
    """Every named schema that one is made of."""
    if isinstance(schema, Mapping):
        for key, value in schema.items():
            if key == "$ref" and isinstance(value, str):
                name = value.rsplit("/", 1)[-1]
                if name not in seen:
                    seen.add(name)
                    yield name
                    yield from _names_below(schemas[name], schemas, seen)
            else:
                yield from _names_below(value, schemas, seen)
    elif isinstance(schema, list):
        for one in schema:
            yield from _names_below(one, schemas, seen)
