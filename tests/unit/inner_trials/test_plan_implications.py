"""What a plan implies, and how much memory it takes, against numbers worked out by hand."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from inner_trials.plan import Plan
from inner_trials.planning.contradictions import holds_reference
from inner_trials.planning.implications import Implications, implications
from inner_trials.planning.memory import BYTES, ModelShape, Workload, estimate, kv_bytes
from inner_trials.planning.model_shape import read_shape
from tests.unit.inner_trials import plan_examples as e

GIB = 2**30
SEVEN_B = ModelShape(
    parameters=7_000_000_000,
    num_hidden_layers=32,
    hidden_size=4096,
    intermediate_size=11008,
    num_attention_heads=32,
    num_key_value_heads=32,
    head_dim=128,
    vocab_size=32000,
)
WORK = Workload(sequences=1, tokens=1024, lora_r=16, rollout_sequences=64, rollout_tokens=2048)


def words(found: Implications) -> str:
    return " | ".join((*found.needs, *found.leaves, *found.does_without, *found.to_verify))


@pytest.mark.parametrize("plan", e.VALID, ids=lambda plan: plan.name)
def test_every_plan_needs_a_base_and_says_nothing_twice(plan: Plan) -> None:
    found = implications(plan)
    assert "base model at a fixed revision" in found.needs
    for phrases in (found.needs, found.leaves, found.does_without, found.to_verify):
        assert len(set(phrases)) == len(phrases)


def test_sft_needs_demonstrations_and_no_rollouts() -> None:
    found = implications(e.full)
    assert "demonstrations" in found.needs
    assert {"a rollout engine", "a reward service"} <= set(found.does_without)
    assert "a full checkpoint" in found.leaves
    assert found.called == ()


def test_an_adapter_leaves_itself_and_its_base() -> None:
    found = implications(e.sft)
    assert "the adapter, its base's revision and the quantization settings" in found.leaves
    assert "a BF16 base in GPU memory" in found.does_without
    assert "4-bit loading and dequantization kernels" in found.needs
    assert "4-bit loading and dequantization kernels" not in implications(e.dpo).needs


def test_dpo_needs_a_reference_and_no_weight_sync() -> None:
    found = implications(e.dpo)
    assert any("fixed reference policy" in need for need in found.needs)
    assert "weight sync to actors" in found.does_without
    assert "a sharding plan" in found.needs


def test_rlvr_is_reported_and_needs_no_reward_model() -> None:
    found = implications(e.grpo)
    assert "RLVR" in found.called
    assert "a learned reward model" in found.does_without
    assert "a value model" in found.does_without
    assert "the exact verifier's version" in found.leaves
    assert "RLVR" not in implications(replace(e.grpo, reward="learned")).called
    assert "a value model with its optimizer state" in implications(e.ppo).needs


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (e.plain, "on-policy at every update"),
        (e.grpo, "synchronous, but the actors' numerics are another policy's"),
        (e.asynchronous, "off-policy by at most 2 versions"),
    ],
)
def test_synchronous_is_not_called_on_policy_by_itself(plan: Plan, said: str) -> None:
    assert said in implications(plan).called


def test_what_only_a_run_can_show_is_listed() -> None:
    assert "QLoRA together" in words(implications(replace(e.plain, parameterization="qlora")))
    assert "exact converted model" in words(implications(e.sft))
    assert "reshard" in words(implications(e.dpo))
    assert "makes no actor faster" in words(implications(e.grpo))
    delta = replace(e.plain, sync="delta")
    assert "same actor distribution" in words(implications(delta))
    assert "a barrier after every rollout batch" in implications(e.asynchronous).does_without


def test_full_training_takes_sixteen_bytes_a_parameter() -> None:
    found = estimate(e.full, SEVEN_B, WORK)
    state = found.weights + found.gradients + found.optimizer
    assert state == 16 * SEVEN_B.parameters
    assert found.trained_parameters == SEVEN_B.parameters
    assert (found.actor, found.reference, found.value_model) == (0, 0, 0)
    fp32 = estimate(replace(e.full, train_precision="fp32"), SEVEN_B, WORK)
    assert fp32.weights + fp32.gradients + fp32.optimizer == 16 * SEVEN_B.parameters


def test_sharding_divides_the_state_and_nothing_else() -> None:
    whole = replace(e.full, trainer="fsdp2", trainer_gpus=8)
    one, eight = estimate(e.full, SEVEN_B, WORK), estimate(whole, SEVEN_B, WORK)
    assert eight.optimizer * 8 == one.optimizer
    assert eight.activations == one.activations
    split = replace(whole, tensor_parallel=4, data_parallel=2)
    assert estimate(split, SEVEN_B, WORK).activations * 4 == one.activations
    assert estimate(split, SEVEN_B, WORK).weights == eight.weights


def test_adapters_keep_the_base_and_train_little() -> None:
    found = estimate(replace(e.dpo, trainer="single"), SEVEN_B, WORK)
    # 32 layers of rank 16: four of attention, three of the MLP
    assert found.trained_parameters == 16 * 32 * (4 * 8192 + 3 * 15104)
    assert found.weights == 2 * SEVEN_B.parameters + 2 * found.trained_parameters
    assert found.optimizer == 12 * found.trained_parameters
    assert found.reference == 0
    copied = estimate(replace(e.dpo, trainer="single", reference="copy"), SEVEN_B, WORK)
    assert copied.reference == 2 * SEVEN_B.parameters


def test_a_qlora_base_takes_a_little_over_half_a_byte() -> None:
    found = estimate(e.sft, SEVEN_B, WORK)
    base = found.weights - 2 * found.trained_parameters
    assert base / SEVEN_B.parameters == pytest.approx(0.515875)
    assert BYTES["nvfp4"] == 0.5625
    assert BYTES["mxfp4"] == 0.53125


def test_the_built_in_programs_keep_what_is_frozen_in_fp32() -> None:
    work = replace(WORK, keeps_fp32=True)
    lora = replace(e.dpo, trainer="single", reference="copy")
    found = estimate(lora, SEVEN_B, work)
    assert found.weights == 4 * SEVEN_B.parameters + 2 * found.trained_parameters
    assert found.reference == 4 * SEVEN_B.parameters
    assert estimate(e.full, SEVEN_B, work) == estimate(e.full, SEVEN_B, WORK), "16 bytes in all"
    packed = estimate(e.sft, replace(SEVEN_B, unpacked=1_000_000_000), work)
    base = packed.weights - 2 * packed.trained_parameters
    assert base == pytest.approx(6e9 * BYTES["nf4"] + 4e9)


def test_what_online_training_is_held_against_is_counted() -> None:
    full = replace(e.ppo, parameterization="full", trainer="single", value_model="shared")
    held = replace(WORK, holds_reference=True, keeps_fp32=True)
    assert estimate(full, SEVEN_B, WORK).reference == 0
    assert estimate(full, SEVEN_B, held).reference == 4 * SEVEN_B.parameters
    assert estimate(replace(full, parameterization="lora"), SEVEN_B, held).reference == 0
    assert holds_reference("ppo", {})
    assert not holds_reference("ppo", {"kl_coef": 0.0})
    assert not holds_reference("grpo", {})
    assert holds_reference("grpo", {"beta": 0.04})
    assert not holds_reference("sft", {"beta": 0.04})


def test_the_cache_of_a_13b_token_is_the_published_800_kb() -> None:
    """Kwon et al. 2023, section 3: OPT-13B, FP16."""
    opt = replace(SEVEN_B, num_hidden_layers=40, num_attention_heads=40, num_key_value_heads=40)
    one = replace(WORK, rollout_sequences=1, rollout_tokens=1)
    assert kv_bytes(e.plain, opt, one) == 800 * 1024
    assert kv_bytes(replace(e.plain, kv_precision="fp8"), opt, one) == 400 * 1024
    assert kv_bytes(e.grpo, opt, one) == 800 * 1024  # FP8 weights do not make the cache FP8
    assert kv_bytes(e.sft, opt, one) == 0


def test_actors_take_their_own_precision() -> None:
    assert estimate(e.grpo, SEVEN_B, WORK).actor_weights == SEVEN_B.parameters
    split = replace(e.plain, rollout_gpus=4)
    whole = estimate(e.plain, SEVEN_B, WORK)
    assert estimate(split, SEVEN_B, WORK).actor_weights == whole.actor_weights
    assert estimate(split, SEVEN_B, WORK).kv_cache * 4 == whole.kv_cache


def test_checkpointing_keeps_two_of_thirty_four() -> None:
    no_words = replace(SEVEN_B, vocab_size=0)
    kept = estimate(e.full, no_words, WORK).activations
    assert kept == 34 * 32 * 1024 * 4096
    again = estimate(e.full, no_words, replace(WORK, recomputes=True)).activations
    assert again * 17 == kept


def test_a_separate_critic_costs_as_much_as_the_policy() -> None:
    full = replace(e.ppo, parameterization="full", trainer="single")
    found = estimate(full, SEVEN_B, WORK)
    assert found.value_model == 16 * SEVEN_B.parameters
    assert estimate(replace(full, value_model="shared"), SEVEN_B, WORK).value_model == 0
    assert found.trainer > 200 * GIB


def write_model(directory: Path, config: object, header: bytes) -> Path:
    directory.mkdir(exist_ok=True)
    (directory / "config.json").write_text(json.dumps(config))
    size = len(header).to_bytes(8, "little")
    (directory / "model.safetensors").write_bytes(size + header + b"\0" * 8)
    return directory


CONFIG = {"num_attention_heads": 4, "hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 19}
HEADER = json.dumps({"__metadata__": {}, "a": {"shape": [3, 5]}, "b": {"shape": []}}).encode()


def test_a_model_s_shape_is_read_from_its_files(tmp_path: Path) -> None:
    shape = read_shape(write_model(tmp_path / "m", CONFIG, HEADER))
    assert (shape.parameters, shape.head_dim, shape.num_key_value_heads) == (16, 16, 4)
    assert (shape.intermediate_size, shape.vocab_size) == (256, 19)
    grouped = read_shape(write_model(tmp_path / "m", {**CONFIG, "num_key_value_heads": 2}, HEADER))
    assert grouped.num_key_value_heads == 2


@pytest.mark.parametrize(
    ("config", "header", "said"),
    [
        ({**CONFIG, "num_attention_heads": 0}, HEADER, "no model's directory"),
        ({"hidden_size": 64}, HEADER, "does not say 'num_attention_heads'"),
        ([], HEADER, "no model's directory"),
        (CONFIG, b"{", "Expecting property name"),
        (CONFIG, b"[]", "no model's directory"),
        (CONFIG, b'{"a": {}}', "does not say 'shape'"),
    ],
)
def test_what_is_no_model_is_said_in_a_line(
    tmp_path: Path, config: object, header: bytes, said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        read_shape(write_model(tmp_path / "m", config, header))
    with pytest.raises(ValueError, match=r"No such file or directory: config\.json"):
        read_shape(tmp_path)


def test_what_four_bits_leave_as_it_is_is_read_from_the_names(tmp_path: Path) -> None:
    names = ("model.embed_tokens.weight", "lm_head.weight", "model.layers.0.mlp.up_proj.weight")
    header = json.dumps({name: {"shape": [2, place + 1]} for place, name in enumerate(names)})
    found = read_shape(write_model(tmp_path / "model", CONFIG, header.encode()))
    assert (found.parameters, found.unpacked) == (2 + 4 + 6, 2 + 4)
