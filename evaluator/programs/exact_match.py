"""Exact match by greedy generation: the share of items whose answer the model gives word for word.

Run as `python -I {bundle}/evaluate.py`; a copy of this one file is the whole program. Inputs:
`artifact` (config.json and safetensors), `split` (JSON Lines of `prompt`, a text or messages, and
`answer`, a text or a list of accepted texts) and `bundle`. Scores: `exact_match`, and `format_ok`,
the share of answers that the model ended itself and that match the option `format` as a whole.

Nothing in the artifact is trusted. Its weights and the numbers in its config are used; its
tokenizer is used only if the bundle has none below `tokenizer/`, its chat template never.
"""

import gc
import json
import math
import os
import re
import runpy
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

_NAMES: Final = "GPTNeoX Gemma Gemma2 Gemma3 Granite Llama Mistral Olmo2 Phi3 Qwen2 Qwen3 SmolLM3"
ARCHITECTURES: Final = ("GPT2LMHeadModel", *(f"{n}ForCausalLM" for n in _NAMES.split()))
PICKLED: Final = (".bin", ".ckpt", ".dill", ".joblib", ".npz", ".pickle", ".pkl", ".pt", ".pth")
FORBIDDEN_CONFIG: Final = ("auto_map", "quantization_config")  # code beside the architecture's
SAFE: Final = {"local_files_only": True, "trust_remote_code": False, "use_safetensors": True}
UNUSED_CONFIG: Final = ("_attn_implementation", "attn_implementation", "_name_or_path")
CONFIG_BYTES: Final = 1024 * 1024
DTYPES: Final = ("float32", "bfloat16", "float16")
EXIT_SETUP, EXIT_REFUSED = 2, 43
BEYOND: Final = "a prompt has more tokens than the model has positions, or tokens that it lacks"
Z_95: Final = 1.959963984540054


class RefusedError(Exception):
    """The artifact may not be loaded; one line says why."""


class SetupError(RefusedError):
    """The options, the split or the bundle are wrong, whatever the artifact is."""


class Options(NamedTuple):
    max_new_tokens: int = 32
    batch_size: int = 256
    dtype: str = "float32"
    format: str = ""  # a regular expression; empty: any text is well-formed


class Item(NamedTuple):
    prompt: Any
    answers: tuple[str, ...]


def main() -> int:
    document = json.loads(Path(os.environ["ARL_PARAMS"]).read_text(encoding="utf-8"))
    inputs = {name: Path(path) for name, path in document["inputs"].items()}
    try:
        options = read_options(document.get("options") or {})
        items = read_items(inputs["split"])
        converted = document.get("converted") or {}
        architecture, config = check_artifact(inputs["artifact"], converted=converted)
        prepare_libraries()
        tokenizer = load_tokenizer(inputs["bundle"], inputs["artifact"])
        with tempfile.TemporaryDirectory(dir=document.get("workspace")) as scratch:
            stage_weights(inputs["artifact"], config, Path(scratch))
            model = load_model(architecture, Path(scratch), options)
            if converted:
                model = of_conversion("finished", model, inputs["artifact"], converted)
            answers = generate(model, tokenizer, items, options)
    except (RefusedError, IndexError) as error:
        print(f"exact_match: {BEYOND if type(error) is IndexError else error}", file=sys.stderr)
        return EXIT_SETUP if isinstance(error, SetupError) else EXIT_REFUSED
    with os.fdopen(int(os.environ["ARL_SCORE_FD"]), "wb") as channel:
        channel.write(json.dumps(score(items, answers, options), allow_nan=False).encode())
    return 0


def read_options(given: Mapping[str, Any]) -> Options:
    known = Options.__annotations__
    for name, value in given.items():
        if name not in known:
            raise SetupError(f"options.{name}: unknown; known options: {', '.join(known)}")
        if type(value) is not known[name] or (type(value) is int and value < 1):
            raise SetupError(f"options.{name}: {value!r} is not allowed")
    options = Options(**given)
    if options.dtype not in DTYPES:
        raise SetupError(f"options.dtype: {options.dtype!r} is not one of {', '.join(DTYPES)}")
    try:
        re.compile(options.format)  # better said now than when all is generated
    except re.error as error:
        raise SetupError(f"options.format: no regular expression: {error}") from None
    return options


def read_items(split: Path) -> list[Item]:
    """Every item of the split, in order of file name and line."""
    items = []
    for file in [split] if split.is_file() else sorted(split.rglob("*.jsonl")):
        for number, line in enumerate(file.read_bytes().split(b"\n"), start=1):
            if line.strip():
                items.append(_item(line, f"{file.name}, line {number}"))
    if not items:
        raise SetupError(f"{split.name}: no items in it")
    return items


