"""From a valid plan to the configuration of what runs it: accelerate, TRL and vLLM.

Pure functions, so that what only a cluster of GPUs can run is written down and tested on any
machine. A plan that a tool cannot carry out is refused rather than approximated.
"""

import json
from collections.abc import Mapping
from typing import Final

from inner_trials.planning.axes import (
    AUTO,
    FP4,
    NONE,
    Plan,
    PlanRefused,
    placement_of,
    strategy_of,
)
from inner_trials.planning.topology import replica_gpus, split_ways

Config = dict[str, object]

_MIXED: Final[Mapping[str, str]] = {"fp32": "no", "bf16": "bf16", "fp16": "fp16", "fp8": "fp8"}
_DTYPES: Final[Mapping[str, str]] = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
_MODES: Final[Mapping[str, str]] = {"tis": "token_truncate", "mis": "token_mask"}
"""TRL's names for the corrections that have others here."""


def _cannot(plan: Plan, axis: str, rule: str, fix: str) -> PlanRefused:
    return PlanRefused(axis, getattr(plan, axis), rule, fix)


def accelerate_config(
    plan: Plan, *, machines: int = 1, recomputes: bool = False, steps: int = 1
) -> Config:
    """The file that `accelerate launch --config_file` takes: FSDP2, ZeRO-3 or one process. On a
    CPU accelerate turns FSDP into plain data parallelism without a word: look at its
    distributed_type.

    Args:
        recomputes: activation checkpointing.
        steps: batches of one update (gradient accumulation).

    Raises PlanRefused for megatron, pipeline stages, experts and FP8, which it does not run.
    """
    _check_accelerate(plan)
    processes = plan.trainer_gpus or replica_gpus(plan)
    config: Config = {
        "compute_environment": "LOCAL_MACHINE",
        "debug": False,
        "distributed_type": {"fsdp2": "FSDP", "zero3": "DEEPSPEED"}.get(plan.trainer, "NO"),
        "downcast_bf16": "no",
        "machine_rank": 0,
        "main_training_function": "main",
        "mixed_precision": _MIXED[plan.train_precision],
        "num_machines": machines,
        "num_processes": processes,
        "rdzv_backend": "static",
        "same_network": True,
        "use_cpu": plan.hardware == "cpu",
    }
    if plan.trainer == "fsdp2":
        config["fsdp_config"] = fsdp_config(recomputes=recomputes)
    if plan.trainer == "zero3":
        config["deepspeed_config"] = _zero3(plan, machines=machines, steps=steps)
    if split_ways(plan) > 1:
        config["parallelism_config"] = _parallelism(plan, processes)
    return config


def _check_accelerate(plan: Plan) -> None:
    if plan.trainer == "megatron":
        rule = "accelerate launches no Megatron trainer of ARL's"
        raise _cannot(plan, "trainer", rule, "write fsdp2 or zero3, or launch it by a command")
    for axis in ("pipeline_parallel", "expert_parallel"):
        if getattr(plan, axis) > 1:
            rule = "accelerate does not split a model so"
            raise _cannot(plan, axis, rule, "write 1, or launch it by a command of your own")
    if plan.train_precision == "fp8":
        rule = "accelerate's FP8 needs a backend of your choice"
        raise _cannot(plan, "train_precision", rule, "write bf16, or launch it by a command")


def fsdp_config(*, recomputes: bool) -> Config:
    """Of accelerate's file, and transformers' argument of that name. Version 2 shards each layer
    of the model by itself; SHARDED_STATE_DICT can be read back on another number of processes."""
    return {
        "fsdp_version": 2,
        "fsdp_reshard_after_forward": True,
        "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
        "fsdp_state_dict_type": "SHARDED_STATE_DICT",
        "fsdp_cpu_ram_efficient_loading": True,
        "fsdp_activation_checkpointing": recomputes,
        "fsdp_offload_params": False,
    }


def _zero3(plan: Plan, *, machines: int, steps: int) -> Config:
    if plan.tensor_parallel > 1:
        rule = "accelerate runs no tensor parallelism with DeepSpeed"
        raise _cannot(plan, "tensor_parallel", rule, "write 1, or trainer: fsdp2")
    config: Config = {
        "zero_stage": 3,
        "zero3_init_flag": True,
        "zero3_save_16bit_model": True,
        "offload_optimizer_device": "none",
        "offload_param_device": "none",
        "gradient_accumulation_steps": steps,
    }
    return config | ({"deepspeed_multinode_launcher": "standard"} if machines > 1 else {})


