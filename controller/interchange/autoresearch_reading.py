"""Reads the run directory of autoresearch-rl 0.5: its manifests, one a trial, and its config."""

import csv
import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from controller.interchange.observed_space import Parameter
from controller.interchange.spool import MOST_TEXT, is_storable
from controller.steps.importing import ReportedTrial
from ledger.errors import InvalidInput, NotFound
from ledger.records import IntermediateValue, Json, ParamValue
from ledger.states import TrialState

RUN_MANIFEST: Final = "run-manifest.json"
_PLACES: Final = ("artifacts/runs", "runs", ".")
"""Where a run directory keeps its manifests, as far as its own settings do not say."""
_LEDGERS: Final = ("artifacts/results.tsv", "results.tsv")
_FILE_BYTES: Final = 16 * 1024 * 1024
_NAME_CHARS: Final = 200
_DETAIL_CHARS: Final = 500
_STATES: Final[Mapping[str, TrialState]] = {
    "ok": TrialState.COMPLETE,
    "cancelled": TrialState.PRUNED,
}


@dataclass
class AutoresearchRun:
    """One episode of a run directory."""

    directory: Path
    manifests: Path
    episode: str
    metric: str
    maximizes: bool
    declared: dict[str, Parameter]
    others: tuple[str, ...]
    """Other episodes whose manifests are there too."""
    paths: list[Path] = field(default_factory=list)
    """This episode's manifests, by iteration."""
    missing: int = 0
    """Rows of its results file that have no manifest."""
    name: str = ""


def find_run(directory: Path, episode: str | None) -> AutoresearchRun:
    """The episode called `episode`, else the one that its run manifest is about.

    Raises:
        NotFound: it has no such episode.
        InvalidInput: this is no run directory, or its manifests contradict each other.
    """
    place = _manifests(directory)
    about = _read_object(place / RUN_MANIFEST)
    config = _mapping(about.get("config"), "run-manifest.json: config")
    chosen = episode or str(about.get("run_id") or "")
    found = _episodes(place)
    if chosen not in found and (episode is not None or found):
        names = ", ".join(ascii(name) for name in sorted(found)[:10]) or "none"
        raise NotFound(f"--study: {directory} has no episode {chosen!a}; it has: {names}")
    metric, maximizes = _objective(config)
    paths = [path for _, path in sorted(found.get(chosen, {}).items())]
    return AutoresearchRun(
        directory=directory,
        manifests=place,
        episode=chosen,
        metric=metric,
        maximizes=maximizes,
        declared=_declared(config),
        others=tuple(sorted(set(found) - {chosen})),
        paths=paths,
        missing=_missing(directory, chosen, set(found.get(chosen, {}))),
        name=f"{directory.resolve().name}-{chosen}" if chosen else directory.resolve().name,
    )


def _manifests(directory: Path) -> Path:
    for place in _PLACES:
        if (directory / place / RUN_MANIFEST).is_file():
            return directory / place
    raise InvalidInput(
        f"autoresearch-rl: {directory} has no {_PLACES[0]}/{RUN_MANIFEST}: name the directory "
        "in which `autoresearch-rl run` was started, or its artifacts directory"
    )


def _episodes(place: Path) -> dict[str, dict[int, Path]]:
    """Manifest by episode and iteration. Raises InvalidInput."""
    found: dict[str, dict[int, Path]] = {}
    with os.scandir(place) as entries:
        folders = sorted(entry.path for entry in entries if entry.is_dir(follow_symlinks=False))
    for folder in folders:
        path = Path(folder) / "manifest.json"
        if path.is_symlink() or not path.is_file():
            continue
        manifest = _read_object(path)
        number = manifest.get("iter")
        if type(number) is not int or number < 0:
            raise InvalidInput(f"{path}: iter: {_shown(number)}: a whole number from 0 upwards")
        of_episode = found.setdefault(str(manifest.get("episode_id")), {})
        if number in of_episode:
            raise InvalidInput(f"{path}: iter {number} is in {of_episode[number]} already")
        of_episode[number] = path
    return found


def _missing(directory: Path, episode: str, numbers: set[int]) -> int:
    for place in _LEDGERS:
        path = directory / place
        if path.is_file():
            try:
                with path.open(encoding="utf-8", newline="") as stream:
                    rows = csv.DictReader(stream, delimiter="\t")
                    listed = {row.get("iter") for row in rows if row.get("episode_id") == episode}
            except (OSError, UnicodeDecodeError, csv.Error) as error:
                raise InvalidInput(f"{path}: cannot be read: {error}") from error
            return len(listed - {str(number) for number in numbers})
    return 0


def read_trials(run: AutoresearchRun) -> Iterator[ReportedTrial]:
    """Every trial by number. Raises InvalidInput, naming the file, for one that is damaged."""
    for path in run.paths:
        manifest = _read_object(path)
        try:
            yield _trial(run, path, manifest)
        except (ValueError, TypeError, OverflowError) as error:
            raise InvalidInput(f"{path}: {ascii(str(error))[1:-1][:200]}") from error


