"""Takes another tool's study into the ledger, or the beginning of a study of one's own from it."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import yaml

from controller.interchange.observed_space import Parameter, Space, space_of, with_defaults
from controller.interchange.spool import Spool
from controller.spec.study import StudySpec
from controller.steps.importing import ImportedStudy, ReportedStudy, ReportedTrial, record_import
from ledger.database import Ledger
from ledger.records import Direction

_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9._-]+")
_NAME_CHARS: Final = 100
_NEVER_RUN: Final = ["/bin/false"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """What a reader knows of a study once it has read all its trials."""

    source: str
    location: str
    name: str
    origin: str
    metrics: tuple[str, ...]
    maximizes: tuple[bool, ...]
    declared: dict[str, Parameter]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A study that was read whole and can be recorded."""

    described: Described
    study: ReportedStudy
    space: Space
    spool: Spool

    @property
    def notes(self) -> list[str]:
        return [*self.described.notes, *self.space.notes]

    @property
    def best(self) -> ReportedTrial | None:
        """The complete trial with the best finite value of the first objective."""
        return self.spool.best

    def record(
        self, ledger: Ledger, *, actor: str, progress: Callable[[int], None]
    ) -> ImportedStudy:
        """Write it, once. Raises InvalidInput, having written nothing, where it cannot be."""
        return record_import(ledger, self.study, self.spool.read(), actor=actor, progress=progress)


def taken(spool: Spool, described: Described, *, name: str | None = None) -> Taken:
    """The study of a filled spool; `name` is what it is to be called here."""
    space = space_of(described.declared, spool.observed)
    about = (described.source, described.name, described.origin)
    study = ReportedStudy(
        source=described.source,
        location=described.location,
        name=described.name,
        content=spool.content(*about),
        origin=described.origin,
        spec=_spec(described, name or fitting_name(described.name), space.parameters),
        trials=spool.trials,
    )
    return Taken(described=described, study=study, space=space, spool=spool)


def fitting_name(name: str) -> str:
    """The nearest name that a study may have here."""
    plain = _NOT_IN_NAMES.sub("-", name).strip("-._")[:_NAME_CHARS]
    return plain if plain and plain[0].isalnum() else "imported"


def _objectives(described: Described) -> list[dict[str, str]]:
    return [
        {"metric": m, "direction": Direction.MAXIMIZE if up else Direction.MINIMIZE}
        for m, up in zip(described.metrics, described.maximizes, strict=True)
    ]


def _spec(described: Described, name: str, space: dict[str, Parameter]) -> StudySpec:
    objective, *others = _objectives(described)
    document = {
        "name": name,
        "objective": objective,
        "objectives": others,
        "program": {"kind": "command", "argv": _NEVER_RUN},
        "space": space,
        "evaluator": {"mode": "reported", "metrics": {m: {} for m in described.metrics}},
    }
    text = json.dumps(document)
    return StudySpec.model_validate_json(text, by_alias=True, by_name=False)


def study_file(taken: Taken) -> str:
    """A study file with the same space, whose baseline is the best that the other tool found.

    What only its author can know (the program, the evaluator) is named and has to be filled in.
    """
    best = taken.best
    space = with_defaults(taken.space.parameters, best.params if best else {})
    objective, *others = [
        {key: str(value) for key, value in o.items()} for o in _objectives(taken.described)
    ]
    document: dict[str, object] = {
        "name": f"{fitting_name(taken.described.name)[: _NAME_CHARS - 5]}-next",
        "objective": objective,
        **({"objectives": others} if others else {}),
        "program": {"kind": "command", "argv": ["{python}", "train.py"], "source": "program"},
        "space": space,
        "evaluator": {
            "bundle": "evaluator",
            "argv": ["{python}", "evaluate.py"],
            "splits": {"search": "search.jsonl", "holdout": "holdout.jsonl"},
            "metrics": {metric: {} for metric in taken.described.metrics},
        },
        "budget": {"trials": 20},
    }
    head = [
        f"# The space of {taken.described.source} study {taken.described.name!a}.",
        "# The defaults, which the baseline runs with, are its best trial"
        + (f" ({best.number})." if best else "; it has none, so they are the middles."),
        "# No score of it counts here: the baseline is measured anew.",
        "# Fill in program (what a trial runs) and evaluator (what scores it); then arl plan",
        *(f"# Note: {_one_line(note)}." for note in taken.notes),
    ]
    body = yaml.safe_dump(document, sort_keys=False, allow_unicode=False, width=100)
    return "\n".join(head) + "\n" + body


def _one_line(text: str) -> str:
    return " ".join(ascii(text)[1:-1].split())