def _item(line: bytes, where: str) -> Item:
    try:
        row = json.loads(line.decode())
    except (ValueError, RecursionError) as error:
        raise SetupError(f"{where}: not JSON ({error}); write an object on each line") from None
    prompt = row.get("prompt") if isinstance(row, dict) else None
    if not isinstance(prompt, str | list) or "answer" not in row:
        raise SetupError(f"{where}: write an object of prompt (a text or messages) and answer")
    answers = row["answer"] if isinstance(row["answer"], list) else [row["answer"]]
    if not answers or not all(isinstance(answer, str) for answer in answers):
        raise SetupError(f"{where}: answer must be a text or a list of texts")
    return Item(prompt, tuple(answer.strip() for answer in answers))


def check_artifact(
    artifact: Path, known: Sequence[str] = ARCHITECTURES, converted: Any = None
) -> tuple[str, Any]:
    """Architecture and config, once nothing speaks against the files, or how they were made."""
    for path in artifact.rglob("*"):
        if path.suffix.lower() in PICKLED:
            raise RefusedError(f"{path.name}: pickled files are not allowed in a model")
    for name in ("tokenizer_config.json", "generation_config.json"):
        if (artifact / name).exists():
            _read_json(artifact / name)
    config = _read_json(artifact / "config.json", FORBIDDEN_CONFIG[: 1 if converted else 2])
    architectures = config.get("architectures")
    if not isinstance(architectures, list) or len(architectures) != 1:
        raise RefusedError("config.json: architectures must name exactly one")
    if architectures[0] not in known:
        raise RefusedError(f"config.json: {architectures[0]!r} is not one of {', '.join(known)}")
    config = {k: v for k, v in config.items() if k not in UNUSED_CONFIG}
    return architectures[0], of_conversion("checked", config, converted) if converted else config


def of_conversion(step: str, *arguments: Any) -> Any:
    """What `quantised.py`, beside this file, has to say of a converted model."""
    try:
        return runpy.run_path(str(Path(__file__).with_name("quantised.py")))[step](*arguments)
    except (OSError, ValueError) as error:
        raise RefusedError(f"a converted model: {error}") from None


def _read_json(path: Path, forbidden: Sequence[str] = FORBIDDEN_CONFIG) -> dict[str, Any]:
    def refuse_code(inner: dict[str, Any]) -> dict[str, Any]:
        if found := [key for key in forbidden if inner.get(key)]:
            raise RefusedError(f"{path.name}: {found[0]} is not allowed")
        return inner

    if not path.is_file() or path.is_symlink():
        raise RefusedError(f"{path.name}: no such file in the artifact")
    if path.stat().st_size > CONFIG_BYTES:
        raise RefusedError(f"{path.name}: larger than {CONFIG_BYTES} bytes")
    try:
        value = json.loads(path.read_text(encoding="utf-8"), object_hook=refuse_code)
    except (ValueError, RecursionError):
        raise RefusedError(f"{path.name}: not JSON") from None
    if not isinstance(value, dict):
        raise RefusedError(f"{path.name}: not a JSON object")
    return value


def stage_weights(artifact: Path, config: Mapping[str, Any], staged: Path) -> None:
    """Put the cleaned config and links to the weights into `staged`, and nothing else of it."""
    (staged / "config.json").write_text(json.dumps(config), encoding="utf-8")
    weights = [p for p in artifact.glob("*.safetensors") if p.is_file() and not p.is_symlink()]
    if not weights:
        raise RefusedError("no .safetensors file in the artifact")
    for path in weights:
        (staged / path.name).symlink_to(path.resolve())
    if (index := artifact / "model.safetensors.index.json").exists():
        content = _read_json(index)
        named = {str(name) for name in dict(content.get("weight_map") or {}).values()}
        if not named <= {path.name for path in weights}:
            raise RefusedError(f"{index.name}: names a file that is not beside it")
        (staged / index.name).write_text(json.dumps(content), encoding="utf-8")


def prepare_libraries() -> None:  # before torch is imported
    os.environ |= dict.fromkeys(("HF_HUB_OFFLINE", "HF_HUB_DISABLE_PROGRESS_BARS"), "1")
    os.environ |= {"TRANSFORMERS_VERBOSITY": "error", "TOKENIZERS_PARALLELISM": "false"}
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    gc.disable()  # what the imports make stays to the end


