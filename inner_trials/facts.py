"""What a program says it ran with, for the lineage of a model that may be promoted.

A program that ends well leaves `facts/run.json` beside its model: its settings with every default
written out, versions, hardware, and what was noted on the way (checkpoints, how it sampled, who
judged, which policies). It is kept as an artifact of its own and changes no byte of the model.
Standard library only.
"""

import dataclasses
import json
import math
import platform
import sys
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from inner_trials import contract, distributed, reporting

FORMAT: Final = 1
PACKAGES: Final = (
    "accelerate",
    "bitsandbytes",
    "datasets",
    "deepspeed",
    "numpy",
    "peft",
    "safetensors",
    "tokenizers",
    "torch",
    "transformers",
    "trl",
    "vllm",
)
DRIVER: Final = Path("/proc/driver/nvidia/version")
_NOTED: Final[dict[str, dict[str, Any]]] = {}


def begin() -> None:
    """Forget what another run in this process noted."""
    _NOTED.clear()


def note(section: str, **values: Any) -> None:
    """Keep values under a section; a later value of the same name counts."""
    _NOTED.setdefault(section, {}).update(values)


def note_each(section: str, name: str, value: Any) -> None:
    """Add a value to a list of the section."""
    _NOTED.setdefault(section, {}).setdefault(name, []).append(value)


def note_range(section: str, values: Iterable[int]) -> None:
    """Keep the least and the greatest of all values so far as `first` and `last`."""
    found = list(values)
    if found:
        kept = _NOTED.setdefault(section, {})
        kept["first"] = min(kept.get("first", found[0]), *found)
        kept["last"] = max(kept.get("last", found[0]), *found)


def end(program: str, job: object, *, is_stopped: bool) -> int:
    """The program's exit status; one that came to its end says what it ran with."""
    if is_stopped:
        return contract.EXIT_STOPPED
    if distributed.is_first():
        write(program, getattr(job, "settings", None))
    return 0


def write(program: str, settings: object) -> Path:
    """Write the file, whole or not at all."""
    directory = reporting.output_dir() / contract.FACTS_DIR
    directory.mkdir(exist_ok=True)
    document = {
        "format": FORMAT,
        "program": program,
        "settings": _settings(settings),
        "runtime": runtime(),
        "hardware": hardware(),
        **{section: _plain(values) for section, values in _NOTED.items()},
    }
    final = directory / contract.FACTS_FILE
    unfinished = final.with_suffix(".writing")
    text = json.dumps(document, indent=1, sort_keys=True, allow_nan=False)
    unfinished.write_text(text + "\n", encoding="utf-8")
    unfinished.rename(final)
    return final


def runtime() -> dict[str, str]:
    """Versions of Python, of the libraries that are there, of CUDA and the driver in use."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    torch = sys.modules.get("torch")
    found["cuda"] = "none"
    if torch is not None and torch.cuda.is_available():
        found["cuda"] = str(torch.version.cuda)
        if DRIVER.is_file():
            found["driver"] = DRIVER.read_text(encoding="utf-8").splitlines()[0].strip()
    return found


def hardware() -> dict[str, Any]:
    """What else decides bits: the processor's vector units, threads and GPUs."""
    found: dict[str, Any] = {
        "machine": platform.machine(),
        "system": platform.system(),
        "gpus": [],
    }
    torch = sys.modules.get("torch")
    if torch is not None:
        found["cpu_capability"] = torch.backends.cpu.get_cpu_capability()
        found["threads"] = torch.get_num_threads()
        if torch.cuda.is_available():
            count = torch.cuda.device_count()
            found["gpus"] = [torch.cuda.get_device_name(number) for number in range(count)]
    return found


def _settings(settings: object) -> dict[str, Any]:
    if not dataclasses.is_dataclass(settings) or isinstance(settings, type):
        return {}
    return {
        field.name: _plain(getattr(settings, field.name)) for field in dataclasses.fields(settings)
    }


def _plain(value: Any) -> Any:
    """As JSON holds it; what it cannot hold is written out."""
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
