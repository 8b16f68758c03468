"""The names that a plan's configurations use, against the installed accelerate and TRL."""

import dataclasses
import json
from dataclasses import replace
from pathlib import Path

import pytest

from inner_trials.planning.configuration import (
    accelerate_config,
    async_grpo_arguments,
    grpo_arguments,
)
from tests.unit.inner_trials import plan_examples as e

EIGHT = replace(e.dpo, trainer_gpus=8)


@pytest.mark.train
def test_every_name_is_one_of_the_installed_libraries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    from accelerate.commands.config.config_args import ClusterConfig
    from accelerate.commands.launch import launch_command_parser
    from trl import GRPOConfig
    from trl.experimental.async_grpo import AsyncGRPOConfig

    known = {field.name for field in dataclasses.fields(GRPOConfig)}
    for plan in (e.grpo, e.colocated, replace(e.plain, reference="moving", loss_type="dapo")):
        assert set(grpo_arguments(plan)) <= known
    known = {field.name for field in dataclasses.fields(AsyncGRPOConfig)}
    assert set(async_grpo_arguments(e.asynchronous)) <= known
    options = {action.dest for action in launch_command_parser()._actions}
    options |= {"gradient_accumulation_steps"}
    for plan in (
        e.full,
        replace(EIGHT, tensor_parallel=2, context_parallel=2),
        replace(EIGHT, trainer="zero3", context_parallel=2),
    ):
        config = accelerate_config(plan)
        file = tmp_path / f"{plan.trainer}.json"
        file.write_text(json.dumps(config))
        read = ClusterConfig.from_json_file(json_file=file)
        assert read.num_processes == config["num_processes"]
        for section in ("fsdp_config", "deepspeed_config", "parallelism_config"):
            assert set(getattr(read, section) or {}) <= options
