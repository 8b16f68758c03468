"""Speed, memory and size of a converted model beside the unconverted one, in one run.

Run as `python -I {bundle}/evaluate.py`. Inputs: `artifact` (the converted model), `unconverted`
and `bundle`; `converted` in the params document says how it was made. Both are loaded as the
evaluator loads them, each time in a fresh process, in the order unconverted, converted, converted,
unconverted, so that a machine that gets slower or faster favours none. The work is the same for
both: fixed token ids, greedy, a fixed number of new tokens. The smaller time of two is kept: what
else runs on the machine only ever adds. One JSON object on the score channel.
"""

import importlib
import json
import os
import platform
import resource
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from evaluator.programs import exact_match, scoring
from evaluator.programs.exact_match import EXIT_REFUSED, RefusedError
from evaluator.programs.scoring import Inputs

PROMPT_TOKENS: Final = 32
NEW_TOKENS: Final = 16
BATCH: Final = 8
REPEATS: Final = 2
ORDER: Final = ("unconverted", "converted", "converted", "unconverted")
CLASSIFIER: Final = "ForSequenceClassification"
PRIME: Final = 7919
"""The fixed token ids are its multiples, modulo the vocabulary."""


@dataclass(frozen=True, slots=True)
class Workload:
    prompt: int
    """Tokens of each prompt."""
    new: int
    """Tokens that are generated; 0 for a model that gives one number for a text."""


def main() -> int:
    document = json.loads(Path(os.environ["ARL_PARAMS"]).read_text(encoding="utf-8"))
    paths = {name: Path(path) for name, path in document["inputs"].items()}
    workspace = document.get("workspace")
    sides = {
        name: Inputs(
            artifact=paths["artifact" if name == "converted" else name],
            split=paths["bundle"],
            bundle=paths["bundle"],
            workspace=None if workspace is None else Path(workspace),
            converted=document["converted"] if name == "converted" else {},
        )
        for name in set(ORDER)
    }
    exact_match.prepare_libraries()
    import torch
    import transformers

    rounds: dict[str, list[Mapping[str, float]]] = {name: [] for name in sides}
    try:
        for inputs in sides.values():
            preload(inputs)
        for name in ORDER:
            rounds[name].append(in_a_child(partial(measured, sides[name])))
    except RefusedError as error:
        print(f"speed: {error}", file=sys.stderr)
        return EXIT_REFUSED
    body: dict[str, object] = {name: best(found) for name, found in rounds.items()}
    body["machine"] = {
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "device": "cuda" if torch.cuda.is_available() else "cpu",
        "cpu": platform.machine(),
        "threads": torch.get_num_threads(),
        "prompt_tokens": PROMPT_TOKENS,
        "new_tokens": NEW_TOKENS,
        "batch": BATCH,
    }
    for name in sides:
        print(name, json.dumps(body[name]))
    with os.fdopen(int(os.environ["ARL_SCORE_FD"]), "wb") as channel:
        channel.write(json.dumps(body, allow_nan=False).encode())
    return 0


def preload(inputs: Inputs) -> None:
    """Import what the model needs, so that neither its loading time nor its memory has it.

    Raises:
        RefusedError: the model may not be loaded.
    """
    import transformers
    from transformers import GenerationMixin  # noqa: F401  # for its imports

    names = exact_match.ARCHITECTURES
    known = [n.replace(scoring.SUFFIXES[0], suffix) for suffix in scoring.SUFFIXES for n in names]
    architecture, _ = exact_match.check_artifact(inputs.artifact, known, inputs.converted)
    getattr(transformers, architecture)
    needed = exact_match.of_conversion("needed", inputs.converted) if inputs.converted else None
    if needed:
        importlib.import_module(needed)


