"""What the built-in evaluator programs share: options, rows, loading, intervals, the channel.

They run as `python -I {bundle}/evaluate.py`, with copies of this file and of `exact_match` in the
bundle. Standard library, torch and transformers only.
"""

import json
import math
import os
import random
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

from evaluator.programs import exact_match
from evaluator.programs.exact_match import EXIT_REFUSED, EXIT_SETUP, RefusedError, SetupError

T = TypeVar("T")

RESAMPLES: Final = 1000
LEVEL: Final = 0.95
MAY_BE_0: Final = ("seed", "few_shot")
"""Of the options that are numbers."""
SUFFIXES: Final = ("ForCausalLM", "ForSequenceClassification")
"""Of architectures: a language model, and a reward model."""


@dataclass(frozen=True, slots=True)
class Inputs:
    artifact: Path
    split: Path
    bundle: Path
    workspace: Path | None
    converted: Mapping[str, Any] = field(default_factory=dict)
    """How the controller says the artifact was converted; empty for one that a trial trained."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A metric as a function of per-item values: transform(sum of values / sum of weights)."""

    values: Sequence[float]
    weights: Sequence[float] | None = None
    """None: each item counts once."""
    transform: Callable[[float], float] = float

    def point(self) -> float:
        return self._of(range(len(self.values)))

    def interval(self) -> tuple[float, float]:
        """Efron's percentile bootstrap (Annals of Statistics 1979) over items, at 95 %; always
        the same for the same values."""
        chance, count = random.Random(0), len(self.values)
        found = sorted(self._of(chance.choices(range(count), k=count)) for _ in range(RESAMPLES))
        tail = round((1 - LEVEL) / 2 * RESAMPLES)
        return found[tail], found[-1 - tail]

    def _of(self, indices: Sequence[int]) -> float:
        weights = self.weights
        size = len(indices) if weights is None else math.fsum(weights[i] for i in indices)
        try:
            total = math.fsum(self.values[i] for i in indices)
            return self.transform(total / size) if size else math.nan
        except (OverflowError, ValueError):  # both infinities in a sum, or more than a float holds
            return math.inf


@dataclass(frozen=True, slots=True)
class Result:
    metrics: Mapping[str, Estimate]
    items: Sequence[float]
    """Of the metric that a study would take for its objective."""


def run(name: str, options: type[T], evaluate: Callable[[T, Inputs], Result]) -> NoReturn:
    """Be the evaluator program `name`: score the artifact, write the document, and leave."""
    document = json.loads(Path(os.environ["ARL_PARAMS"]).read_text(encoding="utf-8"))
    paths = {key: Path(path) for key, path in document["inputs"].items()}
    workspace = document.get("workspace")
    inputs = Inputs(
        artifact=paths["artifact"],
        split=paths["split"],
        bundle=paths["bundle"],
        workspace=None if workspace is None else Path(workspace),
        converted=document.get("converted") or {},
    )
    status = 0
    try:
        result = evaluate(read_options(options, document.get("options") or {}), inputs)
        write(result)
    except (RefusedError, IndexError) as error:
        beyond = type(error) is IndexError  # what torch's embeddings raise
        print(f"{name}: {exact_match.BEYOND if beyond else error}", file=sys.stderr)
        status = EXIT_SETUP if isinstance(error, SetupError) else EXIT_REFUSED
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # all is written; taking torch apart would only cost time


def write(result: Result) -> None:
    """Print every metric with its interval, and write the score document.

    Raises:
        RefusedError: a metric is not finite; the artifact computes no usable numbers.
    """
    metrics = {}
    for name, estimate in result.metrics.items():
        value = metrics[name] = estimate.point()
        if not math.isfinite(value):
            raise RefusedError(f"{name} is {value}: the artifact computes no usable numbers")
        low, high = estimate.interval()
        count = len(estimate.values)
        print(f"{name} {value:.4f}  95% interval {low:.4f} to {high:.4f}  of {count} items")
    body = {"metrics": metrics, "items": list(result.items)}
    with os.fdopen(int(os.environ["ARL_SCORE_FD"]), "wb") as channel:
        channel.write(json.dumps(body, allow_nan=False).encode())


def read_options(cls: type[T], given: Mapping[str, Any]) -> T:
    """Raises SetupError: an option is unknown, not of its default's type, or out of range."""
    known = cls.__annotations__
    taken: dict[str, Any] = {}
    for name, value in given.items():
        if name not in known:
            raise SetupError(f"options.{name}: unknown; known options: {', '.join(known)}")
        wanted = known[name]
        # A whole number is one, too: transformers takes no int for a temperature.
        as_float = wanted is float and type(value) is int
        if not as_float and type(value) is not getattr(wanted, "__origin__", wanted):
            raise SetupError(f"options.{name}: {value!r} is not allowed")
        _check_range(name, value)
        taken[name] = float(value) if as_float else value
    return cls(**taken)


