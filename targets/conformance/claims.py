"""Checks of what a target says of itself: that it is a sandbox, and what it gives a program."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from targets.conformance import inside
from targets.conformance.stage import Stage
from targets.conformance.verdicts import Check, Judged, Unchecked, judged
from targets.promises import Keeper, Promise, Subject


def judge_gpus(log: str) -> list[str]:
    seen = [line.removeprefix("gpu ") for line in log.splitlines() if line.startswith("gpu ")]
    return [f"without any it sees {', '.join(seen)}"] if seen else []


def _gpus(stage: Stage) -> Judged:
    if stage.is_here() and not list(Path("/dev").glob("nvidia[0-9]*")):
        raise Unchecked("this machine has no GPU")
    log = stage.log(stage.run(inside.GPUS).handle)
    return judged(judge_gpus(log), "none is visible to an attempt that has none")


def judge_image(pinned: str, fingerprint: str) -> list[str]:
    digest = pinned.rpartition("sha256:")[2]
    if "sha256:" not in pinned or len(digest) != 64:
        return [f"the image was pinned as {pinned!r}, which is no digest"]
    if digest not in fingerprint:
        return [f"the fingerprint {fingerprint!r} does not name the image's digest"]
    return []


def _image(stage: Stage) -> Judged:
    if stage.setup.image is None:
        raise Unchecked("no image was named: give one with --image")
    program = stage.pinned()
    again = stage.target.pin(program)
    problems = judge_image(program.image or "", stage.target.fingerprint(program))
    if again.image != program.image:
        problems.append(f"pinned again it is another: {again.image!r}")
    if stage.run("exit 0").exit.code != 0:
        problems.append("a program of it does not run")
    return judged(problems, program.image or "")


_OF_A_SANDBOX: Final = (
    Subject.NETWORK,
    Subject.HOST_FILES,
    Subject.READ_ONLY,
    Subject.OTHER_PROCESSES,
    Subject.PRIVATE_SCRATCH,
    Subject.ENVIRONMENT,
    Subject.TREE_KILLED,
    Subject.CLOCK,
    Subject.DEADLINE,
)


def judge_sandbox(promises: Mapping[Subject, Promise]) -> list[str]:
    """What a target that lets patches of a model run must promise."""
    refused = [str(s) for s in _OF_A_SANDBOX if promises[s].kept_by is Keeper.NO]
    if not refused:
        return []
    return [f"it says that it is a sandbox and does not promise {', '.join(refused)}"]


def _sandbox(stage: Stage) -> Judged:
    if not stage.target.is_sandbox:
        return judged([], "it does not say so: code of a model is refused here")
    return judged(judge_sandbox(stage.promises), "it says so, and promises what that takes")


CHECKS: Final = (
    Check(
        name="sandbox",
        claim="a target that is said to hold hostile code promises what that takes",
        run=_sandbox,
    ),
    Check(
        name="gpus",
        claim="an attempt without a GPU sees none",
        run=_gpus,
        subjects=(Subject.GPUS,),
    ),
    Check(
        name="image",
        claim="the image is used by its digest",
        run=_image,
        subjects=(Subject.IMAGES,),
    ),
)