def in_a_child(work: Callable[[], Mapping[str, float]]) -> Mapping[str, float]:
    """What `work` gives in a process of its own, whose peak memory is its own.

    Forked once the libraries are imported and before any of them has computed anything: no thread
    of theirs runs yet, and the import is paid once.

    Raises:
        RefusedError: the model cannot be loaded or run.
        MemoryError: the process was ended from outside.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        os._exit(_told(work, writing))
    os.close(writing)
    with os.fdopen(reading, "rb") as channel:
        said = channel.read()
    _, status = os.waitpid(child, 0)
    if os.waitstatus_to_exitcode(status) == EXIT_REFUSED:
        raise RefusedError(said.decode())
    if status != 0:
        raise MemoryError(f"the measuring process ended with status {status}")
    found: Mapping[str, float] = json.loads(said)
    return found


def _told(work: Callable[[], Mapping[str, float]], writing: int) -> int:
    """The exit status of a child that has said what it found, or what is wrong."""
    status, said = 0, ""
    try:
        said = json.dumps(work())
    except (RefusedError, IndexError) as error:
        status, said = EXIT_REFUSED, str(error)
    except BaseException:  # noqa: BLE001  # the child must not return into its parent's frames
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    with os.fdopen(writing, "wb") as channel:
        channel.write(said.encode())
    return status


def measured(inputs: Inputs) -> dict[str, float]:
    """One model's figures, by the evaluator's own way of loading it."""
    before = peak_bytes()
    started = time.perf_counter()
    with scoring.loaded_model(inputs, "float32") as model:
        load_s = time.perf_counter() - started
        figures = run(model)
    return {
        **figures,
        "load_s": load_s,
        "size_bytes": float(size_bytes(inputs.artifact)),
        "peak_memory_bytes": float(peak_bytes()),
        "own_memory_bytes": float(peak_bytes() - before),
    }


def run(model: Any) -> dict[str, float]:
    """Seconds of a prompt and of each further token alone, and tokens a second in a batch."""
    config = model.config.get_text_config()
    room = int(getattr(config, "max_position_embeddings", None) or PROMPT_TOKENS + NEW_TOKENS)
    prompt = max(1, min(PROMPT_TOKENS, room // 2))
    new = 0 if type(model).__name__.endswith(CLASSIFIER) else min(NEW_TOKENS, room - prompt)
    load = Workload(prompt, new)
    work(model, 1, Workload(prompt, min(new, 2)))  # the first use of a kernel prepares it
    first_s = fastest(lambda: work(model, 1, Workload(prompt, min(new, 1))))
    alone_s = fastest(lambda: work(model, 1, load))
    batch_s = fastest(lambda: work(model, BATCH, load))
    tokens = BATCH * (new or prompt)
    return {
        "first_token_s": first_s,
        "token_s": (alone_s - first_s) / (new - 1) if new > 1 else alone_s,
        "tokens_per_s": tokens / batch_s,
    }


def fastest(action: Callable[[], None]) -> float:
    times = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        action()
        times.append(time.perf_counter() - started)
    return min(times)


def work(model: Any, rows: int, load: Workload) -> None:
    import torch

    config = model.config.get_text_config()
    numbers = [
        [(PRIME * (row + 1) * (i + 1)) % config.vocab_size for i in range(load.prompt)]
        for row in range(rows)
    ]
    ids = torch.tensor(numbers, device=next(model.parameters()).device)
    mask = torch.ones_like(ids)
    with torch.inference_mode():
        if load.new == 0:
            config.pad_token_id = -1  # nothing is padding
            model(input_ids=ids, attention_mask=mask)
        else:
            tokens = {"min_new_tokens": load.new, "max_new_tokens": load.new}
            model.generate(ids, attention_mask=mask, do_sample=False, pad_token_id=0, **tokens)
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def peak_bytes() -> int:
    """Of this process; on a GPU also of its memory there."""
    import torch

    host = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return host + (torch.cuda.max_memory_allocated() if torch.cuda.is_initialized() else 0)


def size_bytes(artifact: Path) -> int:
    """Of all its weights on disk, an adapter's included."""
    return sum(path.stat().st_size for path in artifact.rglob("*.safetensors"))


def best(rounds: list[Mapping[str, float]]) -> dict[str, float]:
    """The fastest of a model's rounds, and the largest memory."""
    larger = ("tokens_per_s", "peak_memory_bytes", "own_memory_bytes")
    return {
        name: (max if name in larger else min)(one[name] for one in rounds) for name in rounds[0]
    }


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # all is written; taking torch apart would only cost time
