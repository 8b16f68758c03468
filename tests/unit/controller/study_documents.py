"""Study documents for the tests of this folder: small, valid, and changed one place at a time."""

import copy
from collections.abc import Mapping

from controller.spec.loading import parse_study
from controller.spec.study import StudySpec

COMMAND: Mapping[str, object] = {
    "name": "plain",
    "objective": {"metric": "score", "direction": "maximize"},
    "program": {"kind": "command", "argv": ["/bin/true"]},
    "space": {"x": {"type": "float", "low": 0.0, "high": 1.0}},
    "evaluator": {"mode": "reported", "metrics": {"score": {"low": 0, "high": 1}}},
    "budget": {"trials": 10},
}

SFT: Mapping[str, object] = {
    "name": "arithmetic",
    "objective": {"metric": "exact_match", "direction": "maximize"},
    "program": {"kind": "sft", "base": "model", "data": {"train": "train.jsonl"}},
    "space": {
        "learning_rate": {"type": "float", "low": 1e-6, "high": 1e-4, "log": True},
        "batch": {"type": "int", "low": 4, "high": 16, "step": 4},
        "loss": {"type": "categorical", "choices": ["nll", "dft", True, 3]},
    },
    "evaluator": {
        "program": "exact_match",
        "splits": {"search": "search.jsonl", "holdout": "holdout.jsonl"},
        "metrics": {"exact_match": {"low": 0, "high": 1}, "format_ok": {}},
    },
    "budget": {"trials": 40, "wall_time": "8h"},
    "promotion": {"model": "tiny", "guard": {"format_ok": {"max_drop": 0.01}}},
}

REMOVE = object()


def changed(document: Mapping[str, object], **changes: object) -> dict[str, object]:
    """A copy with `section__key=value` set, or taken out where the value is REMOVE."""
    copied: dict[str, object] = copy.deepcopy(dict(document))
    for place, value in changes.items():
        *parents, last = place.split("__")
        at = copied
        for key in parents:
            at = at.setdefault(key, {})  # type: ignore[assignment]  # sections are mappings
        if value is REMOVE:
            del at[last]
        else:
            at[last] = value
    return copied


def study(document: Mapping[str, object] = COMMAND, **changes: object) -> StudySpec:
    return parse_study(changed(document, **changes))
