"""Merges the adapter beside a model into its base, or keeps the two as they are served."""

import shutil
from pathlib import Path
from typing import Final

from inner_trials import adapters, models
from inner_trials.convert import loading
from inner_trials.models import ModelError

BESIDE: Final = "adapter"
"""Where a program with keep_adapter leaves it, below the model."""


def check(artifact: Path, base: Path) -> None:
    """Raises ModelError: the model has no adapter beside it, or it is one of another base."""
    if not (artifact / BESIDE).is_dir():
        raise ModelError(
            f"artifact: no {BESIDE}/ beside the model, so there is nothing to merge or to keep;"
            " train with parameterization: lora and keep_adapter: true"
        )
    models.check_model(base)
    adapters.check_fit(artifact / BESIDE, base)


def merge(artifact: Path, base: Path, output: Path) -> None:
    """The base's weights with the adapter's added, computed anew from the two."""
    whole = adapters.with_adapter(loading.load(base), artifact / BESIDE)
    whole.save_pretrained(output)


def keep(_artifact: Path, base: Path, output: Path) -> None:
    """The base's own files, with the adapter beside them, unmerged."""
    for path in sorted(base.iterdir()):
        if path.suffix == ".safetensors" or path.name.endswith((".index.json", "config.json")):
            shutil.copyfile(path, output / path.name)
    beside = output / BESIDE
    beside.mkdir()
    for name in (adapters.CONFIG_FILE, adapters.WEIGHTS_FILE, adapters.BASE_FILE):
        source = _artifact / BESIDE / name
        if source.is_file():
            shutil.copyfile(source, beside / name)
