"""Runs OpenRLHF's PPO as a trial: the plan and the parameters become its arguments.

Standard library only: whatever Python has OpenRLHF may run it. It is started on a node of a Ray
cluster that has the GPUs; OpenRLHF spreads its models over them.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

STOPPED = 42
"""The exit status that says: stopped because asked to."""
NAMES = {
    "learning_rate": "actor_learning_rate",
    "critic_learning_rate": "critic_learning_rate",
    "kl_coef": "init_kl_coef",
    "epsilon": "eps_clip",
    "gae_lambda": "lambd",
    "gamma": "gamma",
    "temperature": "temperature",
    "top_p": "top_p",
    "train_batch_size": "train_batch_size",
    "micro_train_batch_size": "micro_train_batch_size",
    "rollout_batch_size": "rollout_batch_size",
    "micro_rollout_batch_size": "micro_rollout_batch_size",
    "epochs": "max_epochs",
    "episodes": "num_episodes",
    "max_samples": "max_samples",
    "prompt_max_len": "prompt_max_len",
    "max_completion_length": "generate_max_len",
    "input_key": "input_key",
    "save_every": "save_steps",
}
"""A study's options and parameters, by OpenRLHF's name."""
ZERO_STAGES = {"single": 2, "zero3": 3}


def arguments(document: Mapping[str, Any]) -> list[str]:
    """OpenRLHF's command line for what ARL wrote in params.json.

    Raises:
        ValueError: the plan or an option is nothing that this launcher passes on.
    """
    plan = document["plan"]
    settings = {**document["options"], **document["parameters"]}
    check(plan, settings)
    inputs, output = document["inputs"], document["output"]
    words = ["--pretrain", inputs["base"], "--reward_pretrain", inputs["reward"]]
    words += ["--prompt_data", f"json@{inputs['train']}", "--apply_chat_template"]
    words += ["--save_path", f"{output}/model", "--ckpt_path", f"{output}/resume"]
    words += ["--seed", str(document["seed"]), "--zero_stage", str(ZERO_STAGES[plan["trainer"]])]
    words += placed(plan, settings)
    words += ["--n_samples_per_prompt", str(plan["group_size"]), "--bf16"]
    if plan["parameterization"] != "full":
        words += ["--lora_rank", str(settings.get("lora_r", 16))]
        words += ["--lora_alpha", str(settings.get("lora_alpha", 32))]
    if plan["parameterization"] == "qlora":
        words += ["--load_in_4bit"]
    for name, theirs in NAMES.items():
        if name in settings:
            words += [f"--{theirs}", str(settings[name])]
    for name in ("gradient_checkpointing", "packing_samples", "normalize_reward"):
        if settings.get(name):
            words += [f"--{name}"]
    if document.get("resume"):
        words += ["--load_checkpoint"]
    return words


def placed(plan: Mapping[str, Any], settings: Mapping[str, Any]) -> list[str]:
    """Who gets which GPUs: all models together, or vLLM's engines apart."""
    gpus, split = plan["trainer_gpus"], settings.get("vllm_tensor_parallel", 1)
    words = []
    for role in ("actor", "critic", "ref", "reward"):
        words += [f"--{role}_num_nodes", str(settings.get("nodes", 1))]
        words += [f"--{role}_num_gpus_per_node", str(gpus // settings.get("nodes", 1))]
    pool = gpus if plan["rollout"] == "colocated" else plan["rollout_gpus"]
    words += ["--vllm_num_engines", str(pool // split), "--vllm_tensor_parallel_size", str(split)]
    words += ["--vllm_sync_backend", "nccl"]
    if plan["rollout"] == "colocated":
        share = str(settings.get("vllm_memory_share", 0.5))
        words += ["--colocate_all_models", "--vllm_gpu_memory_utilization", share]
        return [*words, "--vllm_enable_sleep", "--deepspeed_enable_sleep"]
    return [*words, "--colocate_actor_ref", "--colocate_critic_reward"]


def check(plan: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Raises ValueError, with what to write instead."""
    for axis, allowed in (
        ("stage", ("online_rl",)),
        ("optimizer", ("ppo",)),
        ("reward", ("learned",)),
        ("trainer", tuple(ZERO_STAGES)),
        ("value_model", ("separate",)),
        ("train_precision", ("bf16",)),
        ("rollout_precision", ("bf16",)),
        ("correction", ("none",)),
        ("staleness_bound", (0,)),
        ("rollout", ("colocated", "disaggregated")),
    ):
        if plan[axis] not in allowed:
            words = " or ".join(map(str, allowed))
            raise ValueError(f"program.plan.{axis}: {plan[axis]!r}: this launcher runs {words}")
    for axis in ("trainer_gpus", *(("rollout_gpus",) if plan["rollout"] != "colocated" else ())):
        if not plan[axis]:
            raise ValueError(f"program.plan.{axis}: {plan[axis]!r}: write how many GPUs")
    others = {"lora_r", "lora_alpha", "nodes", "vllm_tensor_parallel", "vllm_memory_share"}
    others |= {"gradient_checkpointing", "packing_samples", "normalize_reward"}
    if unknown := sorted(set(settings) - set(NAMES) - others):
        known = ", ".join(sorted([*NAMES, *others]))
        raise ValueError(f"program.options: {unknown[0]}: unknown; this launcher knows {known}")


def main() -> int:
    document = json.loads(Path(os.environ["ARL_PARAMS"]).read_text())
    try:
        words = arguments(document)
    except ValueError as error:
        print(f"launch: {error}", file=sys.stderr)
        return 2
    if document.get("resume"):
        shutil.copytree(document["resume"], f"{document['output']}/resume", dirs_exist_ok=True)
    argv = [sys.executable, "-m", "openrlhf.cli.train_ppo_ray", *words]
    child = subprocess.Popen(argv, start_new_session=True)
    stop = os.environ.get("ARL_STOP", "")
    while child.poll() is None:
        if stop and os.path.exists(stop):
            os.killpg(child.pid, signal.SIGTERM)  # it goes on from its last save_every steps
            child.wait()
            return STOPPED
        time.sleep(1.0)
    return child.returncode


if __name__ == "__main__":
    sys.exit(main())
