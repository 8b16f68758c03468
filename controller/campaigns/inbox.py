"""Takes in what lies in a campaign's inbox: each file whole, once, and only what has consent."""

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from controller.campaigns.experience import store_records, stored_rows
from controller.campaigns.log import CampaignLog
from controller.campaigns.records import NoConsent, Record, read_record
from controller.decisions.campaigns import is_held_out
from controller.documents.plain_text import plain
from controller.spec.campaign import ExperienceSpec
from inner_trials.data import DataError, json_object
from ledger.artifacts import ArtifactStore
from ledger.campaign_entries import CampaignEntry, ExperienceTakenIn

TAKEN: Final = "taken"
PROBLEMS_KEPT: Final = 10
LONGEST_PROBLEM: Final = 200
_NAME_BYTES: Final = 200
Say = Callable[[str], None]


@dataclass(slots=True)
class _Sorted:
    """The records of one file, by what becomes of them."""

    training: list[Record] = field(default_factory=list)
    held_out: list[Record] = field(default_factory=list)
    without_consent: int = 0
    invalid: int = 0
    duplicates: int = 0
    problems: list[str] = field(default_factory=list)


class Inbox:
    """A directory into which others put whole files (written elsewhere, then renamed)."""

    def __init__(
        self, place: Path, store: ArtifactStore, spec: ExperienceSpec, protected: frozenset[str]
    ) -> None:
        """`protected`: digests of prompts that are held out whatever their side."""
        self._place, self._store, self._spec = place, store, spec
        self._protected = protected

    def take_in(self, log: CampaignLog, say: Say) -> None:
        """Everything that waits. A file is recorded first and moved away afterwards, so that one
        is never recorded twice, wherever this is interrupted."""
        seen: set[str] | None = None
        for path in self._waiting(say):
            content = path.read_bytes()
            digest = hashlib.sha256(content).hexdigest()
            if digest not in log.state.sources:
                if seen is None:
                    rows = stored_rows(self._store, log.state.batches, ["record"])
                    seen = {row["record"] for row in rows}
                found = self._sorted(content, path.name, seen)
                tree = store_records(self._store, found.training, found.held_out)
                log.add(partial(_entry, log.name, path.name, digest, tree, found))
                say(_told(path.name, found))
            self._move_away(path, digest)

    def _waiting(self, say: Say) -> Iterator[Path]:
        for path in sorted(self._place.glob("*.jsonl")):
            status = path.lstat()
            if path.name.startswith("."):
                continue
            if not stat.S_ISREG(status.st_mode):
                say(f"inbox: {plain(path.name)} is a link or no regular file, and is left there")
            elif status.st_size > self._spec.file_bytes:
                say(
                    f"inbox: {plain(path.name)} has {status.st_size} bytes, and "
                    f"experience.file_size allows {self._spec.file_bytes}: split it"
                )
            else:
                yield path

    def _sorted(self, content: bytes, name: str, seen: set[str]) -> _Sorted:
        found = _Sorted()
        for number, line in enumerate(content.split(b"\n"), start=1):
            if line.strip():
                self._sort(found, line, f"line {number}", seen)
        return found

    def _sort(self, found: _Sorted, line: bytes, where: str, seen: set[str]) -> None:
        try:
            record = read_record(json_object(line, where), where)
        except NoConsent:
            found.without_consent += 1
            return
        except DataError as error:
            found.invalid += 1
            if len(found.problems) < PROBLEMS_KEPT:
                found.problems.append(plain(str(error))[:LONGEST_PROBLEM])
            return
        if record.digest in seen:
            found.duplicates += 1
            return
        seen.add(record.digest)
        revision = record.prompt_revision
        is_kept_out = revision in self._protected or is_held_out(revision, self._spec.holdout)
        (found.held_out if is_kept_out else found.training).append(record)

    def _move_away(self, path: Path, digest: str) -> None:
        taken = self._place / TAKEN
        taken.mkdir(exist_ok=True)
        name = os.fsencode(path.name)[-_NAME_BYTES:]  # some systems take no longer ones
        os.replace(path, taken / f"{digest[:12]}-{os.fsdecode(name)}")


def _entry(
    campaign: str, source: str, digest: str, tree: str, found: _Sorted, number: int
) -> CampaignEntry:
    return ExperienceTakenIn(
        campaign=campaign,
        number=number,
        source=plain(source),
        source_digest=digest,
        tree=tree,
        training=len(found.training),
        held_out=len(found.held_out),
        without_consent=found.without_consent,
        invalid=found.invalid,
        duplicates=found.duplicates,
        problems=tuple(found.problems),
    )


def _told(name: str, found: _Sorted) -> str:
    told = f"{plain(name)}: {len(found.training)} records to train on, {len(found.held_out)} held "
    told += f"out, {found.without_consent} without consent (not kept)"
    if found.duplicates:
        told += f", {found.duplicates} known already"
    if found.invalid:
        told += f", {found.invalid} refused ({found.problems[0]})"
    return told
