"""What a plan becomes for accelerate, TRL and vLLM: the exact words, on any machine."""

import json
from dataclasses import replace
from typing import Any

import pytest

from inner_trials.plan import Plan, PlanRefused, validate
from inner_trials.planning.configuration import (
    accelerate_config,
    async_grpo_arguments,
    grpo_arguments,
    vllm_arguments,
    vllm_environment,
)
from tests.unit.inner_trials import plan_examples as e

EIGHT = replace(e.dpo, trainer_gpus=8)


def test_fsdp2_is_version_two_with_sharded_state() -> None:
    config = accelerate_config(EIGHT, recomputes=True)
    assert (config["distributed_type"], config["num_processes"]) == ("FSDP", 8)
    assert config["mixed_precision"] == "bf16"
    assert config["fsdp_config"] == {
        "fsdp_version": 2,
        "fsdp_reshard_after_forward": True,
        "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
        "fsdp_state_dict_type": "SHARDED_STATE_DICT",
        "fsdp_cpu_ram_efficient_loading": True,
        "fsdp_activation_checkpointing": True,
        "fsdp_offload_params": False,
    }
    assert "parallelism_config" not in config


def test_split_layers_and_sequences_get_their_sizes() -> None:
    plan = replace(EIGHT, tensor_parallel=2, context_parallel=2)
    validate(plan)
    assert accelerate_config(plan)["parallelism_config"] == {
        "parallelism_config_dp_replicate_size": 1,
        "parallelism_config_dp_shard_size": 2,
        "parallelism_config_tp_size": 2,
        "parallelism_config_cp_size": 2,
    }
    zero = replace(EIGHT, trainer="zero3", context_parallel=4)
    sizes: Any = accelerate_config(zero)["parallelism_config"]
    assert (sizes["parallelism_config_sp_size"], sizes["parallelism_config_dp_shard_size"]) == (
        4,
        2,
    )


def test_zero3_gathers_sixteen_bit_weights_for_the_export() -> None:
    config = accelerate_config(replace(EIGHT, trainer="zero3"), machines=2, steps=4)
    assert (config["distributed_type"], config["num_machines"]) == ("DEEPSPEED", 2)
    assert config["deepspeed_config"] == {
        "zero_stage": 3,
        "zero3_init_flag": True,
        "zero3_save_16bit_model": True,
        "offload_optimizer_device": "none",
        "offload_param_device": "none",
        "gradient_accumulation_steps": 4,
        "deepspeed_multinode_launcher": "standard",
    }


def test_one_process_is_plain() -> None:
    config = accelerate_config(replace(e.full, train_precision="fp32", hardware="cpu"))
    assert (config["distributed_type"], config["num_processes"]) == ("NO", 1)
    assert (config["mixed_precision"], config["use_cpu"]) == ("no", True)


def test_grpo_with_a_server_and_truncated_weights() -> None:
    assert grpo_arguments(replace(e.grpo, loss_type="dapo", reference="moving")) == {
        "num_generations": 8,
        "use_vllm": True,
        "vllm_mode": "server",
        "bf16": True,
        "fp16": False,
        "use_liger_kernel": False,
        "vllm_importance_sampling_correction": True,
        "vllm_importance_sampling_mode": "token_truncate",
        "loss_type": "dapo",
        "sync_ref_model": True,
    }


def test_a_colocated_vllm_sleeps_and_may_be_fused() -> None:
    arguments = grpo_arguments(e.colocated, fused=True, tensor_parallel=2)
    assert (arguments["vllm_mode"], arguments["vllm_tensor_parallel_size"]) == ("colocate", 2)
    assert arguments["vllm_enable_sleep_mode"] is True
    assert arguments["use_liger_kernel"] is True
    assert arguments["vllm_importance_sampling_correction"] is False
    assert "loss_type" not in arguments


@pytest.mark.parametrize(
    ("correction", "mode"),
    [
        ("tis", "token_truncate"),
        ("mis", "token_mask"),
        ("sequence_mask", "sequence_mask"),
        ("importance_sampling", "token_mask"),
    ],
)
def test_each_correction_has_trl_s_name(correction: str, mode: str) -> None:
    arguments = grpo_arguments(replace(e.grpo, correction=correction))
    assert arguments["vllm_importance_sampling_mode"] == mode
    has_no_bound = "vllm_importance_sampling_clip_max" in arguments
    assert has_no_bound is (correction == "importance_sampling")


