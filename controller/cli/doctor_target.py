"""`arl doctor --target`: one target, tried through its contract; nothing of it stays."""

import contextlib
import fcntl
import hashlib
import os
import platform
import select
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from controller.cli.output import CHECK_FAILED, OK, console, print_json, table
from controller.cli.text import plain
from controller.places import options_of, place_of
from controller.settings import Settings
from controller.spec.target import TargetSpec
from ledger.artifacts import ArtifactStore
from ledger.errors import Conflict, TargetUnavailable
from ledger.records import Json
from targets.conformance.setting import Setup
from targets.conformance.suite import choose, run_checks
from targets.conformance.verdicts import Finding, Outcome
from targets.promises import promises_of
from targets.protocol import Target
from targets.registry import Place, make_target, problem_of

FOLDER: Final = "doctor"
"""Below ARL_HOME: no study's target is ever there."""
ARTIFACTS: Final = "artifacts"
LOCK: Final = "lock"
WORK: Final = "work"
PREFIX: Final = "arl-doctor-"
_END_PATIENCE_S: Final = 5.0
_WORDS: Final = {
    Outcome.HOLDS: "hold",
    Outcome.FAILS: "fail",
    Outcome.NOT_PROMISED: "not promised",
    Outcome.UNCHECKED: "cannot be checked here",
}
_MARKS: Final = {
    Outcome.HOLDS: "ok",
    Outcome.FAILS: "FAIL",
    Outcome.NOT_PROMISED: "no",
    Outcome.UNCHECKED: "?",
}


def try_target(
    spec: TargetSpec, settings: Settings, *, python: str, only: Sequence[str], as_json: bool
) -> int:
    """Run the checks and tell what they found.

    Raises TargetUnavailable, InvalidInput, UnknownName, and Conflict while another one runs.
    """
    checks = choose(only)
    options = options_of(spec, settings)
    problem = problem_of(spec.name, options)
    if problem is not None:
        raise TargetUnavailable(f"target {spec.name}: {problem}")
    started, count = time.monotonic(), 0

    def told(finding: Finding) -> None:
        nonlocal count
        count += 1
        progress = f"{count}/{len(checks) + 1} {_MARKS[finding.outcome]:<4} {finding.check}"
        print(f"{progress} ({finding.took_s:.1f} s)", file=sys.stderr, flush=True)

    with (
        _place(spec, settings) as place,
        _work(settings.home / FOLDER) as work,
        _ended_by_sigterm(),
    ):
        setup = Setup(
            open_target=lambda: make_target(spec.name, place),
            shelf=_shelf(place),
            work=work,
            owner=_owner(settings, place),
            python=python,
            image=spec.image,
            options=_attempt_options(spec),
            roots=(place.root,),
        )
        promises = _promises(setup)
        findings = run_checks(
            setup, checks, told=told, note=lambda text: print(text, file=sys.stderr, flush=True)
        )
    document = _document(spec, options, python, promises, findings)
    document["took_s"] = round(time.monotonic() - started, 3)
    if as_json:
        print_json(document)
    else:
        _print(spec, findings, float(time.monotonic() - started))
    return OK if document["ok"] else CHECK_FAILED


def python_of(chosen: str | None, spec: TargetSpec) -> str:
    """How `{python}` is called where the target's attempts run, unless it was said."""
    is_here = spec.image is None and spec.name not in ("http", "ray")
    return chosen or (sys.executable if is_here else "python3")


def _attempt_options(spec: TargetSpec) -> dict[str, Json]:
    """As controller.steps.attempt_specs gives them to attempts."""
    options: dict[str, Json] = {}
    if spec.runtime is not None:
        options["runtime"] = spec.runtime
    if spec.resources:
        options["resources"] = dict(spec.resources)
    return options


# the place


@contextlib.contextmanager
def _place(spec: TargetSpec, settings: Settings) -> Iterator[Place]:
    """A place of the doctor's own, the same for every run so that one finds what a killed one
    left; gone afterwards, unless what is in it still runs."""
    is_new = not settings.home.exists()
    folder = settings.home / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with _locked(folder):
            own = replace(settings, home=folder)
            store = ArtifactStore(folder / ARTIFACTS)
            place = place_of(spec.name, options_of(spec, settings), own, store)
            try:
                yield place
            finally:
                _end_supervisor(place.root)
                shutil.rmtree(place.root, ignore_errors=True)
                _tidy(folder)
    finally:
        if is_new:
            with contextlib.suppress(OSError):
                settings.home.rmdir()