def load_tokenizer(bundle: Path, artifact: Path) -> Any:
    """The bundle's frozen tokenizer; else the artifact's, without its chat template."""
    from transformers import PreTrainedTokenizerFast

    frozen = bundle / "tokenizer"
    directory = frozen if frozen.is_dir() else artifact
    if not (directory / "tokenizer.json").is_file():
        raise RefusedError("no tokenizer.json in the bundle's tokenizer/ or in the artifact")
    settings = _read_json(directory / "tokenizer_config.json")
    special = {
        name: token["content"] if isinstance(token, dict) else token
        for name in ("bos_token", "eos_token", "pad_token")
        if (token := settings.get(name))
    }
    if "eos_token" not in special:
        raise RefusedError("tokenizer_config.json: names no eos_token")
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_file=str(directory / "tokenizer.json"),
        padding_side="left",
        **{"pad_token": special["eos_token"], **special},
    )
    template = frozen / "chat_template.jinja"
    inside = settings.get("chat_template") if directory == frozen else None
    tokenizer.chat_template = template.read_text("utf-8") if template.is_file() else inside
    return tokenizer


def load_model(architecture: str, staged: Path, options: Options) -> Any:
    import torch
    import transformers

    try:
        wanted = {"dtype": getattr(torch, options.dtype), "attn_implementation": "sdpa"}
        model, report = getattr(transformers, architecture).from_pretrained(
            staged, **SAFE, **wanted, output_loading_info=True
        )
    except Exception as error:  # noqa: BLE001  # whatever a hostile config or file provokes
        text = " ".join(str(error).split())[:300]
        raise RefusedError(f"weights: {type(error).__name__}: {text}") from None
    if wrong := sorted(map(str, {*report["missing_keys"], *report["mismatched_keys"]})):
        raise RefusedError(f"weights: missing or of another shape: {wrong[:3]}")
    return model.to("cuda" if torch.cuda.is_available() else "cpu").eval()


def generate(
    model: Any, tokenizer: Any, items: Sequence[Item], options: Options
) -> list[tuple[str, bool]]:
    """For each item, in order, the answer's text and whether the model ended it itself."""
    import torch
    from transformers import GenerationConfig

    end = tokenizer.eos_token_id
    greedy = {"do_sample": False, "eos_token_id": end, "pad_token_id": tokenizer.pad_token_id}
    model.generation_config = GenerationConfig(max_new_tokens=options.max_new_tokens, **greedy)
    prompts = [render(item.prompt, tokenizer) for item in items]
    # Like lengths together, the longest first: little padding, too little memory shows at once.
    order = sorted(range(len(items)), key=lambda index: -len(prompts[index]))
    answers: list[tuple[str, bool]] = [("", False)] * len(items)
    for start in range(0, len(order), options.batch_size):
        batch = order[start : start + options.batch_size]
        plain = {"return_tensors": "pt", "padding": True, "return_token_type_ids": False}
        plain["add_special_tokens"] = tokenizer.chat_template is None
        encoded = tokenizer([prompts[index] for index in batch], **plain).to(model.device)
        with torch.inference_mode():
            out = model.generate(**encoded, generation_config=model.generation_config)
        given = out[:, encoded["input_ids"].shape[1] :].tolist()
        for index, tokens in zip(batch, given, strict=True):
            kept = tokens[: tokens.index(end)] if end in tokens else tokens
            answers[index] = (tokenizer.decode(kept).strip(), end in tokens)
    return answers


def render(prompt: Any, tokenizer: Any) -> str:
    """The prompt through the frozen chat template, a text as one user's message."""
    if tokenizer.chat_template is None:
        if isinstance(prompt, str):
            return prompt
        raise SetupError("items hold messages, but the bundle's tokenizer/ has no chat template")
    messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    return str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))


def score(
    items: Sequence[Item], answers: Sequence[tuple[str, bool]], options: Options
) -> dict[str, Any]:
    pattern = re.compile(options.format or ".*", re.DOTALL)
    exact = [float(e and t in i.answers) for i, (t, e) in zip(items, answers, strict=True)]
    formed = [float(ended and pattern.fullmatch(text) is not None) for text, ended in answers]
    metrics = {"exact_match": sum(exact) / len(exact), "format_ok": sum(formed) / len(formed)}
    for name, value in metrics.items():
        low, high = wilson_interval(value, len(items))
        print(f"{name} {value:.4f}  95% interval {low:.4f} to {high:.4f}  of {len(items)} items")
    return {"metrics": metrics, "items": exact}


def wilson_interval(share: float, count: int) -> tuple[float, float]:
    """Wilson's score interval for a proportion (JASA 1927), at 95 %."""
    spread = Z_95**2 / count
    centre = (share + spread / 2) / (1 + spread)
    half = Z_95 * math.sqrt(share * (1 - share) / count + spread / (4 * count)) / (1 + spread)
    return max(0.0, centre - half), min(1.0, centre + half)


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # all is written; taking torch apart would only cost time