def deepspeed_config() -> Config:
    """What transformers' argument `deepspeed` takes for ZeRO-3; `auto` is what the trainer's other
    arguments say."""
    names = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_clipping")
    return {
        "zero_optimization": {"stage": 3, "contiguous_gradients": True},
        "bf16": {"enabled": "auto"},
        "fp16": {"enabled": "auto"},
        "gradient_accumulation_steps": "auto",
        **dict.fromkeys(names, "auto"),
        "zero_allow_untested_optimizer": True,  # torch's AdamW, as without it
    }


def _parallelism(plan: Plan, processes: int) -> Config:
    """Sequences are split by torch's context parallelism with FSDP2, by DeepSpeed's with ZeRO."""
    sequence = "sp" if plan.trainer == "zero3" else "cp"
    sizes = {
        "dp_replicate": 1,
        "dp_shard": processes // split_ways(plan),
        "tp": plan.tensor_parallel,
        sequence: plan.context_parallel,
    }
    return {f"parallelism_config_{name}_size": size for name, size in sizes.items()}


def grpo_arguments(plan: Plan, *, fused: bool = False, tensor_parallel: int = 1) -> Config:
    """Keyword arguments of TRL's GRPOConfig that the plan decides.

    Args:
        fused: Liger's fused kernels for the loss and the logits.
        tensor_parallel: GPUs of one colocated vLLM.

    Raises PlanRefused for what TRL's trainer does not do.
    """
    _check_synchronous_trl(plan)
    is_server = plan.rollout == "disaggregated"
    arguments: Config = {
        "num_generations": plan.group_size,
        "use_vllm": True,
        "vllm_mode": "server" if is_server else "colocate",
        "bf16": plan.train_precision == "bf16",
        "fp16": plan.train_precision == "fp16",
        "use_liger_kernel": fused,
        **_correction(plan),
    }
    if plan.loss_type != AUTO:
        arguments["loss_type"] = plan.loss_type
    if plan.reference == "moving":
        arguments["sync_ref_model"] = True
    if not is_server:
        arguments["vllm_tensor_parallel_size"] = tensor_parallel
        arguments["vllm_enable_sleep_mode"] = True
    return arguments


def _check_synchronous_trl(plan: Plan) -> None:
    if plan.optimizer != "grpo":
        raise _cannot(plan, "optimizer", "TRL's GRPOTrainer is GRPO", "write optimizer: grpo")
    if plan.staleness_bound:
        rule = "TRL's GRPOTrainer waits for its actors"
        raise _cannot(plan, "staleness_bound", rule, "write 0, or use async_grpo_arguments")
    if strategy_of(plan) == "bounded_replay":
        raise _cannot(plan, "rollout_strategy", "TRL replays nothing", "write group")
    if plan.sync == "delta":
        rule = "TRL sends whole weights or a whole adapter"
        raise _cannot(plan, "sync", rule, "write sync: full")
    if plan.rollout == "colocated" and plan.rollout_precision != plan.train_precision:
        rule = "TRL starts a colocated vLLM in the trainer's precision"
        fix = f"write {plan.train_precision}, or rollout: disaggregated"
        raise _cannot(plan, "rollout_precision", rule, fix)


def _correction(plan: Plan) -> Config:
    if plan.correction == NONE:
        return {"vllm_importance_sampling_correction": False}
    mode = _MODES.get(plan.correction, plan.correction)
    arguments: Config = {"vllm_importance_sampling_correction": True}
    if plan.correction == "importance_sampling":
        # Plain weights: a mask without bounds leaves every one as it is.
        return arguments | {
            "vllm_importance_sampling_mode": "token_mask",
            "vllm_importance_sampling_clip_max": None,
        }
    return arguments | {"vllm_importance_sampling_mode": mode}