def _tidy(folder: Path) -> None:
    """Delete it, unless a killed run of another target left something in it."""
    if {path.name for path in folder.iterdir()} <= {ARTIFACTS, LOCK, WORK}:
        shutil.rmtree(folder, ignore_errors=True)


def _owner(settings: Settings, place: Place) -> str:
    text = f"{settings.host} {place.root}"
    return f"doctor-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def _shelf(place: Place) -> ArtifactStore:
    if not isinstance(place.store, ArtifactStore):
        raise TypeError(f"{place.store!r} keeps no trees")
    return place.store


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One run at a time: it ends whatever else is there. Raises Conflict."""
    while True:
        descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_same(descriptor, folder / LOCK):
                yield
                return
            folder.mkdir(parents=True, exist_ok=True)  # the one before deleted it just now
        except BlockingIOError:
            raise Conflict(
                f"another `arl doctor --target` runs in {folder}: wait for it, or set ARL_HOME"
            ) from None
        finally:
            os.close(descriptor)


def _is_same(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _end_supervisor(root: Path) -> None:
    """Nobody will need the one that the checks started."""
    from targets.supervisor_link import Connection

    try:
        connection = Connection(str(root))
    except OSError:
        return  # this target has none
    pid = int(connection.hello["pid"])
    connection.close()
    if pid == os.getpid():
        return
    with contextlib.suppress(OSError):
        waiting = os.pidfd_open(pid)
        os.kill(pid, signal.SIGTERM)
        select.select([waiting], [], [], _END_PATIENCE_S)
        os.close(waiting)


@contextlib.contextmanager
def _work(folder: Path) -> Iterator[Path]:
    """Outside of ARL's own directories, where anybody may read: what a program must not find.
    That of a killed run is deleted, by the note it left."""
    note = folder / WORK
    with contextlib.suppress(OSError):
        old = Path(note.read_text(encoding="utf-8"))
        if old.name.startswith(PREFIX) and old.lstat().st_uid == os.geteuid():
            shutil.rmtree(old, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=PREFIX) as work:
        note.write_text(work, encoding="utf-8")
        Path(work).chmod(0o755)
        yield Path(work)
    note.unlink(missing_ok=True)


@contextlib.contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """As Ctrl-C does, so that nothing is left then either."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


# what is told


def _promises(setup: Setup) -> list[Json]:
    target: Target = setup.open_target()
    try:
        said = promises_of(target)
    finally:
        target.close()
    return [
        {"subject": str(subject), "kept_by": str(promise.kept_by), "words": promise.words}
        for subject, promise in said.items()
    ]


def _document(
    spec: TargetSpec,
    options: dict[str, str],
    python: str,
    promises: list[Json],
    findings: Sequence[Finding],
) -> dict[str, Json]:
    counts = Counter(str(finding.outcome) for finding in findings)
    return {
        "target": spec.name,
        "options": dict(options),
        "image": spec.image,
        "python": python,
        "host": platform.node(),
        "ok": counts[Outcome.FAILS] == 0,
        "counts": {str(outcome): counts[outcome] for outcome in Outcome},
        "promises": promises,
        "checks": [
            {
                "name": finding.check,
                "claim": finding.claim,
                "outcome": str(finding.outcome),
                "detail": finding.detail,
                "kept_by": finding.kept_by or None,
                "took_s": finding.took_s,
            }
            for finding in findings
        ],
    }


def _print(spec: TargetSpec, findings: Sequence[Finding], took_s: float) -> None:
    rows = [(f.check, str(f.outcome), f.kept_by, plain(f.detail)) for f in findings]
    console().print(table("check", "result", "kept by", "what was seen", rows=rows))
    counts = Counter(finding.outcome for finding in findings)
    told = ", ".join(f"{counts[outcome]} {word}" for outcome, word in _WORDS.items())
    print(f"target {spec.name}: {told}; {took_s:.1f} s")
    for finding in findings:
        if finding.outcome is Outcome.FAILS:
            print(f"does not hold: {finding.claim} ({finding.check}): {plain(finding.detail)}")