def test_bounded_asynchronous_grpo_bounds_the_staleness() -> None:
    arguments = async_grpo_arguments(e.asynchronous)
    assert (arguments["max_staleness"], arguments["num_generations"]) == (2, 8)
    assert arguments["heartbeat_stale_after_s"] == 15.0


def test_an_fp8_server_takes_weights_by_nccl() -> None:
    plan = replace(e.grpo, rollout_gpus=4, kv_precision="fp8")
    words = vllm_arguments(plan, "base", tensor_parallel=2, max_length=4096)
    assert words == [
        *("vllm", "serve", "base", "--port", "8000"),
        *("--dtype", "bfloat16", "--quantization", "fp8", "--kv-cache-dtype", "fp8"),
        *("--tensor-parallel-size", "2", "--data-parallel-size", "2"),
        "--enable-prefix-caching",
        *("--logprobs-mode", "processed_logprobs", "--max-logprobs", "-1"),
        *("--max-model-len", "4096"),
        *("--weight-transfer-config", '{"backend": "nccl"}'),
    ]
    assert vllm_environment(plan) == {"VLLM_SERVER_DEV_MODE": "1"}


def test_an_adapter_is_loaded_into_a_running_server() -> None:
    plan = replace(e.asynchronous, sync_payload="adapter")
    words = vllm_arguments(plan, "base", lora_rank=8)
    at = words.index("--enable-lora")
    assert words[at:] == ["--enable-lora", "--max-lora-rank", "8", "--max-loras", "4"]
    assert "--weight-transfer-config" not in words
    adapters = {"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True"}
    assert vllm_environment(replace(plan, staleness_bound=0)) == adapters
    assert vllm_environment(plan) == {**adapters, "VLLM_SERVER_DEV_MODE": "1"}
    assert vllm_environment(e.colocated) == {}


def test_prefill_apart_from_decode_moves_the_cache() -> None:
    words = vllm_arguments(replace(e.plain, prefill_decode="apart", rollout_gpus=2), "base")
    transfer = json.loads(words[words.index("--kv-transfer-config") + 1])
    assert transfer == {"kv_connector": "NixlConnector", "kv_role": "kv_both"}


def test_a_converted_checkpoint_says_its_own_format() -> None:
    words = vllm_arguments(e.fp4, "converted", converted=True)
    assert words[5:7] == ["--dtype", "auto"]
    assert "--quantization" not in words


@pytest.mark.parametrize(
    ("call", "plan", "axis"),
    [
        (accelerate_config, replace(e.dpo, trainer="megatron"), "trainer"),
        (accelerate_config, replace(e.dpo, pipeline_parallel=2), "pipeline_parallel"),
        (accelerate_config, replace(e.dpo, expert_parallel=2), "expert_parallel"),
        (accelerate_config, replace(e.dpo, train_precision="fp8"), "train_precision"),
        (
            accelerate_config,
            replace(e.dpo, trainer="zero3", tensor_parallel=2),
            "tensor_parallel",
        ),
        (grpo_arguments, e.ppo, "optimizer"),
        (grpo_arguments, e.asynchronous, "staleness_bound"),
        (grpo_arguments, replace(e.plain, sync="delta"), "sync"),
        (
            grpo_arguments,
            replace(e.colocated, rollout_precision="fp8", correction="tis"),
            "rollout_precision",
        ),
        (async_grpo_arguments, e.plain, "placement"),
        (lambda plan: vllm_arguments(plan, "m"), e.fp4, "rollout_precision"),
        (
            lambda plan: vllm_arguments(plan, "m"),
            replace(e.grpo, kv_precision="int8"),
            "kv_precision",
        ),
        (lambda plan: vllm_arguments(plan, "m"), e.dpo, "rollout"),
    ],
)
def test_what_a_tool_does_not_do_is_refused_by_its_axis(call: Any, plan: Plan, axis: str) -> None:
    validate(plan)
    with pytest.raises(PlanRefused) as caught:
        call(plan)
    assert caught.value.axis == axis
    assert "write" in caught.value.fix
