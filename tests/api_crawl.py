"""Every answer that the API has over a ledger: each GET operation, for each thing there is."""

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import httpx

V1: Final = "/api/v1"
ENDLESS: Final = f"{V1}/events"
"""Read by whoever follows a stream."""
OF_A_TRIALS_HOLDER: Final = (
    f"{V1}/trials/{{trial}}/inputs/{{mount}}",
    f"{V1}/trials/{{trial}}/inputs/{{mount}}/{{path}}",
    f"{V1}/trials/{{trial}}/should-stop",
)
"""Answered to an outside worker that holds the trial."""
QUERIES: Final[Mapping[str, tuple[str, ...]]] = {
    f"{V1}/studies/{{study}}/export": ("?format=csv", "?format=json", "?format=parquet"),
    f"{V1}/studies": ("?limit=500",),
    f"{V1}/entries": ("?chain=service&limit=500", "?chain={study}&limit=500"),
}


@dataclass(frozen=True)
class Answered:
    """One answer: of which operation, from where."""

    operation: str
    """The path's template."""
    address: str
    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def is_json(self) -> bool:
        return self.headers.get("content-type", "").startswith("application/json")


@dataclass
class Crawl:
    """Of one server, by somebody who may read everything."""

    client: httpx.Client
    each: int = 4
    """Of each kind of thing the first so many are asked for, and the last."""
    answers: list[Answered] = field(default_factory=list)
    _things: dict[str, dict[str, None]] = field(default_factory=dict)
    """By name of a path's parameter, in the order in which they were met."""
    _files: dict[tuple[str, str], None] = field(default_factory=dict)

    def run(self) -> list[Answered]:
        """Every answer; what was not there for a thing (404) too."""
        document = self.client.get(f"{V1}/openapi.json").json()
        paths = [p for p, item in document["paths"].items() if "get" in item]
        for path in sorted(paths, key=lambda one: one.count("{")):
            if path != ENDLESS and path not in OF_A_TRIALS_HOLDER:
                for address in self._addresses(path):
                    self._get(path, address)
        return self.answers

    def unanswered(self) -> set[str]:
        """Operations of which no thing was found to ask for."""
        return {a.operation for a in self.answers} - {
            a.operation for a in self.answers if a.status == 200
        }

    def _get(self, operation: str, address: str) -> Answered:
        got = self.client.get(address, headers={"Accept": "application/json, */*"})
        made = Answered(operation, address, got.status_code, dict(got.headers), got.content)
        self.answers.append(made)
        if made.is_json and made.status == 200:
            document = got.json()
            for name, value in _names_in(document):
                self._things.setdefault(name, {})[value] = None
            if operation == f"{V1}/artifacts/{{digest}}":
                found = [(document["digest"], file["path"]) for file in document["listed"]]
                self._files |= dict.fromkeys(found[: self.each])
        return made

    def _addresses(self, path: str) -> Iterator[str]:
        for query in QUERIES.get(path, ("",)):
            names = re.findall(r"\{(\w+)\}", path + query)
            for values in self._values(path, names):
                address = path + query
                for name, value in zip(names, values, strict=True):
                    address = address.replace(f"{{{name}}}", value, 1)
                yield address

    def _values(self, path: str, names: list[str]) -> Iterator[tuple[str, ...]]:
        if names[-1:] == ["path"]:
            yield from self._files
        elif names[-1:] == ["number"]:
            yield from itertools.product(self.found(names[0]), map(str, range(self.each)))
        else:
            yield from ((value,) for value in self.found(names[0])) if names else [()]

    def found(self, name: str) -> list[str]:
        """Values of a path's parameter among what was answered so far."""
        keys = {"digest": ("artifact",), "chain": ("study",)}.get(name, (name,))
        found = list({value: None for key in keys for value in self._things.get(key, ())})
        return (
            found if len(found) <= 2 * self.each else [*found[: self.each], *found[-self.each :]]
        )


def _names_in(document: Any) -> Iterator[tuple[str, str]]:
    """Each text of a document with the name that it has there."""
    if isinstance(document, dict):
        if isinstance(own := document.get("id"), str):
            yield "trial" if "candidate" in document else "attempt", own
        for name, value in document.items():
            if isinstance(value, str):
                yield name, value
            yield from _names_in(value)
    elif isinstance(document, list):
        for one in document:
            yield from _names_in(one)
