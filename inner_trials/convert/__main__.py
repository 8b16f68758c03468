"""Converts a stored model, as one attempt of a trial: `python -m inner_trials.convert`.

Inputs: `artifact`, what a program left below output/model; `base`, for merge and keep; `train`,
for gptq and awq. Options: `method`, `group_size`, `calibration_rows`. The converted model is
written to output/model with the artifact's tokenizer. Runs no code of the model's.
"""

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from inner_trials import models, reporting, training
from inner_trials.convert import adapter, calibrated, weight_only
from inner_trials.models import ModelError
from inner_trials.settings import at_least, read_settings

Method: TypeAlias = Literal["merge", "keep", "int8", "int4", "gptq", "awq"]
SHARED: Final = (
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"),
    *("chat_template.jinja", "vocab.json", "merges.txt", "tokenizer.model"),
)
"""Files of the artifact that stay as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    method: Method
    group_size: int = at_least(1, default=32)
    """int4, gptq, awq: weights that share a scale."""
    calibration_rows: int = at_least(1, default=128)
    """gptq, awq: rows of `train` that the model is shown."""


@dataclass(frozen=True, slots=True)
class Job:
    wanted: Settings
    artifact: Path
    output: Path


def prepare(document: Mapping[str, Any]) -> Job:
    """Check everything that can be checked before a library is imported.

    Raises:
        SettingsError, ModelError, MissingInput: naming what is wrong and what to do.
    """
    wanted = read_settings(Settings, document)
    artifact = reporting.input_path("artifact")
    models.check_model(artifact)
    if models.read_json(artifact / "config.json").get("quantization_config"):
        raise ModelError(
            "artifact/config.json: the model is quantised already; convert the one that it was"
            " made from"
        )
    CHECKS[wanted.method](artifact, wanted.group_size)
    return Job(wanted, artifact, reporting.model_dir())


def _check_adapter(artifact: Path, _group_size: int) -> None:
    adapter.check(artifact, reporting.input_path("base"))


CHECKS: Final[Mapping[str, Callable[[Path, int], None]]] = {
    "merge": _check_adapter,
    "keep": _check_adapter,
    "int8": lambda artifact, _: weight_only.check(artifact, None),
    "int4": lambda artifact, group_size: weight_only.check(artifact, group_size),
    "gptq": calibrated.check,
    "awq": calibrated.check,
}


def convert(job: Job) -> bool:
    """Write the converted model. Never stops early: asked to, it is ended and begins again."""
    method, wanted = job.wanted.method, job.wanted
    if method == "merge":
        adapter.merge(job.artifact, reporting.input_path("base"), job.output)
    elif method == "keep":
        adapter.keep(job.artifact, reporting.input_path("base"), job.output)
    elif method == "int8":
        weight_only.quantise(job.artifact, job.output, weight_only.int8())
    elif method == "int4":
        weight_only.quantise(job.artifact, job.output, weight_only.int4(wanted.group_size))
    else:
        calibrated.quantise(
            job.artifact,
            job.output,
            method,
            reporting.input_path("train"),
            group_size=wanted.group_size,
            rows=wanted.calibration_rows,
        )
    _share(job.artifact, job.output)
    print(f"convert: {method}: {_size(job.artifact)} bytes of weights became {_size(job.output)}")
    return False


def _share(artifact: Path, output: Path) -> None:
    for name in SHARED:
        if (artifact / name).is_file():
            shutil.copyfile(artifact / name, output / name)
    for path in output.rglob("*"):
        if path.is_file():  # written for the owner alone, but the evaluator may be another user
            os.chmod(path, 0o644)


def _size(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*.safetensors"))


if __name__ == "__main__":
    training.run("convert", prepare, convert)
