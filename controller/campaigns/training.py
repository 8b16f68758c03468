"""The training set of a campaign's study: gathered records and the template's own rows, with no
prompt that is held out."""

import json
import shutil
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from controller.campaigns.experience import TRAINING, stored_rows
from controller.decisions.campaigns import is_held_out, prompt_digest
from controller.spec.campaign import ExperienceSpec
from inner_trials.contamination import prompt_of
from inner_trials.data import DataError, data_files, read_rows
from ledger.artifacts import ArtifactStore
from ledger.campaign_entries import ExperienceTakenIn
from ledger.errors import Conflict, InvalidInput
from ledger.files import disk_full_at

GATHERED: Final = "experience.jsonl"
TEMPLATE: Final = "template"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSet:
    directory: Path
    records: int
    """Gathered ones."""
    rows: int
    """All, the template's included."""
    left_out: int
    """Rows of the template whose prompts are held out."""


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Which prompts never enter training."""

    share: float
    protected: frozenset[str]
    """Digests of the prompts of slices and of the evaluator's splits."""

    def has(self, digest: str) -> bool:
        return digest in self.protected or is_held_out(digest, self.share)


def write_training_set(
    store: ArtifactStore,
    batches: Sequence[ExperienceTakenIn],
    spec: ExperienceSpec,
    held_out: HeldOut,
    template: Path | None,
    place: Path,
) -> TrainingSet:
    """Make the directory anew and check every row of it.

    Raises:
        InvalidInput: the template's input is not JSON Lines, so that it cannot be checked; or
            nothing is left to train on.
        Conflict: a prompt that is held out is in it.
    """
    with disk_full_at(place.parent):
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        records = _write_gathered(store, batches, spec, held_out, place / GATHERED)
        kept, left_out = 0, 0
        if template is not None and spec.with_template:
            kept, left_out = _write_template(template, spec.input, held_out, place)
    if not records + kept:
        raise InvalidInput(
            "experience: nothing is left to train on; lower experience.min_reward, or gather more"
        )
    rows = check_training_set(place, held_out)
    return TrainingSet(directory=place, records=records, rows=rows, left_out=left_out)


def check_training_set(directory: Path, held_out: HeldOut) -> int:
    """How many rows it has. Raises Conflict: the prompt of one is held out."""
    count = 0
    for row in read_rows(directory):
        digest = prompt_digest(prompt_of(row.fields))
        if held_out.has(digest):
            raise Conflict(
                f"training set {row.where}: prompt {digest} is held out and must never be trained "
                "on; nothing was started"
            )
        count += 1
    return count


def prompts_of_tree(store: ArtifactStore, tree: str) -> frozenset[str]:
    """Digests of the prompts of a stored split or slice; none where it is not JSON Lines."""
    found = set()
    for path, _, _, digest in store.manifest(tree):
        if path.endswith(".jsonl"):
            for line in store.read_bytes(digest).split(b"\n"):
                if line.strip():
                    fields = json.loads(line)
                    if isinstance(fields, dict):
                        found.add(prompt_digest(prompt_of(fields)))
    return frozenset(found)


def _write_gathered(
    store: ArtifactStore,
    batches: Sequence[ExperienceTakenIn],
    spec: ExperienceSpec,
    held_out: HeldOut,
    file: Path,
) -> int:
    found: deque[str] = deque()
    for batch in reversed(batches):  # older ones are not read once there are enough
        rows = stored_rows(store, [batch], ["row", "reward", "prompt_revision"], [TRAINING])
        fit = [row["row"] for row in rows if _is_fit(row, spec, held_out)]
        found.extendleft(reversed(fit))
        if len(found) >= spec.newest:
            break
    newest = list(found)[-spec.newest :]
    if newest:
        _write_lines(file, newest)
    return len(newest)


def _is_fit(row: Mapping[str, Any], spec: ExperienceSpec, held_out: HeldOut) -> bool:
    """Good enough, and not of a prompt that an evaluator's split has got since it was taken in."""
    reward = row["reward"]
    is_good = spec.min_reward is None or (reward is not None and reward >= spec.min_reward)
    return is_good and not held_out.has(row["prompt_revision"])


def _write_template(template: Path, name: str, held_out: HeldOut, place: Path) -> tuple[int, int]:
    """How many rows were kept, and how many left out."""
    kept = left_out = 0
    for file in _json_lines(template, name):
        lines = []
        for line, row in _rows_of(file, name):
            if held_out.has(prompt_digest(prompt_of(row))):
                left_out += 1
            else:
                lines.append(line)
        kept += len(lines)
        if lines:
            below = file.name if template.is_file() else file.relative_to(template).as_posix()
            target = place / TEMPLATE / below
            target.parent.mkdir(parents=True, exist_ok=True)
            _write_lines(target, lines)
    return kept, left_out


def _write_lines(file: Path, lines: Iterable[str]) -> None:
    file.write_bytes("".join(f"{line}\n" for line in lines).encode())


def _json_lines(template: Path, name: str) -> list[Path]:
    files = [template] if template.is_file() else sorted(template.rglob("*"))
    other = [f for f in files if f.is_file() and f.suffix != ".jsonl"]
    if other:
        raise InvalidInput(
            f"program.data.{name}: {other[0].name} is not JSON Lines, so nobody can check that "
            "no held-out prompt is in it; write experience.with_template: false, or .jsonl files"
        )
    try:
        return data_files(template)
    except DataError as error:
        raise InvalidInput(f"program.data.{name}: {error}") from None


def _rows_of(file: Path, name: str) -> Iterator[tuple[str, dict[str, object]]]:
    try:
        for row in read_rows(file):
            yield json.dumps(row.fields, ensure_ascii=False), dict(row.fields)
    except DataError as error:
        raise InvalidInput(f"program.data.{name}: {error}") from None
