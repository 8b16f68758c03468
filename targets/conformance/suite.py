"""Runs every check on one target, several at once, and leaves nothing of them."""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from os import environ  # one variable is set in it, for programs not to find
from typing import Final

from ledger.errors import UnknownName
from targets import layout
from targets.conformance import claims, ends, identity, limits, network, reach, streams, trees
from targets.conformance.canaries import SECRET_NAME, left_behind
from targets.conformance.setting import Cancelled, Setup
from targets.conformance.stage import END_PATIENCE_S, Stage
from targets.conformance.verdicts import Check, Finding, Outcome, Unchecked
from targets.promises import Keeper, Promise

CHECKS: Final[Mapping[str, Check]] = {
    check.name: check
    for part in (claims, ends, identity, limits, streams, network, reach, trees)
    for check in part.CHECKS
}
LAST: Final = "nothing left"
LAST_CLAIM: Final = "after all of it no attempt, file, mount or control group is left"
AT_ONCE: Final = 4


def choose(names: Collection[str]) -> list[Check]:
    """The checks of these names; all when there are none. Raises UnknownName."""
    for name in names:
        if name not in CHECKS:
            known = ", ".join(CHECKS)
            raise UnknownName(f"check {name!r} is not known: write one of {known}")
    return [check for name, check in CHECKS.items() if not names or name in names]


def run_checks(
    setup: Setup,
    checks: Sequence[Check],
    *,
    told: Callable[[Finding], None] = lambda _: None,
    note: Callable[[str], None] = lambda _: None,
) -> list[Finding]:
    """What each found, in the order of `checks`, and last whether anything is left; `told` hears
    of each as it ends. An interrupt ends and releases every attempt before it goes on.

    Raises TargetUnavailable, and InvalidInput for an image that there is not.
    """
    with _secret() as secret:
        stage = Stage(setup, secret)
        try:
            old = stage.clear()
            if old:
                note(f"ended and deleted {len(old)} attempts that an earlier run left")
            stage.pinned()
            findings = _run_all(stage, checks, told)
            last = _nothing_left(stage)
            told(last)
            return [*findings, last]
        finally:
            stage.cancel()
            stage.clear()
            stage.close()


@contextmanager
def _secret() -> Iterator[str]:
    """A value in this process's environment that no program may find."""
    secret = f"{time.time_ns():x}-canary"
    environ[SECRET_NAME] = secret
    try:
        yield secret
    finally:
        environ.pop(SECRET_NAME, None)


def _run_all(
    stage: Stage, checks: Sequence[Check], told: Callable[[Finding], None]
) -> list[Finding]:
    found: dict[str, Finding] = {}

    def keep(finding: Finding) -> None:
        found[finding.check] = finding
        told(finding)

    for check in checks:
        if check.alone:
            keep(_try(stage, check))
    pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="arl-doctor")
    try:
        running = {pool.submit(_try, stage, check) for check in checks if not check.alone}
        while running:
            ended: set[Future[Finding]]
            ended, running = wait(running, timeout=0.2, return_when=FIRST_COMPLETED)
            for future in ended:
                keep(future.result())
    finally:
        stage.cancel()
        pool.shutdown(wait=True, cancel_futures=True)
        stage.go_on()
    return [found[check.name] for check in checks]


def _try(stage: Stage, check: Check) -> Finding:
    started = time.monotonic()
    promise = _weakest(stage, check)
    if promise is not None and promise.kept_by is Keeper.NO:
        outcome, detail = Outcome.NOT_PROMISED, promise.words
    else:
        outcome, detail = _run(stage, check)
    return Finding(
        check=check.name,
        claim=check.claim,
        outcome=outcome,
        detail=layout.one_line(detail),
        kept_by="" if promise is None else str(promise.kept_by),
        took_s=round(time.monotonic() - started, 3),
    )


def _run(stage: Stage, check: Check) -> tuple[Outcome, str]:
    try:
        judged = check.run(stage)
    except Unchecked as reason:
        return Outcome.UNCHECKED, str(reason)
    except Cancelled:
        return Outcome.UNCHECKED, "it was cancelled"
    except Exception as error:  # noqa: BLE001 - whatever a target raises is a finding about it
        return Outcome.FAILS, f"{type(error).__name__}: {error}"
    if judged.problems:
        return Outcome.FAILS, "; ".join(judged.problems)
    return Outcome.HOLDS, judged.seen


def _weakest(stage: Stage, check: Check) -> Promise | None:
    """What the target says of the check's subjects: a refusal of any counts."""
    said = [stage.promises[subject] for subject in check.subjects]
    refused = [promise for promise in said if promise.kept_by is Keeper.NO]
    return next(iter(refused + said), None)


def judge_nothing_left(
    strangers: Sequence[str], listed: Sequence[str], left: Sequence[str]
) -> str:
    """What is wrong, in one line; empty when nothing is left."""
    problems = []
    if strangers:
        problems.append(f"it ran attempts that nobody launched: {', '.join(strangers)}")
    if listed:
        problems.append(f"list_owned still has {', '.join(listed)}")
    if left:
        problems.append(f"left on this machine: {', '.join(left[:5])}")
    return "; ".join(problems)


def _nothing_left(stage: Stage) -> Finding:
    started = time.monotonic()
    strangers = stage.clear()
    until = started + END_PATIENCE_S
    while True:  # what is released may be deleted in the background
        listed = [f.name for f in stage.target.list_owned(stage.setup.owner)]
        left = left_behind(stage.setup.roots, stage.token)
        if not (listed or left) or time.monotonic() > until:
            break
        time.sleep(0.2)
    problem = judge_nothing_left(strangers, listed, left)
    return Finding(
        check=LAST,
        claim=LAST_CLAIM,
        outcome=Outcome.FAILS if problem else Outcome.HOLDS,
        detail=layout.one_line(problem) or f"{len(stage.known)} attempts came and went",
        took_s=round(time.monotonic() - started, 3),
    )