def _check_range(name: str, value: Any) -> None:
    if type(value) not in (int, float):
        return
    if not 0 <= value < math.inf:
        raise SetupError(f"options.{name}: {value} must be a number that is not negative")
    if value == 0 and name not in MAY_BE_0:
        raise SetupError(f"options.{name}: 0 is not allowed; write more")


def compiled(name: str, pattern: str) -> "re.Pattern[str]":
    """Raises SetupError: the option `name` is no regular expression."""
    try:
        return re.compile(pattern, re.DOTALL)
    except re.error as error:
        raise SetupError(f"options.{name}: {pattern!r} is no expression: {error}") from None


def read_rows(split: Path) -> list[tuple[str, dict[str, Any]]]:
    """Every row of the split with where it stands, in order of file name and line."""
    rows = []
    for file in [split] if split.is_file() else sorted(split.rglob("*.jsonl")):
        for number, line in enumerate(file.read_bytes().split(b"\n"), start=1):
            if line.strip():
                where = f"{file.name}, line {number}"
                try:
                    row = json.loads(line.decode())
                except (ValueError, RecursionError) as error:
                    raise SetupError(
                        f"{where}: not JSON ({error}); write an object on each line"
                    ) from None
                if not isinstance(row, dict):
                    raise SetupError(f"{where}: expected an object")
                rows.append((where, row))
    if not rows:
        raise SetupError(f"{split.name}: no items in it")
    return rows


@contextmanager
def loaded(
    inputs: Inputs, dtype: str, *, suffix: str = "ForCausalLM"
) -> Iterator[tuple[Any, Any]]:
    """The artifact's model and the tokenizer to read it with; nothing of it is trusted.

    `suffix` replaces ForCausalLM in the names of the architectures that are allowed.
    """
    with loaded_model(inputs, dtype, suffixes=(suffix,)) as model:
        yield model, exact_match.load_tokenizer(inputs.bundle, inputs.artifact)


@contextmanager
def loaded_model(
    inputs: Inputs, dtype: str, *, suffixes: Sequence[str] = SUFFIXES
) -> Iterator[Any]:
    """The same model alone."""
    if dtype not in exact_match.DTYPES:
        raise SetupError(f"options.dtype: {dtype!r} is not one of {', '.join(exact_match.DTYPES)}")
    names = exact_match.ARCHITECTURES
    known = [name.replace(SUFFIXES[0], suffix) for suffix in suffixes for name in names]
    architecture, config = exact_match.check_artifact(inputs.artifact, known, inputs.converted)
    exact_match.prepare_libraries()
    with tempfile.TemporaryDirectory(dir=inputs.workspace) as scratch:
        exact_match.stage_weights(inputs.artifact, config, Path(scratch))
        options = exact_match.Options(dtype=dtype)
        model = exact_match.load_model(architecture, Path(scratch), options)
        if inputs.converted:
            step = ("finished", model, inputs.artifact, inputs.converted)
            model = exact_match.of_conversion(*step)
        yield model


def answered(prompt: Any, answer: Any, tokenizer: Any) -> tuple[list[int], int]:
    """The tokens of a prompt and its answer as the frozen template writes them, and where the
    answer begins."""
    if tokenizer.chat_template is None:
        if not (isinstance(prompt, str) and isinstance(answer, str)):
            raise SetupError("items hold messages, but the bundle's tokenizer/ has no template")
        before = tokenizer(prompt)["input_ids"]
        whole = tokenizer(prompt + answer + tokenizer.eos_token)["input_ids"]
        return list(whole), len(before)
    asked = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    said = [{"role": "assistant", "content": answer}] if isinstance(answer, str) else answer
    render = {"tokenize": True, "return_dict": False}
    before = tokenizer.apply_chat_template(asked, add_generation_prompt=True, **render)
    return list(tokenizer.apply_chat_template([*asked, *said], **render)), len(before)


def padded(rows: Sequence[Sequence[int]], pad: int, device: Any) -> tuple[Any, Any]:
    """Token ids padded on the right, and the mask of what is no padding."""
    import torch

    width = max(map(len, rows))
    ids = [[*row, *([pad] * (width - len(row)))] for row in rows]
    mask = [[1] * len(row) + [0] * (width - len(row)) for row in rows]
    return torch.tensor(ids, device=device), torch.tensor(mask, device=device)


def batches(lengths: Sequence[int], size: int) -> Iterator[list[int]]:
    """Indices in batches of like lengths, the longest first: little padding, and too little
    memory shows at once."""
    order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    for start in range(0, len(order), max(1, size)):
        yield order[start : start + max(1, size)]
