"""Real training runs of the demo model with TRL: settings in, a held-out curve out."""

import gc
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import torch
from datasets import Dataset
from peft import LoraConfig
from transformers import PrinterCallback, TrainerCallback
from trl import DPOConfig, DPOTrainer, GRPOConfig, GRPOTrainer, SFTConfig, SFTTrainer

from inner_trials import data, models
from ledger.records import Params

CHECKPOINTS: Final = 10
"""Points of a curve, equally far apart; the last one is the run's result."""
HELD_OUT: Final[Mapping[str, int]] = {"sft": 512, "dpo_lora": 256, "grpo_lora": 256}
STEPS: Final[Mapping[str, int]] = {"sft": 100, "dpo_lora": 40, "grpo_lora": 30}
PAIRS: Final = 16
"""Of one DPO step."""
COMPLETIONS: Final = 32
"""Of one GRPO step, over all of its prompts."""
TUNING_ROWS: Final = 640
"""Training rows of a LoRA run: as many as its steps can see."""
START: Final[Params] = {
    "learning_rate": 2e-3,
    "batch_size": 32,
    "warmup_steps": 10,
    "weight_decay": 0.01,
    "adam_beta2": 0.999,
    "lr_scheduler_type": "constant_with_warmup",
}
"""The supervised run that the LoRA runs start from."""
START_STEPS: Final = 60


@dataclass(frozen=True, slots=True)
class Recorded:
    curve: list[tuple[int, float]]
    """(step, share of the held-out items answered exactly)"""
    seconds: float
    """What the training took, without the curve's evaluations."""


class Held:
    """Items that are in no training row, answered greedily."""

    def __init__(self, path: Path, tokenizer: Any, items: int) -> None:
        rows = [dict(row.fields) for row in data.read_rows(path)][:items]
        self._answers = [str(row["answer"]) for row in rows]
        chats = [[{"role": "user", "content": row["prompt"]}] for row in rows]
        self._tokenizer = tokenizer
        self._inputs = tokenizer.apply_chat_template(
            chats, add_generation_prompt=True, return_tensors="pt", padding=True, return_dict=True
        )

    def share_exact(self, model: Any) -> float:
        was_training, cached = model.training, model.config.use_cache
        model.eval()
        model.config.use_cache = True
        with torch.no_grad():
            given = model.generate(**self._inputs, max_new_tokens=7, do_sample=False)
        model.train(was_training)
        model.config.use_cache = cached
        new = given[:, self._inputs["input_ids"].shape[1] :]
        answers = self._tokenizer.batch_decode(new, skip_special_tokens=True)
        exact: int = sum(a == b for a, b in zip(answers, self._answers, strict=True))
        return exact / len(self._answers)


