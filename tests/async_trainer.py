"""TRL's asynchronous GRPO on a CPU: `python async_trainer.py SITE SETTINGS`, a JSON file.

Run by vLLM's interpreter, which has what TRL's rollout worker wants; what that lacks is taken from
SITE, another environment's packages. On a CPU four things are put in the place of TRL's own: its
attention kernel, the GPU's peak speed, a response template, and requests without seeds. Writes
its history as it goes.
"""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.append(sys.argv[1])  # in the rollout worker's process too, which imports this file

from trl.experimental.async_grpo.async_rollout_worker import (  # from SITE
    AsyncRolloutWorker,
    _AsyncRolloutLoop,
)

TEMPLATE = {
    "defaults": {"role": "assistant"},
    "start_anchor": "<|assistant|>",
    "fields": {"content": {"close_pattern": r"<\|end\|>|$", "content": "text"}},
}


class Unseeded(_AsyncRolloutLoop):  # type: ignore[misc]  # TRL is not typed
    """vLLM for CPUs dies of a request with a seed whose prompt does not fit into one step."""

    async def _post(self, path: str, payload: dict[str, Any], *more: Any) -> Any:
        return await super()._post(path, {k: v for k, v in payload.items() if k != "seed"}, *more)


def is_exact(completions: Any, answer: Any, **columns: Any) -> list[float]:
    said = [c[0]["content"] for c in completions]
    return [float(one == wanted) for one, wanted in zip(said, answer, strict=True)]


def varlen_attention(
    query: Any,
    key: Any,
    value: Any,
    query_starts: Any,
    key_starts: Any,
    *longest: int,
    softmax_scale: float,
    causal: bool,
    window_size: Any,
) -> Any:
    """Each segment's queries see its keys, the last query all of them."""
    import torch

    parts = []
    for at in range(len(query_starts) - 1):
        some = slice(int(query_starts[at]), int(query_starts[at + 1]))
        seen = slice(int(key_starts[at]), int(key_starts[at + 1]))
        size, width = some.stop - some.start, seen.stop - seen.start
        mask = torch.ones(size, width, dtype=torch.bool).tril(width - size)
        done = torch.nn.functional.scaled_dot_product_attention(
            *(part.transpose(0, 1)[None] for part in (query[some], key[seen], value[seen])),
            attn_mask=mask,
            scale=softmax_scale,
            enable_gqa=True,
        )
        parts.append(done[0].transpose(0, 1))
    return torch.cat(parts)


def use_a_cpu() -> None:
    from trl.experimental.async_grpo import async_grpo_trainer, async_rollout_worker, packing

    kernels = SimpleNamespace(flash_attn_varlen_func=varlen_attention)
    packing._flash_attn = lambda: kernels
    packing.get_target_dtype = lambda query, module: None
    async_grpo_trainer.get_peak_flops_per_device = lambda *given: None
    AsyncRolloutWorker._loop_cls = Unseeded
    # It asks for a package by the name that the build for CPUs has not.
    async_rollout_worker.is_vllm_available = lambda *given, **named: True


def main() -> None:
    settings = json.loads(Path(sys.argv[2]).read_text())
    use_a_cpu()
    trainer = make_trainer(settings)
    watch(trainer, Path(settings["history"]))
    trainer.train()
    model = trainer.model.merge_and_unload()
    model.save_pretrained(settings["output"])
    trainer.processing_class.save_pretrained(settings["output"])


def make_trainer(settings: dict[str, Any]) -> Any:
    from datasets import Dataset
    from peft import LoraConfig
    from transformers import AutoTokenizer
    from trl.experimental.async_grpo import AsyncGRPOConfig, AsyncGRPOTrainer

    tokenizer = AutoTokenizer.from_pretrained(settings["model"])
    tokenizer.response_template = TEMPLATE
    lines = map(json.loads, Path(settings["data"]).read_text().splitlines())
    rows = [
        {"prompt": [{"role": "user", "content": line["prompt"]}], "answer": line["completion"]}
        for line in lines
    ]
    return AsyncGRPOTrainer(
        settings["model"],
        is_exact,
        AsyncGRPOConfig(
            gradient_checkpointing=False,
            report_to=[],
            save_strategy="no",
            use_cpu=True,
            disable_tqdm=True,
            dataloader_pin_memory=False,
            token_budget=0,
            seed=0,
            **settings["arguments"],
        ),
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer,
        peft_config=LoraConfig(r=16, lora_alpha=32, target_modules="all-linear"),
    )


def watch(trainer: Any, history: Path) -> None:
    """Write its log to `history` as it grows, and leave once its rollout worker is dead."""
    from transformers import TrainerCallback

    from inner_trials.actors import exit_once_gone

    class Writes(TrainerCallback):  # type: ignore[misc]  # transformers is not typed
        def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            process = trainer.rollout_worker._process
            if state.global_step == 1:
                # With 0 it ends where the training does.
                exit_once_gone(lambda: process.exitcode in (None, 0), "async")

        def on_log(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            said = {"history": state.log_history, "worker": trainer.rollout_worker._process.pid}
            history.with_suffix(".new").write_text(json.dumps(said))
            history.with_suffix(".new").rename(history)

    trainer.add_callback(Writes())


if __name__ == "__main__":
    main()
