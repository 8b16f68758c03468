"""What GRPO sampled is on record: read back, it gives the trainer's own ratios again."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from inner_trials import online, pins, rollouts
from inner_trials.data import DataError

# The libraries warn about each other while they are imported.
pytestmark = [pytest.mark.train, pytest.mark.filterwarnings("ignore")]

torch = pytest.importorskip("torch")


def rows_of(tmp_path: Path) -> list[dict[str, Any]]:
    return rollouts.read_rollouts(tmp_path / "output" / "rollouts")


@pytest.mark.parametrize("parameterization", ["full", "lora"])
def test_ratios_from_the_record_are_the_trainers_own(
    run_of: Any, tmp_path: Path, parameterization: str
) -> None:
    trainer, _, _ = run_of(
        max_steps=2,
        num_iterations=2,
        parameterization=parameterization,
        format_weight=1.0,  # an untrained model is at times well-formed, though never right
        verifier="numeric",
        learning_rate=1e-2,
    )
    seen: dict[str, Any] = {}
    measure = trainer._measure_ratios

    def remember(inputs: dict[str, Any]) -> None:
        measure(inputs)
        if trainer.state.global_step == 1:
            old = inputs["old_per_token_logps"]
            seen["ratios"] = torch.exp(trainer._logprobs - old).tolist()
            seen["order"] = inputs["rollout"].tolist()
            seen["weights"] = copy.deepcopy(trainer.model.state_dict())

    trainer._measure_ratios = remember
    trainer.train()
    trainer.close_rollouts()
    rows = rows_of(tmp_path)
    assert len(rows) == 8
    pad = trainer.processing_class.pad_token_id
    trainer.model.load_state_dict(seen["weights"])
    now = rollouts.token_logprobs(trainer.model.eval(), rows, temperature=1.3, pad=pad)
    moved = 0.0
    for ratios, index in zip(seen["ratios"], seen["order"], strict=True):
        for at, (new, old) in enumerate(
            zip(now[index], rows[index]["behaviour_logprobs"], strict=True)
        ):
            again = float(torch.exp(torch.tensor(new) - torch.tensor(old)))
            assert again == pytest.approx(ratios[at], abs=1e-6)
            moved = max(moved, abs(again - 1))
    assert moved > 1e-3, "the second update starts from ratios that are not all 1"


def test_behaviour_probabilities_are_those_of_the_policy_that_sampled(
    run_of: Any, tmp_path: Path
) -> None:
    trainer, _, _ = run_of(max_steps=1, beta=0.1)
    before = copy.deepcopy(trainer.model.state_dict())
    trainer.train()
    trainer.close_rollouts()
    rows = rows_of(tmp_path)
    pad = trainer.processing_class.pad_token_id
    trainer.model.load_state_dict(before)
    again = rollouts.token_logprobs(trainer.model.eval(), rows, temperature=1.3, pad=pad)
    for row, logprobs in zip(rows, again, strict=True):
        assert row["behaviour_source"] == "trainer"
        assert row["behaviour_logprobs"] == row["trainer_logprobs"]
        assert row["behaviour_logprobs"] == pytest.approx(logprobs, abs=1e-6)
        assert row["reference_logprobs"] == pytest.approx(logprobs, abs=1e-6)


def test_a_row_says_where_it_came_from(run_of: Any, tmp_path: Path, task: Path) -> None:
    trainer, _, job = run_of(max_steps=2, format_weight=0.5, verifier="numeric")
    trainer.train()
    trainer.close_rollouts()
    rows = rows_of(tmp_path)
    assert [row["policy_version"] for row in rows] == [0] * 8 + [1] * 8
    assert [row["group"] for row in rows] == [0] * 4 + [1] * 4 + [2] * 4 + [3] * 4
    assert [row["sample"] for row in rows] == [0, 1, 2, 3] * 4
    pinned = pins.read_pins(task / "base")
    revisions = {online.revision_of(prompt): prompt for prompt in job.prompts}
    for row in rows:
        assert (row["tokenizer"], row["chat_template"]) == tuple(pinned.values())
        assert (row["seed"], row["verifier"], row["environment"]) == (3, "numeric/1", None)
        sampling = json.loads(row["sampling"])
        assert sampling["temperature"] == 1.3
        assert sampling["max_completion_length"] == 6
        assert sampling["stop_token_ids"] == [1]
        prompt = revisions[row["prompt_revision"]].prompt
        text = trainer.processing_class.decode(row["prompt_tokens"])
        assert text == f"<|user|>{prompt}<|end|><|assistant|>"
        assert set(row["rewards"]) == {"verifier", "well_formed"}
        assert row["reward"] == row["rewards"]["verifier"] + 0.5 * row["rewards"]["well_formed"]
        count = len(row["completion_tokens"])
        assert len(row["loss_mask"]) == len(row["behaviour_logprobs"]) == count <= 6
        assert row["ended"] == (row["completion_tokens"][-1] == 1)
        assert row["loss_mask"] == [1] * count


def test_truncated_completions_are_masked_and_say_so(run_of: Any, tmp_path: Path) -> None:
    trainer, _, _ = run_of(max_steps=1, mask_truncated_completions=True, max_completion_length=2)
    trainer.train()
    trainer.close_rollouts()
    rows = rows_of(tmp_path)
    cut = [row for row in rows if not row["ended"]]
    assert cut, "an untrained model seldom ends within two tokens"
    assert all(row["loss_mask"] == [0, 0] for row in cut)


def test_the_record_stops_at_its_size_and_counts_what_it_left_out(tmp_path: Path) -> None:
    origin = rollouts.Origin(
        tokenizer="t",
        chat_template=None,
        sampling={},
        seed=0,
        verifier="exact/1",
        verifier_options={},
    )
    row = rollouts.Rollout(
        policy_version=0,
        group=0,
        sample=0,
        prompt_revision="r",
        prompt_tokens=[1],
        completion_tokens=[2],
        loss_mask=[1],
        behaviour_source="trainer",
        behaviour_logprobs=[-1.0],
        trainer_logprobs=[-1.0],
        reference_logprobs=None,
        rewards={"verifier": 1.0, "none": None},
        reward=1.0,
        advantage=0.0,
        ended=True,
    )
    writer = rollouts.RolloutWriter(tmp_path / "rollouts", origin, limit_bytes=1)
    for _ in range(3):
        writer.add([row])
        writer.close_part()
    (kept,) = rollouts.read_rollouts(tmp_path / "rollouts")
    assert kept["rewards"] == {"verifier": 1.0, "none": None}
    assert writer.left_out == 2


def test_parts_in_a_checkpoint_are_what_a_resumed_run_goes_on_from(tmp_path: Path) -> None:
    origin = rollouts.Origin(
        tokenizer="t",
        chat_template="c",
        sampling={},
        seed=0,
        verifier="exact/1",
        verifier_options={},
    )
    first = rollouts.RolloutWriter(tmp_path / "a" / "rollouts", origin, limit_bytes=10**6)
    (tmp_path / "a" / "rollouts").mkdir(parents=True)
    (tmp_path / "a" / "rollouts" / "part-00000.parquet").write_bytes(b"kept")
    (tmp_path / "checkpoint").mkdir()
    first.keep_in(tmp_path / "checkpoint")
    second = rollouts.RolloutWriter(tmp_path / "b" / "rollouts", origin, limit_bytes=10**6)
    (tmp_path / "b" / "rollouts").mkdir(parents=True)
    (tmp_path / "b" / "rollouts" / "part-00001.parquet").write_bytes(b"lost")
    second.take_from(tmp_path / "checkpoint")
    assert [part.read_bytes() for part in second.parts()] == [b"kept"]


def test_prompts_without_room_for_an_answer_are_refused_or_dropped(
    run_of: Any, task: Path, tmp_path: Path
) -> None:
    data = tmp_path / "train.jsonl"
    rows = [{"prompt": "sort 1", "answer": "1"}, {"prompt": "sort 1" * 30, "answer": "1"}]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(DataError, match="1 of 2 prompts have more than 58 tokens"):
        run_of({"train": data})
    trainer, _, _ = run_of({"train": data}, too_long="drop")
    assert trainer.train_dataset["row"][:] == [0]


def test_the_reference_of_full_training_is_the_base_with_what_was_merged_into_it(
    run_of: Any,
) -> None:
    trainer, _, _ = run_of(max_steps=1, beta=0.5)
    same = dict(trainer.ref_model.named_parameters())
    for name, parameter in trainer.model.named_parameters():
        assert torch.equal(parameter, same[name]), name
    assert not trainer.args.gradient_checkpointing, "of no use on a small model, and slow"
    assert not trainer.args.bf16