@dataclass
class Curve(TrainerCallback):  # type: ignore[misc]  # transformers is not typed
    """Evaluates at the checkpoints and takes that time off the clock."""

    held: Held
    steps: int
    points: list[tuple[int, float]] = field(default_factory=list)
    evaluating_s: float = 0.0

    def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        if state.global_step % (self.steps // CHECKPOINTS):
            return
        began = time.perf_counter()
        # An evaluation must not move the draws of the training after it.
        with torch.random.fork_rng(devices=[]):
            share = self.held.share_exact(given["model"])
        self.points.append((state.global_step, round(share, 5)))
        self.evaluating_s += time.perf_counter() - began


class Laboratory:
    """The demo's task, its model, and the model that the LoRA runs start from."""

    def __init__(self, task: Path, work: Path) -> None:
        self._base, self._work = task / "base", work
        self._tokenizer = models.load_tokenizer(self._base)
        _, examples = data.read_examples(task / "data" / "train.jsonl")
        self._chats = [data.as_chat(example) for example in examples]
        holdout = task / "evaluator" / "holdout.jsonl"
        self._held = {n: Held(holdout, self._tokenizer, items) for n, items in HELD_OUT.items()}
        self._started: dict[str, Any] | None = None

    def run(self, table: str, params: Params, seed: int) -> Recorded:
        """One training run from start to end, in this process."""
        build: Callable[[Params, int], Any] = getattr(self, f"_{table}")
        if table != "sft":
            self._prepare_start()
        trainer = build(params, seed)
        curve = Curve(self._held[table], STEPS[table])
        trainer.add_callback(curve)
        trainer.remove_callback(PrinterCallback)
        began = time.perf_counter()
        trainer.train()
        took = time.perf_counter() - began - curve.evaluating_s
        del trainer
        gc.collect()
        return Recorded(curve.points, round(took, 2))

    def _prepare_start(self) -> None:
        if self._started is None:
            trainer = self._sft(START, 0, steps=START_STEPS)
            trainer.train()
            self._started = trainer.model.state_dict()

    def _model(self) -> Any:
        model = models.load_model(self._base)
        if self._started is not None:
            model.load_state_dict(self._started)
        return model

    def _common(self, table: str, params: Params, seed: int) -> dict[str, Any]:
        return {
            "output_dir": str(self._work / table),
            "learning_rate": params["learning_rate"],
            "bf16": False,
            "activation_checkpointing": False,
            "use_cpu": True,
            "dataloader_pin_memory": False,
            "report_to": [],
            "save_strategy": "no",
            "disable_tqdm": True,
            "logging_steps": 1_000,
            "seed": seed,
            "data_seed": seed,
        }

    def _lora(self, params: Params) -> Any:
        rank = int(params["lora_r"])
        alpha = float(params.get("alpha_over_r", 2.0)) * rank
        return LoraConfig(
            r=rank, lora_alpha=alpha, target_modules="all-linear", task_type="CAUSAL_LM"
        )

    def _sft(self, params: Params, seed: int, *, steps: int = STEPS["sft"]) -> Any:
        torch.manual_seed(seed)
        config = SFTConfig(
            max_steps=steps,
            per_device_train_batch_size=params["batch_size"],
            warmup_steps=params["warmup_steps"],
            weight_decay=params["weight_decay"],
            adam_beta2=params["adam_beta2"],
            lr_scheduler_type=params["lr_scheduler_type"],
            max_length=64,
            **self._common("sft", params, seed),
        )
        rows = Dataset.from_list(self._chats)
        model = models.load_model(self._base)
        return SFTTrainer(model, config, train_dataset=rows, processing_class=self._tokenizer)

    def _dpo_lora(self, params: Params, seed: int) -> Any:
        torch.manual_seed(seed)
        config = DPOConfig(
            max_steps=STEPS["dpo_lora"],
            per_device_train_batch_size=PAIRS,
            beta=params["beta"],
            loss_type=[params["loss_type"]],
            label_smoothing=params.get("label_smoothing", 0.0),
            warmup_steps=params["warmup_steps"],
            lr_scheduler_type="constant_with_warmup",
            max_length=64,
            **self._common("dpo_lora", params, seed),
        )
        rng = random.Random("pairs")
        pairs = [
            {
                "prompt": chat["prompt"],
                "chosen": chat["completion"],
                "rejected": [
                    {
                        "role": "assistant",
                        "content": wrong(str(chat["completion"][0]["content"]), rng),
                    }
                ],
            }
            for chat in self._chats[:TUNING_ROWS]
        ]
        return DPOTrainer(
            self._model(),
            args=config,
            train_dataset=Dataset.from_list(pairs),
            processing_class=self._tokenizer,
            peft_config=self._lora(params),
        )

    def _grpo_lora(self, params: Params, seed: int) -> Any:
        torch.manual_seed(seed)
        config = GRPOConfig(
            max_steps=STEPS["grpo_lora"],
            per_device_train_batch_size=COMPLETIONS,
            num_generations=params["num_generations"],
            loss_type=params["loss_type"],
            beta=params["beta"],
            temperature=params["temperature"],
            epsilon=params.get("epsilon", 0.2),
            num_iterations=2,
            steps_per_generation=1,
            max_completion_length=7,
            lr_scheduler_type="constant",
            **self._common("grpo_lora", params, seed),
        )
        prompts = [
            {"prompt": chat["prompt"], "answer": chat["completion"][0]["content"]}
            for chat in self._chats[:TUNING_ROWS]
        ]
        return GRPOTrainer(
            self._model(),
            exact_reward,
            config,
            train_dataset=Dataset.from_list(prompts),
            processing_class=self._tokenizer,
            peft_config=self._lora(params),
        )


def wrong(answer: str, rng: random.Random) -> str:
    """An answer with one digit changed, and sometimes one left out."""
    while True:
        digits = list(answer)
        digits[rng.randrange(len(digits))] = str(rng.randrange(10))
        if rng.random() < 0.3:
            del digits[rng.randrange(len(digits))]
        if (changed := "".join(digits)) != answer:
            return changed


def exact_reward(completions: list[Any], answer: list[str], **_: Any) -> list[float]:
    return [float(c[0]["content"] == a) for c, a in zip(completions, answer, strict=True)]