def async_grpo_arguments(plan: Plan) -> Config:
    """Keyword arguments of TRL's AsyncGRPOConfig that the plan decides.

    Raises PlanRefused unless the plan is bounded-asynchronous GRPO.
    """
    if plan.optimizer != "grpo" or placement_of(plan) != "bounded_async":
        rule = "the asynchronous trainer is bounded-asynchronous GRPO"
        raise _cannot(plan, "placement", rule, "write placement: bounded_async")
    return {
        "num_generations": plan.group_size,
        "max_staleness": plan.staleness_bound,
        "weight_sync_steps": 1,
        # A rollout worker that is dead is noticed in seconds, not after the default 300.
        "heartbeat_stale_after_s": 15.0,
        "bf16": plan.train_precision == "bf16",
        "fp16": plan.train_precision == "fp16",
    }


def vllm_arguments(
    plan: Plan,
    model: str,
    *,
    port: int = 8000,
    tensor_parallel: int = 1,
    max_length: int | None = None,
    lora_rank: int = 16,
    converted: bool = False,
) -> list[str]:
    """The command line of a rollout server: `vllm serve …`.

    Args:
        model: a directory or a name.
        lora_rank: the largest that it may load, where adapters are sent.
        converted: `model` is a checkpoint in the actors' format already, for formats that vLLM
            does not make of BF16 weights by itself.

    Raises PlanRefused for what vLLM does not serve.
    """
    if plan.rollout == NONE:
        raise _cannot(plan, "rollout", "nothing is rolled out", "write rollout: disaggregated")
    data = max(1, (plan.rollout_gpus or tensor_parallel) // tensor_parallel)
    words = ["vllm", "serve", model, "--port", str(port)]
    words += _format(plan, converted=converted)
    words += _cache(plan)
    words += ["--tensor-parallel-size", str(tensor_parallel), "--data-parallel-size", str(data)]
    words += ["--enable-prefix-caching"]  # a group repeats its prompt
    # The probabilities that tokens were drawn by, temperature and top-p included.
    words += ["--logprobs-mode", "processed_logprobs", "--max-logprobs", "-1"]
    if max_length is not None:
        words += ["--max-model-len", str(max_length)]
    if plan.sync_payload == "adapter":
        loras = str(plan.staleness_bound + 2)
        words += ["--enable-lora", "--max-lora-rank", str(lora_rank), "--max-loras", loras]
    elif plan.sync == "full":
        words += ["--weight-transfer-config", json.dumps({"backend": "nccl"})]
    if plan.prefill_decode == "apart":
        transfer = {"kv_connector": "NixlConnector", "kv_role": "kv_both"}
        words += ["--kv-transfer-config", json.dumps(transfer)]
    return words


def vllm_environment(plan: Plan) -> dict[str, str]:
    """Variables that a rollout server needs so that weights can be sent to it."""
    found: dict[str, str] = {}
    if plan.sync_payload == "adapter":
        found["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] = "True"
    if placement_of(plan) == "bounded_async" or (plan.sync == "full" and not found):
        found["VLLM_SERVER_DEV_MODE"] = "1"  # TRL pauses the server while it sends
    return found


def _format(plan: Plan, *, converted: bool) -> list[str]:
    precision = plan.rollout_precision
    if precision in _DTYPES:
        return ["--dtype", _DTYPES[precision]]
    if converted:
        return ["--dtype", "auto"]  # the checkpoint says its own format
    if precision == "fp8":
        return ["--dtype", "bfloat16", "--quantization", "fp8"]
    if precision in ("int8", *FP4):
        rule = "vLLM serves it only of a converted checkpoint"
        fix = "convert it and write converted=True, or rollout_precision: fp8"
        raise _cannot(plan, "rollout_precision", rule, fix)
    raise _cannot(plan, "rollout_precision", "the actors have no precision", "write bf16")


def _cache(plan: Plan) -> list[str]:
    """vLLM's own words; `auto` is the model's precision."""
    precision = plan.kv_precision
    if precision in (AUTO, NONE, "fp32", "fp16") or precision == plan.rollout_precision:
        return ["--kv-cache-dtype", "fp8" if precision == "fp8" else "auto"]
    words = {"bf16": "bfloat16", "fp8": "fp8"}
    if precision not in words:
        rule = "vLLM's documented KV cache formats are its model's, bfloat16 and fp8"
        raise _cannot(plan, "kv_precision", rule, "write kv_precision: auto or fp8")
    return ["--kv-cache-dtype", words[precision]]
