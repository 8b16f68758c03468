"""What a person would write with TRL alone, for each program: what `benchmarks.programs` compares.

Each is run as `python -c SCRIPT SETTINGS`, writes `result` and saves its model. They set what
TRL's own defaults get wrong on a CPU, and nothing else that the programs do.
"""

from collections.abc import Mapping
from typing import Final

_HEAD: Final = """
import json, os, sys, time
settings = json.loads(sys.argv[1])
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification
from transformers import AutoTokenizer, TrainerCallback
from peft import LoraConfig
started, metrics = [], {}

class Meter(TrainerCallback):
    def on_step_begin(self, args, state, control, **_):
        if not started:
            started.append(time.monotonic() - settings["launched"])
    def on_log(self, args, state, control, logs=None, **_):
        metrics.update({k: v for k, v in logs.items() if isinstance(v, (int, float))})

def arguments():
    return dict(output_dir=settings["output"], seed=0, data_seed=0, use_cpu=True, bf16=False,
                gradient_checkpointing=False, activation_checkpointing=False,
                dataloader_pin_memory=False, save_strategy="no", report_to=[], disable_tqdm=True,
                logging_steps=settings["every"], max_steps=settings["steps"],
                per_device_train_batch_size=settings["batch"], max_length=settings["max_length"],
                learning_rate=settings["learning_rate"], warmup_steps=settings["warmup"],
                lr_scheduler_type="constant_with_warmup")

def user(text): return {"role": "user", "content": text}
def assistant(text): return {"role": "assistant", "content": text}
tokenizer = AutoTokenizer.from_pretrained(settings["base"])
lora = LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM")
"""
_TAIL: Final = """
trainer.train()
model = trainer.model
model = model.merge_and_unload() if hasattr(model, "merge_and_unload") else model
model.save_pretrained(settings["output"])
tokenizer.save_pretrained(settings["output"])
json.dump({"start_up_s": started[0], "metrics": metrics}, open(settings["result"], "w"))
"""

SFT: Final = """
from trl import SFTConfig, SFTTrainer
rows = load_dataset("json", data_files=settings["train"], split="train").map(
    lambda r: {"prompt": [user(r["prompt"])], "completion": [assistant(r["completion"])]})
trainer = SFTTrainer(
    AutoModelForCausalLM.from_pretrained(settings["base"], dtype="float32"),
    SFTConfig(**arguments(), completion_only_loss=True),
    train_dataset=rows, processing_class=tokenizer, callbacks=[Meter()],
    peft_config=lora if settings["lora"] else None)
"""

DPO: Final = """
from trl import DPOConfig, DPOTrainer
rows = load_dataset("json", data_files=settings["train"], split="train").map(
    lambda r: {"prompt": [user(r["prompt"])], "chosen": [assistant(r["chosen"])],
               "rejected": [assistant(r["rejected"])]})
trainer = DPOTrainer(
    AutoModelForCausalLM.from_pretrained(settings["base"], dtype="float32"),
    args=DPOConfig(**arguments(), beta=0.1),
    train_dataset=rows, processing_class=tokenizer, callbacks=[Meter()], peft_config=lora)
"""

REWARD_MODEL: Final = """
from transformers import set_seed
from trl import RewardConfig, RewardTrainer
rows = load_dataset("json", data_files=settings["train"], split="train").map(
    lambda r: {"prompt": [user(r["prompt"])], "chosen": [assistant(r["chosen"])],
               "rejected": [assistant(r["rejected"])]})
set_seed(0)
trainer = RewardTrainer(
    AutoModelForSequenceClassification.from_pretrained(settings["base"], num_labels=1,
                                                       dtype="float32"),
    args=RewardConfig(**arguments()),
    train_dataset=rows, processing_class=tokenizer, callbacks=[Meter()])
"""

GRPO: Final = """
from transformers import set_seed
from trl import GRPOConfig, GRPOTrainer
rows = load_dataset("json", data_files=settings["train"], split="train").map(
    lambda r: {"prompt": [user(r["prompt"])], "answer": r["completion"]},
    remove_columns=["completion"])
end = tokenizer.eos_token_id

def exact(completions, completion_ids, answer, **_):
    return [float(ids[-1] == end and said[0]["content"].strip() == wanted)
            for said, ids, wanted in zip(completions, completion_ids, answer)]

set_seed(0)
given = arguments()
del given["max_length"], given["activation_checkpointing"]
trainer = GRPOTrainer(
    AutoModelForCausalLM.from_pretrained(settings["base"], dtype="float32"), exact,
    args=GRPOConfig(**given, num_generations=settings["group"], beta=0.0, loss_type="dapo",
                    max_completion_length=settings["max_new_tokens"]),
    train_dataset=rows, processing_class=tokenizer, callbacks=[Meter()], peft_config=lora)
"""

REJECTION_SAMPLING: Final = """
import torch
from datasets import Dataset
from transformers import set_seed
from trl import SFTConfig, SFTTrainer
given = [json.loads(line) for line in open(settings["train"])]
model = AutoModelForCausalLM.from_pretrained(settings["base"], dtype="float32").eval()
end, n, size, rows = tokenizer.eos_token_id, settings["samples"], settings["sample_batch"], []
for number, start in enumerate(range(0, len(given), size)):
    part = given[start:start + size]
    set_seed(number)
    texts = [tokenizer.apply_chat_template([user(r["prompt"])], tokenize=False,
                                           add_generation_prompt=True) for r in part]
    inputs = tokenizer(texts, return_tensors="pt", padding=True, padding_side="left",
                       add_special_tokens=False, return_token_type_ids=False)
    with torch.inference_mode():
        out = model.generate(**inputs, do_sample=True, num_return_sequences=n, top_k=0,
                             max_new_tokens=settings["max_new_tokens"], eos_token_id=end,
                             pad_token_id=tokenizer.pad_token_id)
    out = out[:, inputs["input_ids"].shape[1]:].tolist()
    for index, row in enumerate(part):
        for ids in out[index * n:(index + 1) * n]:
            text = tokenizer.decode(ids[:ids.index(end)] if end in ids else ids)
            if end in ids and text == row["completion"]:
                rows.append({"prompt": [user(row["prompt"])], "completion": [assistant(text)]})
                break
trainer = SFTTrainer(
    AutoModelForCausalLM.from_pretrained(settings["base"], dtype="float32"),
    SFTConfig(**arguments(), completion_only_loss=True),
    train_dataset=Dataset.from_list(rows), processing_class=tokenizer, callbacks=[Meter()],
    peft_config=lora)
"""


def script(body: str) -> str:
    """A whole script that can be given to `python -c`."""
    return _HEAD + body + _TAIL


SCRIPTS: Final[Mapping[str, str]] = {
    "sft": script(SFT),
    "sft, LoRA": script(SFT),
    "dpo": script(DPO),
    "grpo": script(GRPO),
    "reward_model": script(REWARD_MODEL),
    "rejection_sampling": script(REJECTION_SAMPLING),
}