def _trial(run: AutoresearchRun, path: Path, manifest: Mapping[str, Any]) -> ReportedTrial:
    number, status = manifest["iter"], str(manifest.get("status"))
    metrics = {
        name: float(value)
        for name, value in _mapping(manifest.get("metrics"), "metrics").items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    state = _STATES.get(status, TrialState.FAILED)
    value = metrics.get(run.metric)
    scored = state is TrialState.COMPLETE and value is not None and math.isfinite(value)
    if state is TrialState.COMPLETE and not scored:
        state = TrialState.FAILED
    ended = manifest.get("ts")
    origin = {"status": status, "decision": manifest.get("decision"), "metrics": metrics}
    text = json.dumps(origin)
    return ReportedTrial(
        number=number,
        state=state,
        detail=_detail(run, state, status, manifest, value),
        params=_params(_mapping(manifest.get("params"), "params")),
        values={} if value is None else {run.metric: value},
        curve=_curve(run, path, number),
        started_at=None,
        ended_at=float(ended) if isinstance(ended, int | float) else None,
        origin=text if len(text) <= MOST_TEXT else "{}",
    )


def _detail(
    run: AutoresearchRun,
    state: TrialState,
    status: str,
    manifest: Mapping[str, Any],
    value: float | None,
) -> str:
    if state is TrialState.COMPLETE:
        return f"autoresearch-rl: {manifest.get('decision')}"
    said = "" if value is None else f"; what it reported of {run.metric}, {value:g}, is no score"
    words = f"autoresearch-rl: {status}{said}"
    tail = str(manifest.get("stderr") or "").strip()[-_DETAIL_CHARS:]
    text = f"{words}\n{tail}" if tail else words
    return text.encode("utf-8", "replace").decode()


def _params(given: Mapping[str, Any]) -> dict[str, ParamValue]:
    """Values that ARL knows as they are; others as JSON."""
    params: dict[str, ParamValue] = {}
    for name, value in given.items():
        simple = isinstance(value, bool | int) or (isinstance(value, str) and is_storable(value))
        finite = isinstance(value, float) and math.isfinite(value)
        params[name] = value if simple or finite else json.dumps(value)
    return params


def _curve(run: AutoresearchRun, path: Path, number: int) -> tuple[IntermediateValue, ...]:
    """What the trial reported on the way; torn lines, as a kill leaves them, are passed over."""
    file = run.manifests / f"run-{number:04d}" / "progress.jsonl"
    inside = file.resolve().is_relative_to(run.manifests.resolve())
    if not inside or not file.is_file():
        return ()
    values: list[IntermediateValue] = []
    for line in _read_text(file).splitlines():
        try:
            said = json.loads(line)
            step, metrics = said["step"], said["metrics"]
            reported = {str(name): float(value) for name, value in metrics.items()}
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
            continue
        if type(step) is int:
            values += [
                IntermediateValue(step=step, metric=name, value=value)
                for name, value in sorted(reported.items())
                if is_storable(name) and "\0" not in name and 0 < len(name) <= _NAME_CHARS
            ]
    return tuple(values)


# --- its config --------------------------------------------------------------------------------


def _objective(config: Mapping[str, Any]) -> tuple[str, bool]:
    objective = _mapping(config.get("objective"), "run-manifest.json: config.objective")
    metric, direction = objective.get("metric"), objective.get("direction")
    storable = isinstance(metric, str) and is_storable(metric) and "\0" not in metric
    if not storable or not 0 < len(str(metric)) <= _NAME_CHARS:
        raise InvalidInput(f"config.objective.metric: {_shown(metric)}: it must be a name")
    if direction not in ("min", "max"):
        raise InvalidInput(f"config.objective.direction: {_shown(direction)}: min or max")
    return str(metric), direction == "max"


def _declared(config: Mapping[str, Any]) -> dict[str, Parameter]:
    """The values its policy chooses from, where they are listed."""
    policy = config.get("policy")
    lists = policy.get("params") if isinstance(policy, dict) else None
    found: dict[str, Parameter] = {}
    for name, values in lists.items() if isinstance(lists, dict) else ():
        if isinstance(values, list) and len(values) > 1:
            choices: list[ParamValue] = []
            for value in _params({str(i): value for i, value in enumerate(values)}).values():
                if not any(type(c) is type(value) and c == value for c in choices):
                    choices.append(value)
            found[str(name)] = {"type": "categorical", "choices": [*choices]}
    return found


# --- files -------------------------------------------------------------------------------------


def _read_text(path: Path) -> str:
    try:
        if path.stat().st_size > _FILE_BYTES:
            raise InvalidInput(f"{path}: larger than {_FILE_BYTES} bytes, so not imported")
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path}: cannot be read: {error}") from error


def _read_object(path: Path) -> dict[str, Any]:
    try:
        return _mapping(json.loads(_read_text(path)), path.name)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{path}: this is not JSON: {error}") from error


def _mapping(value: object, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidInput(f"{what}: {_shown(value)}: it must be an object")
    return value


def _shown(value: Json | object) -> str:
    return ascii(value)[:60]
