"""A model that was promoted once or twice, by studies of shell programs."""

import shutil
from pathlib import Path
from typing import Any

from controller.wiring import Service
from ledger import reads
from ledger.records import Incumbent
from ledger.registry_reads import find_sealed, get_pointer
from tests.acceptance.shell_study import drive, submit

MODEL = "toy"
PROMOTION: dict[str, Any] = {
    "promotion": {"model": MODEL, "profile": "quick"},
    "noise": {},
    "parallel": 2,
}


def promote(service: Service, base: Path, *choices: float, model: str = MODEL) -> str:
    """A study that promotes the largest of `choices`; its id."""
    promotion = {**PROMOTION["promotion"], "model": model}
    study_id = submit(
        service,
        base,
        space={"x": {"type": "categorical", "choices": list(choices), "default": choices[0]}},
        proposer={"name": "grid"},
        budget={"trials": len(choices)},
        **{**PROMOTION, "promotion": promotion},
    )
    drive(service, study_id)
    return study_id


def promoted_once(service: Service, base: Path) -> Incumbent:
    promote(service, base, 0.1, 0.2, 0.3)
    return position(service, 1)


def promoted_twice(service: Service, base: Path) -> tuple[Incumbent, Incumbent]:
    first = promoted_once(service, base)
    promote(service, base, 0.3, 0.6, 0.9)
    return first, position(service, 2)


def copied(home: Path, to: Path) -> None:
    """A home's ledger and store, without what its supervisor keeps."""
    shutil.copytree(home, to / ".arl", ignore=shutil.ignore_patterns("local"))


def numbered(service: Service, seq: int) -> Incumbent:
    """One of the model's pointers."""
    with service.ledger.read() as session:
        return get_pointer(session, MODEL, seq)


def position(service: Service, seq: int) -> Incumbent:
    """One of the model's pointers, which must be the newest."""
    with service.ledger.read() as session:
        found = reads.latest_incumbent(session, MODEL)
    assert found is not None
    assert found.seq == seq
    return found


def artifact_file(service: Service, pointer: Incumbent) -> Path:
    """Where the store keeps the only file of what was promoted."""
    with service.ledger.read() as session:
        sealed = find_sealed(session, pointer)
    assert sealed is not None
    ((_, _, _, digest),) = service.store.manifest(sealed.entry.artifact_digest)
    return service.settings.home / "artifacts" / "objects" / digest[:2] / digest[2:]
