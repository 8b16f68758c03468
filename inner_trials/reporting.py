"""What a program calls inside a trial: values out, settings in, stop, checkpoints, scores.

Standard library only, and every call also works when nothing was started by ARL: without its
environment variables reports go nowhere, settings are empty and outputs land below the working
directory.
"""

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn, SupportsFloat, SupportsIndex

from inner_trials import contract

_METRIC_NAME: Final = re.compile(r"[A-Za-z0-9_.\-]+(/[A-Za-z0-9_.\-]+)*")
_CHECKPOINT: Final = re.compile(r"checkpoint-(\d+)")
_UNFINISHED: Final = ".writing"


class MissingInput(KeyError):
    """The study mounts no input of that name."""

    def __str__(self) -> str:
        return str(self.args[0])


def report(
    step: SupportsIndex,
    values: Mapping[str, SupportsFloat] | None = None,
    /,
    **metrics: SupportsFloat,
) -> None:
    """Report values at a step: `report(10, loss=0.5)` or `report(10, {"train/loss": 0.5})`.

    Names are scoped with slashes. A value is a number or a numpy or torch scalar; NaN and
    infinities are passed on as they are. All lines of one call are appended in a single write,
    so that a program killed in between leaves no half of a batch.

    Raises:
        TypeError: a value is not one number.
        ValueError: a metric's name is not made of letters, digits, `_`, `.`, `-` and `/`.
    """
    batch = {**(values or {}), **metrics}
    lines = [
        json.dumps({"step": int(step), "metric": _checked_name(name), "value": _number(name, v)})
        for name, v in batch.items()
    ]
    path = os.environ.get(contract.REPORTS)
    if not lines or path is None:
        return
    _append(path, "".join(line + "\n" for line in lines).encode())


def should_stop() -> bool:
    """Whether the program was asked to save and leave. Cheap enough for every step."""
    path = os.environ.get(contract.STOP)
    return path is not None and os.path.exists(path)


def stop_and_exit() -> NoReturn:
    """Leave with the exit status that says: saved what there was, stopped because asked to."""
    sys.stdout.flush()
    sys.stderr.flush()
    raise SystemExit(contract.EXIT_STOPPED)


def document() -> dict[str, Any]:
    """The whole params document (its fields are described at contract.FORMAT); {} without ARL."""
    path = os.environ.get(contract.PARAMS)
    if path is None:
        return {}
    loaded = json.loads(Path(path).read_text(encoding="utf-8"))
    if not isinstance(loaded, dict):
        raise ValueError(f"{path} must hold a JSON object")
    return loaded


def params() -> dict[str, Any]:
    """This trial's settings: the study's fixed options, overridden by its parameters."""
    whole = document()
    return {**(whole.get("options") or {}), **(whole.get("parameters") or {})}


def seed(default: int = 0) -> int:
    """The seed of this trial, decided by the controller and never part of a search space."""
    return int(document().get("seed", default))


def input_path(name: str) -> Path:
    """Where the read-only input mounted as `name` is.

    Raises:
        MissingInput: the study mounts no such input.
    """
    inputs = document().get("inputs") or {}
    if name in inputs:
        return Path(inputs[name])
    root = os.environ.get(contract.INPUTS)
    if root is not None and (Path(root) / name).exists():
        return Path(root) / name
    known = ", ".join(sorted(inputs)) or "none"
    raise MissingInput(f"no input named {name!r}; there are: {known}")


def output_dir() -> Path:
    """The directory for results, made if need be: `model/` and `resume/` in it are collected."""
    path = Path(os.environ.get(contract.OUTPUT) or "output")
    path.mkdir(parents=True, exist_ok=True)
    return path


def model_dir() -> Path:
    """Where to write the model that is to be evaluated."""
    path = output_dir() / contract.MODEL_DIR
    path.mkdir(exist_ok=True)
    return path


def resume_dir() -> Path | None:
    """The newest whole checkpoint an earlier attempt of this trial left; None for a fresh start.

    It is read-only, and holds what the `write` of `save_checkpoint` had written.
    """
    given = document().get("resume")
    if given is None or not Path(given).is_dir():
        return None
    found = _checkpoints(Path(given))
    return found[-1][1] if found else Path(given)


def save_checkpoint(write: Callable[[Path], None]) -> Path:
    """Keep what `write(directory)` writes as the latest checkpoint, whole or not at all.

    It is written beside, made durable and renamed; earlier checkpoints are deleted after that.
    A program killed at any moment leaves the old one or the new one.
    """
    root = output_dir() / contract.RESUME_DIR
    root.mkdir(exist_ok=True)
    earlier = _checkpoints(root)
    resumed_from = resume_dir()
    known = [number for number, _ in earlier]
    if resumed_from is not None and (name := _CHECKPOINT.fullmatch(resumed_from.name)):
        known.append(int(name[1]))
    unfinished = root / _UNFINISHED
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir()
    write(unfinished)
    _make_durable(unfinished)
    final = root / f"checkpoint-{max(known, default=0) + 1}"
    unfinished.rename(final)
    _sync(root)
    for _, old in earlier:
        shutil.rmtree(old)
    return final


def write_scores(
    metrics: Mapping[str, SupportsFloat], items: Sequence[SupportsFloat] | None = None
) -> None:
    """Evaluator programs: hand over the scores, and per item those of the objective. Call once.

    Raises:
        ValueError: a score is not finite, or the document is longer than the channel takes.
    """
    body: dict[str, object] = {"metrics": {n: _number(n, v) for n, v in metrics.items()}}
    if items is not None:
        body["items"] = [_number("items", item) for item in items]
    write_result(body)


def write_result(body: Mapping[str, object]) -> None:
    """Prepare and evaluator programs: write one JSON object to the score channel and close it.

    Raises:
        ValueError: the object holds a number that is not finite, or is too long.
    """
    data = json.dumps(body, allow_nan=False).encode()
    if len(data) > contract.SCORE_BYTES:
        raise ValueError(f"{len(data)} bytes of scores; the limit is {contract.SCORE_BYTES}")
    descriptor = os.environ.get(contract.SCORE_FD)
    if descriptor is None:
        sys.stdout.write(data.decode() + "\n")
        return
    with os.fdopen(int(descriptor), "wb") as channel:
        channel.write(data)


def _checked_name(name: str) -> str:
    if len(name) > 200 or not _METRIC_NAME.fullmatch(name):
        raise ValueError(
            f"metric name {name!r}: use letters, digits, '_', '.', '-' and '/' between scopes"
        )
    return name


def _number(name: str, value: SupportsFloat) -> float:
    # numpy and torch scalars both have `item`, which refuses anything of more than one element.
    item = getattr(value, "item", None)
    try:
        plain = item() if callable(item) else value
    except (RuntimeError, ValueError) as error:
        raise TypeError(f"{name}: expected one number: {error}") from None
    if not isinstance(plain, int | float):
        raise TypeError(f"{name}: expected a number, not {type(plain).__name__}")
    return float(plain)


def _append(path: str, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
    finally:
        os.close(descriptor)


def _checkpoints(root: Path) -> list[tuple[int, Path]]:
    named = ((_CHECKPOINT.fullmatch(path.name), path) for path in root.iterdir())
    return sorted((int(match[1]), path) for match, path in named if match)


def _make_durable(root: Path) -> None:
    for path in [*_walk(root), root]:
        _sync(path)


def _walk(root: Path) -> Iterator[Path]:
    for path in root.iterdir():
        if path.is_dir() and not path.is_symlink():
            yield from _walk(path)
        yield path


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
