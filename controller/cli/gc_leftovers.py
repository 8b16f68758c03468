"""What is left beside the artifact store: logs, cut uploads, directories of ended attempts."""

import os
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from controller.api.sweeping import old_parts, old_staged
from controller.api.uploads import drop_part
from controller.spec.loading import parse_study
from controller.wiring import Service
from ledger import reads
from ledger.attempt_reads import find_attempt
from ledger.database import ReadSession
from ledger.errors import ArlError, InvalidInput
from ledger.files import remove_tree
from ledger.saved_reads import trials_by_id
from ledger.states import ATTEMPT_TERMINAL, TRIAL_TERMINAL, StudyState
from ledger.unneeded import LET_GO_GRACE_S, ORPHAN_GRACE_S
from targets import layout
from targets.kept_logs import Cut, KeptLog, cut, find_cuts, kept_logs, log_folders
from targets.protocol import Target

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Leftover:
    """Something that would go, and how."""

    kind: str
    """`log`, `upload` or `attempt`."""
    name: str
    why: str
    size_bytes: int
    cut: Cut | None = None
    path: Path | None = None
    target: Target | None = None


def trees_in_use(home: Path) -> frozenset[str]:
    """Trees that an attempt which is there was launched with, named in a row or not."""
    found: set[str] = set()
    for launch in home.glob(f"*/{layout.ATTEMPTS}/*/{layout.LAUNCH}"):
        try:
            found.update(_DIGEST.findall(launch.read_text(encoding="utf-8", errors="replace")))
        except OSError:  # it was collected just now
            continue
    return frozenset(found)


def find_leftovers(service: Service, study_id: str | None) -> list[Leftover]:
    """Of one study its logs; of all, what no study owns too."""
    now = time.time()
    found = list(_logs(service, study_id, now))
    if study_id is None:
        found += _uploads(service.settings.home, now)
        found += _attempts(service, now)
    return found


def take_away(found: Sequence[Leftover]) -> int:
    """Bytes freed. What somebody came back for stays."""
    freed = 0
    for one in found:
        try:
            if one.cut is not None:
                cut(one.cut)
            elif one.target is not None:
                one.target.release(one.name)
            elif one.path is not None and not _drop(one.path):
                continue
        except (ArlError, OSError):
            continue
        freed += one.size_bytes
    return freed


def _drop(path: Path) -> bool:
    if path.suffix == ".part":
        return drop_part(path, before=time.time() - ORPHAN_GRACE_S)
    remove_tree(path)
    return True


def _logs(service: Service, study_id: str | None, now: float) -> Iterator[Leftover]:
    """Logs of trials that say too much, and logs of attempts that the ledger does not know."""
    by_owner: dict[str, list[KeptLog]] = {}
    for folder in log_folders(str(service.settings.home)):
        for log in kept_logs(folder):
            by_owner.setdefault(log.owner, []).append(log)
    with service.ledger.read() as session:
        trials = trials_by_id(session, by_owner)
        studies = {trial.study_id for trial in trials.values()}
        limits = {study: _limit(session, study) for study in studies}
        for owner, logs in sorted(by_owner.items()):
            trial = trials.get(owner)
            if trial is None:
                yield from _unknown_logs(session, logs, now) if study_id is None else ()
            elif study_id in (None, trial.study_id) and trial.state in TRIAL_TERMINAL:
                yield from _long_logs(logs, limits[trial.study_id])


def _limit(session: ReadSession, study_id: str) -> int | None:
    study = reads.get_study(session, study_id)
    if study.state is StudyState.IMPORTED:
        return None
    try:
        retention = parse_study(study.spec).retention
    except InvalidInput:  # of another ARL
        return None
    return None if retention is None else retention.logs


def _long_logs(logs: Sequence[KeptLog], limit: int | None) -> Iterator[Leftover]:
    for found in () if limit is None else find_cuts(logs, limit):
        why = f"the trial's logs are larger than {limit} bytes together"
        yield Leftover("log", found.log.attempt, why, found.size_bytes, cut=found)


def _unknown_logs(session: ReadSession, logs: Sequence[KeptLog], now: float) -> Iterator[Leftover]:
    for log in logs:
        if log.changed_at >= now - ORPHAN_GRACE_S or find_attempt(session, log.attempt):
            continue
        for _, path in log.pieces:
            size = Path(path).stat().st_size
            why = "the ledger knows no such attempt"
            yield Leftover("log", Path(path).name, why, size, path=Path(path))


def _uploads(home: Path, now: float) -> Iterator[Leftover]:
    root = home / "uploads"
    for part in old_parts(root, now):
        why = "nobody went on with this upload for a day"
        yield Leftover("upload", part.name, why, part.stat().st_size, path=part)
    for staged in old_staged(root, now):
        why = "a submission that did not live to use it"
        yield Leftover("upload", staged.name, why, size_of(staged), path=staged)


def _attempts(service: Service, now: float) -> Iterator[Leftover]:
    """Directories of attempts whose end is in the ledger, left by a crash."""
    for target in service.used_targets():
        try:
            owned = target.list_owned(service.ledger.id)
        except ArlError:  # it is away: whoever drives its studies sees to it later
            continue
        with service.ledger.read() as session:
            names = ((found, found.name.removeprefix("arl-")) for found in owned)
            known = [(found, find_attempt(session, name)) for found, name in names]
        for found, attempt in known:
            if attempt is None or found.running or attempt.state not in ATTEMPT_TERMINAL:
                continue
            if (attempt.ended_at or now) < now - LET_GO_GRACE_S:
                place = _directory(service.settings.home, found.name)
                size = 0 if place is None else size_of(place)
                why = f"the attempt ended ({attempt.state}) and was not cleaned up"
                yield Leftover("attempt", found.handle, why, size, target=target)


def _directory(home: Path, name: str) -> Path | None:
    return next(home.glob(f"*/{layout.ATTEMPTS}/{name}"), None)


def size_of(directory: Path) -> int:
    """Bytes of the files below, as far as they can be counted."""
    total, pending = 0, [str(directory)]
    while pending:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
                    else:
                        total += entry.stat(follow_symlinks=False).st_size
        except OSError:  # gone meanwhile, or a path that is too long
            continue
    return total
