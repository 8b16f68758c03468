"""Lets a frozen evaluator program judge answers that a served model gave outside.

Run as `python -I {driver}/by_endpoint.py`. It is ARL's and in no bundle; it imports the bundle's
own program and calls its functions, so that prompts and scores are what the frozen evaluator makes
them. Inputs: `bundle`, `split` and, for the second of its two stages, `answers`. Options: `stage`
and `options`, the bundle's own.

- `prompts` writes `{"prompts": [texts], "settings": {…}}`: each item rendered by the frozen
  template, and how to sample;
- `score` reads `answers.json` below the input, one list of [text, whether the model ended it
  itself] for each item, and writes the score document as the program would.

It knows exact_match, pass_at_k, and any evaluate.py with the functions of exact_match. What a
model answered is text to be scored and nothing else; the model itself is not here.
"""

import importlib
import importlib.util
import json
import os
import re
import sys
from pathlib import Path
from typing import Any, Final

EXIT_REFUSED: Final = 43
FUNCTIONS: Final = ("read_options", "read_items", "load_tokenizer", "render", "score")
"""Of exact_match, and of a program of one's own that is to be asked by an endpoint."""
REFUSALS: Final = ("RefusedError", "SetupError")
"""Ours, and those of the bundle's program, which is a module of its own."""
_LAUNCHED: Final = re.compile(r'run_module\("evaluator\.programs\.(\w+)"')


class RefusedError(Exception):
    """This bundle's program cannot be asked so; one line says why."""


class NoTokenizer:
    """In a bundle without one: prompts go as they are, and the server's tokenizer reads them."""

    chat_template: str | None = None
    eos_token_id: int | None = None


class ExactMatch:
    """One greedy answer for each item."""

    def __init__(self, program: Any, options: dict[str, Any]) -> None:
        self.module = program
        self.options = program.read_options(options)

    def settings(self) -> dict[str, Any]:
        return {"n": 1, "temperature": 0.0, "top_p": 1.0}

    def write(self, items: Any, answers: list[list[tuple[str, bool]]]) -> None:
        document = self.module.score(items, [drawn[0] for drawn in answers], self.options)
        with os.fdopen(int(os.environ["ARL_SCORE_FD"]), "wb") as channel:
            channel.write(json.dumps(document, allow_nan=False).encode())


class PassAtK:
    """Several sampled answers for each item."""

    def __init__(self, program: Any, options: dict[str, Any]) -> None:
        self.module = program.exact_match
        self._program = program
        self.options = program.scoring.read_options(program.Options, options)
        if not 1 <= self.options.k <= self.options.samples:
            raise RefusedError(f"options.k: {self.options.k} must be from 1 to samples")

    def settings(self) -> dict[str, Any]:
        chosen = self.options
        # No seed: a server answers in batches of others' requests, and would not repeat them.
        return {"n": chosen.samples, "temperature": chosen.temperature, "top_p": chosen.top_p}

    def write(self, items: Any, answers: list[list[tuple[str, bool]]]) -> None:
        program, chosen = self._program, self.options
        pattern = re.compile(chosen.answer_pattern, re.DOTALL) if chosen.answer_pattern else None
        right = [
            sum(program.is_right(text, item, pattern) for text, ended in drawn if ended)
            for item, drawn in zip(items, answers, strict=True)
        ]
        scores = {k: [program.pass_at(chosen.samples, c, k) for c in right] for k in (1, chosen.k)}
        estimate, result = program.scoring.Estimate, program.scoring.Result
        metrics = {"pass_at_1": estimate(scores[1]), "pass_at_k": estimate(scores[chosen.k])}
        program.scoring.write(result(metrics=metrics, items=scores[chosen.k]))


def main() -> int:
    document = json.loads(Path(os.environ["ARL_PARAMS"]).read_text(encoding="utf-8"))
    inputs = {name: Path(path) for name, path in document["inputs"].items()}
    given = document["options"]
    try:
        program = load_program(inputs["bundle"], given["options"])
        items = program.module.read_items(inputs["split"])
    except Exception as error:
        if type(error).__name__ not in REFUSALS:
            raise
        print(f"by_endpoint: {error}", file=sys.stderr)
        return EXIT_REFUSED
    if given["stage"] == "prompts":
        write_prompts(program, items, inputs["bundle"])
    else:
        text = (inputs["answers"] / "answers.json").read_text(encoding="utf-8")
        drawn = [[(str(t).strip(), bool(ended)) for t, ended in one] for one in json.loads(text)]
        if len(drawn) != len(items):
            print(f"by_endpoint: {len(drawn)} answers to {len(items)} items", file=sys.stderr)
            return EXIT_REFUSED
        program.write(items, drawn)
    return 0


def load_program(bundle: Path, options: dict[str, Any]) -> ExactMatch | PassAtK:
    """The bundle's own program. Raises RefusedError: none that can be asked so."""
    sys.path.insert(0, str(bundle))
    file = bundle / "evaluate.py"
    if not file.is_file():
        raise RefusedError("the bundle has no evaluate.py, so it cannot be asked by an endpoint")
    launched = _LAUNCHED.search(file.read_text(encoding="utf-8"))
    if launched is not None:
        if launched[1] != "pass_at_k":
            raise RefusedError(
                f"the bundle's program is {launched[1]}, which judges more than answers to "
                "prompts; exact_match and pass_at_k can be asked by an endpoint"
            )
        return PassAtK(importlib.import_module(f"evaluator.programs.{launched[1]}"), options)
    spec = importlib.util.spec_from_file_location("evaluate", file)
    if spec is None or spec.loader is None:
        raise RefusedError("evaluate.py cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules["evaluate"] = module
    spec.loader.exec_module(module)
    if missing := [name for name in FUNCTIONS if not hasattr(module, name)]:
        raise RefusedError(
            f"evaluate.py has no {', '.join(missing)}, which exact_match has and an endpoint needs"
        )
    return ExactMatch(module, options)


def write_prompts(program: ExactMatch | PassAtK, items: Any, bundle: Path) -> None:
    module = program.module
    tokenizer: Any = NoTokenizer()
    if (bundle / "tokenizer").is_dir():
        module.prepare_libraries()
        tokenizer = module.load_tokenizer(bundle, bundle)
    settings = {
        **program.settings(),
        "max_tokens": program.options.max_new_tokens,
        # Whatever the served model's own settings say: the evaluator samples without these.
        "top_k": -1,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "skip_special_tokens": False,
        "add_special_tokens": tokenizer.chat_template is None,
    }
    if tokenizer.eos_token_id is not None:
        settings["stop_token_ids"] = [tokenizer.eos_token_id]
    prompts = [module.render(item.prompt, tokenizer) for item in items]
    with os.fdopen(int(os.environ["ARL_SCORE_FD"]), "wb") as channel:
        channel.write(json.dumps({"prompts": prompts, "settings": settings}).encode())


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # all is written; taking libraries apart would only cost time
