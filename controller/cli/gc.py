"""`arl gc`: lets go of what retention does not keep, and takes away what nothing needs."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

import typer

from controller.cli.gc_leftovers import Leftover, find_leftovers, take_away, trees_in_use
from controller.cli.naming import find_study
from controller.cli.opening import actor, service_opened
from controller.cli.output import OK, print_json
from controller.cli.text import duration, plain, size
from controller.spec.quantities import parse_duration_s
from controller.spec.retention import Policy, parse_policy
from controller.wiring import Service
from controller.worker.releasing import Released, Skipped, find_released, release
from ledger.errors import InvalidInput
from ledger.records import ArtifactRole, Json
from ledger.saved_reads import studies_with_checkpoints
from ledger.unneeded import Graces, Unneeded, Why, discard, find_unneeded
from ledger.witness import check_alone

StudyName = Annotated[
    str | None, typer.Argument(metavar="[STUDY]", help="only this study's; default: everything")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="only say what would go, and why")]
Checkpoints = Annotated[
    str | None,
    typer.Option(
        metavar="POLICY",
        help="keep so much whatever the study file says: all, none, last or best-K",
    ),
]
Grace = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="what nobody used for so long may go; default: 10m, 24h of what nothing names",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="print one JSON object, and nothing else")]
SHORT = 12


@dataclass(slots=True, kw_only=True)
class Found:
    """What goes, or would."""

    released: Sequence[Released] = ()
    skipped: Sequence[Skipped] = ()
    files: Sequence[Unneeded] = ()
    leftovers: Sequence[Leftover] = ()
    freed: int = 0
    waiting: int = field(default=0)

    def count(self) -> None:
        """What is to be freed now and later."""
        self.freed = sum(f.size_bytes for f in self.files if not f.wait_s)
        self.freed += sum(one.size_bytes for one in self.leftovers)
        self.waiting = sum(f.size_bytes for f in self.files if f.wait_s)


def gc(
    study: StudyName = None,
    *,
    dry_run: DryRun = False,
    checkpoints: Checkpoints = None,
    grace: Grace = None,
    as_json: AsJson = False,
) -> int:
    """Let go of checkpoints that a study's `retention` does not keep, and free what nothing needs
    any more: files of the store, logs that are too long, cut uploads, leftovers of attempts.

    What is promoted, leads, is being judged or converted, or is named elsewhere stays. It may run
    beside workers and a server: what somebody stored or used in the last ten minutes (a day, where
    nothing ever named it) waits. A shorter --grace is for when nothing else of ARL runs here.
    """
    graces = Graces() if grace is None else _graces(grace)
    wanted = None if checkpoints is None else _policy(checkpoints)
    with service_opened() as service:
        check_alone(service.settings.home, service.ledger.id, service.ledger.address)
        with service.ledger.read() as session:
            ids = list(studies_with_checkpoints(session))
            chosen = None if study is None else find_study(session, study).id
        if chosen is not None:
            ids = [found for found in ids if found == chosen]
        look = _look if dry_run else _collect
        found = look(_Asked(service, ids, chosen, wanted, graces))
    if as_json:
        print_json(_document(found, dry_run=dry_run))
    else:
        _print(found, dry_run=dry_run)
    return OK


@dataclass(frozen=True, slots=True)
class _Asked:
    service: Service
    ids: Sequence[str]
    """Studies of which something is kept."""
    chosen: str | None
    """The one study that is meant; None: all, and what belongs to none."""
    wanted: Policy | None
    graces: Graces


def _graces(text: str) -> Graces:
    try:
        seconds = parse_duration_s(text)
    except ValueError as error:
        raise InvalidInput(f"--grace {plain(text)!r}: {error}") from error
    return Graces(let_go_s=seconds, orphan_s=seconds)


def _policy(text: str) -> Policy:
    try:
        return parse_policy(text)
    except ValueError as error:
        raise InvalidInput(f"--checkpoints {plain(text)!r}: {error}") from error


def _look(asked: _Asked) -> Found:
    released, skipped = find_released(asked.service, asked.ids, asked.wanted)
    found = Found(
        released=released,
        skipped=skipped,
        files=_files(asked, [key for one in released for key in one.keys()]),
        leftovers=find_leftovers(asked.service, asked.chosen),
    )
    found.count()
    return found


def _collect(asked: _Asked) -> Found:
    service = asked.service
    wish, unread = find_released(service, asked.ids, asked.wanted)
    released, driven = release(service, wish, asked.wanted, actor())
    found = Found(
        released=released,
        skipped=[*unread, *driven],
        files=_files(asked),
        leftovers=find_leftovers(service, asked.chosen),
    )
    found.count()
    found.freed = discard(service.store, found.files) + take_away(found.leftovers)
    return found


def _files(asked: _Asked, also: Sequence[tuple[str, ArtifactRole, str]] = ()) -> list[Unneeded]:
    """Of the store. What nothing names belongs to no study."""
    service = asked.service
    with service.ledger.read() as session:
        return find_unneeded(
            session,
            service.store,
            orphans=asked.chosen is None,
            also_needed=trees_in_use(service.settings.home),
            also_let_go=also,
            graces=asked.graces,
        )


def _document(found: Found, *, dry_run: bool) -> dict[str, Json]:
    artifacts: list[Json] = [
        {
            "study": one.study_id,
            "trial": went.saved.trial_id,
            "role": str(went.saved.role),
            "digest": went.saved.digest,
            "size_bytes": went.saved.size_bytes,
            "reason": str(went.reason),
            "policy": str(one.policy),
        }
        for one in found.released
        for went in one.found
    ]
    files: list[Json] = [
        {
            "digest": one.digest,
            "why": str(one.why),
            "is_checkout": one.is_checkout,
            "size_bytes": one.size_bytes,
            "wait_s": one.wait_s,
        }
        for one in found.files
    ]
    leftovers: list[Json] = [
        {"kind": o.kind, "name": o.name, "why": o.why, "size_bytes": o.size_bytes}
        for o in found.leftovers
    ]
    return {
        "dry_run": dry_run,
        "artifacts": artifacts,
        "files": files,
        "leftovers": leftovers,
        "skipped": [{"study": s.study_id, "why": s.why} for s in found.skipped],
        "freed_bytes": found.freed,
        "waiting_bytes": found.waiting,
    }


def _print(found: Found, *, dry_run: bool) -> None:
    for one in found.released:
        for went in one.found:
            saved = went.saved
            why = str(went.reason).replace("_", " ")
            print(
                f"{saved.role} {saved.digest[:SHORT]} of trial {saved.trial_id}: "
                f"{one.policy}: {why} ({size(saved.size_bytes)})"
            )
    for skipped in found.skipped:
        print(f"study {skipped.study_id}: left alone: {plain(skipped.why)}")
    for file in found.files:
        _print_file(file)
    for left in found.leftovers:
        print(f"{left.kind} {plain(left.name)}: {left.why} ({size(left.size_bytes)})")
    verb = "would be freed" if dry_run else "freed"
    print(f"{size(found.freed)} {verb}" + _later(found))


def _print_file(file: Unneeded) -> None:
    what = "checkout" if file.is_checkout else "file"
    why = "its tree was let go" if file.why is Why.LET_GO else "nothing names it"
    wait = f"; goes in {duration(file.wait_s)}" if file.wait_s else ""
    print(f"{what} {file.digest[:SHORT]}: {why} ({size(file.size_bytes)}){wait}")


def _later(found: Found) -> str:
    if not found.waiting:
        return ""
    longest = max(file.wait_s for file in found.files)
    return f"; {size(found.waiting)} more once nobody needed it for {duration(longest)}"
