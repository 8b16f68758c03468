"""Checks a study's frozen inputs before the first trial: model, data, leaks into the evaluation.

Run as `python -P -m inner_trials.prepare` in a `prepare` attempt. Inputs: `base` (a model),
`split_*` (the evaluator's splits), and any other name but `code`, `source` and `resume` is data.
Options: `program` (rows must be fit for a built-in one), `tokenizer_sha256` and
`chat_template_sha256`, which the base's must be, `ngram`, and `max_contamination`, the share of a
split's items that may also be in the data. One JSON object on the score channel:
`{"ok": true, "rows": ..., "contamination": ...}` or `{"ok": false, "error": "..."}`, which has
`"contaminated": true` beside it when that was the reason. Standard library only.
"""

import hashlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from inner_trials import contamination, data, models, pairs, pins, prompts, reporting
from inner_trials.settings import SettingsError, at_least, read_settings

CODE: Final = frozenset({"code", "source", "resume"})
NOT_DATA: Final = CODE | {"base"}
SPLIT_PREFIX: Final = "split_"
CHUNK_BYTES: Final = 1024 * 1024
READERS: Final[Mapping[str, Callable[[Path], object]]] = {
    "sft": data.read_examples,
    "dpo": pairs.read_pairs,
    "grpo": prompts.read_prompts,
    "ppo": prompts.read_prompts,
    "reward_model": pairs.read_pairs,
    "rejection_sampling": prompts.read_prompts,
}
"""Of the inputs `train` and `heldout` of each built-in program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    program: str = "command"
    tokenizer_sha256: str = ""
    chat_template_sha256: str = ""
    ngram: int = at_least(1, default=13)
    max_contamination: float = at_least(0.0, default=0.0)


class ContaminatedError(ValueError):
    """Training data holds more of an evaluation split than the study allows."""


def main() -> int:
    try:
        document = reporting.document()
        settings = read_settings(Settings, {"options": document.get("options") or {}})
        report = inspect(settings, {n: Path(p) for n, p in document["inputs"].items()})
    except ContaminatedError as error:
        return refuse(error, contaminated=True)
    except (SettingsError, data.DataError, models.ModelError, OSError) as error:
        return refuse(error, contaminated=False)
    reporting.write_result({"ok": True, **report})
    return 0


def refuse(error: Exception, *, contaminated: bool) -> int:
    print(f"prepare: {error}", file=sys.stderr)
    body: dict[str, object] = {"ok": False, "error": str(error)}
    reporting.write_result(body | {"contaminated": True} if contaminated else body)
    return 0


def inspect(settings: Settings, inputs: Mapping[str, Path]) -> dict[str, object]:
    """The report on sound inputs.

    Raises:
        DataError, ModelError, ContaminatedError, OSError: the study must not start on these.
    """
    for name, path in inputs.items():
        if name not in CODE and not path.exists():
            raise FileNotFoundError(f"input {name}: there is nothing at {path}")
    report: dict[str, object] = {}
    if "base" in inputs:
        report["base"] = asdict(models.check_model(inputs["base"]))
        if settings.program in READERS:
            report["pins"] = pins.verify_pins(
                inputs["base"],
                tokenizer=settings.tokenizer_sha256,
                chat_template=settings.chat_template_sha256,
            )
            pins.check_vocabulary(inputs["base"])
    uninspected: dict[str, str] = {}
    splits = read_splits(settings, inputs, uninspected)
    names = sorted(n for n in inputs if n not in NOT_DATA and not n.startswith(SPLIT_PREFIX))
    rows = {
        name: read_through(settings, name, inputs[name], splits, uninspected) for name in names
    }
    report |= {"rows": rows, "files": {name: file_digests(inputs[name]) for name in names}}
    return report | {
        "uninspected": uninspected,
        "contamination": measure(splits, settings.max_contamination),
    }


def read_splits(
    settings: Settings, inputs: Mapping[str, Path], uninspected: dict[str, str]
) -> dict[str, contamination.Split]:
    splits = {}
    for name, path in sorted(inputs.items()):
        if name.startswith(SPLIT_PREFIX):
            try:
                split = contamination.Split(path, ngram=settings.ngram)
            except data.DataError as error:
                uninspected[name] = tolerated(error, is_required=settings.program in READERS)
            else:
                splits[name.removeprefix(SPLIT_PREFIX)] = split
    return splits


def read_through(
    settings: Settings,
    name: str,
    path: Path,
    splits: Mapping[str, contamination.Split],
    uninspected: dict[str, str],
) -> int | None:
    """Show every row to every split and count them; None for what is not rows."""
    count = 0
    reader = reader_of(settings.program, name)
    try:
        if reader is not None:
            reader(path)
        for row in data.read_rows(path):
            count += 1
            for split in splits.values():
                split.see(row.fields)
    except data.DataError as error:
        uninspected[name] = tolerated(error, is_required=reader is not None)
        return None
    return count


def reader_of(program: str, name: str) -> Callable[[Path], object] | None:
    """What checks the rows of an input; None for what may hold anything, such as a model."""
    if name == "fixed":
        return data.read_examples if program in READERS else None
    return READERS.get(program) if name in ("train", "heldout") else None


def tolerated(error: data.DataError, *, is_required: bool) -> str:
    """Only the built-in programs say what their rows look like; others may read anything."""
    if is_required:
        raise error
    return str(error)


def measure(splits: Mapping[str, contamination.Split], limit: float) -> dict[str, dict[str, Any]]:
    measured = {}
    for name, split in splits.items():
        overlap = split.overlap()
        measured[name] = asdict(overlap) | {"share": overlap.share}
        if overlap.share > limit:
            where = ", ".join(overlap.examples)
            raise ContaminatedError(
                f"{overlap.same_prompt + overlap.ngrams} of {overlap.items} items of the split"
                f" {name} are in the training data ({where}), {overlap.share:.2%} where"
                f" {limit:.2%} is allowed; take them out of the data"
            )
    names = sorted(splits)
    for index, name in enumerate(names):
        others = [splits[other].prompts() for other in names[:index]]
        shared = splits[name].prompts().intersection(frozenset().union(*others))
        measured[name]["also_in_other_splits"] = len(shared)
    return measured


def file_digests(path: Path) -> dict[str, str]:
    """sha256 of each file of an input, by its path below it."""
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    root = path.parent if path.is_file() else path
    return {file.relative_to(root).as_posix(): sha256(file) for file in files}


def sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


if __name__ == "__main__":
    sys.exit(main())
