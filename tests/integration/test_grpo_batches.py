"""Completions are the same in whatever batches they are sampled, and so is what is learned."""

import copy
from pathlib import Path
from typing import Any

import pytest

from inner_trials import rollouts
from inner_trials.settings import SettingsError, read_settings

# The libraries warn about each other while they are imported.
pytestmark = [pytest.mark.train, pytest.mark.filterwarnings("ignore")]

torch = pytest.importorskip("torch")

END, PAD = 1, 0
PROMPTS = [[2, *[5 + at] * at, 1, 3] for at in (1, 7, 4) for _ in range(4)]
BATCHINGS: list[dict[str, Any]] = [
    {"buckets": 3},
    {"straggler_tokens": 3},
    {"share_prefix": True},
    {"buckets": 2, "straggler_tokens": 5, "share_prefix": True},
]


@pytest.fixture(scope="module")
def model(task: Path) -> Any:
    from inner_trials import models

    torch.manual_seed(0)
    model = models.load_model(task / "base")
    with torch.no_grad():  # a fresh model finds all tokens about as likely
        model.lm_head.weight.normal_(std=0.3)
    return model.eval()


def sampler(**options: Any) -> Any:
    from transformers import GenerationConfig

    from inner_trials.group_sampling import Batching, GroupSampler

    batching = {name: options.pop(name) for name in list(options) if name in Batching.__slots__}
    settings = GenerationConfig(do_sample=True, **options)
    return GroupSampler(settings, ends=[END], pad=PAD, batching=Batching(**batching))


@pytest.mark.parametrize("batching", BATCHINGS, ids=str)
@pytest.mark.parametrize("penalty", [1.0, 1.5])
def test_the_same_completions_are_sampled_in_whatever_batches(
    model: Any, batching: dict[str, Any], penalty: float
) -> None:
    said, late = [], 0
    for options in ({}, batching):
        torch.manual_seed(1)
        one = sampler(repetition_penalty=penalty, top_k=15, **options)
        said.append(one.sample(model, PROMPTS, 20))
        late = one.stragglers
    assert said[0] == said[1]
    assert len(said[0]) == len(PROMPTS)
    lengths = {len(tokens) for tokens in said[0]}
    assert len(lengths) > 3, "they should differ, or nothing is shown"
    assert all(END not in tokens[:-1] for tokens in said[0])
    assert late == (
        sum(len(tokens) > batching["straggler_tokens"] for tokens in said[0])
        if "straggler_tokens" in batching
        else 0
    )


def test_the_likeliest_token_each_time_is_what_transformers_generates(model: Any) -> None:
    found = sampler(top_k=1, buckets=2, share_prefix=True).sample(model, PROMPTS, 12)
    for prompt, said in zip(PROMPTS, found, strict=True):
        out = model.generate(
            input_ids=torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
            do_sample=False,
            max_new_tokens=12,
            eos_token_id=END,
            pad_token_id=PAD,
        )
        assert out[0, len(prompt) :].tolist() == said


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": 0.5},
        {"top_k": 3},
        {"top_p": 0.6},
        {"min_p": 0.3},
        {"repetition_penalty": 2.0, "temperature": 2.0},
    ],
    ids=str,
)
def test_tokens_are_as_frequent_as_transformers_would_draw_them(
    model: Any, options: dict[str, Any]
) -> None:
    """Against the scores that `generate` itself samples from."""
    prompt = [2, 5, 6, 7, 1, 3]
    out = model.generate(
        input_ids=torch.tensor([prompt]),
        attention_mask=torch.ones(1, 6, dtype=torch.long),
        do_sample=True,
        **{"top_k": 0, **options},
        max_new_tokens=1,
        eos_token_id=END,
        pad_token_id=PAD,
        return_dict_in_generate=True,
        output_scores=True,
    )
    expected = out.scores[0][0].softmax(dim=0)
    torch.manual_seed(2)
    said = sampler(share_prefix=True, **options).sample(model, [prompt] * 4000, 1)
    found = torch.bincount(torch.tensor(said).flatten(), minlength=len(expected)) / 4000
    assert (found[expected == 0.0] == 0.0).all()
    # Four standard errors of the most uncertain frequency.
    assert (found - expected).abs().max() < 4 * 0.5 / 4000**0.5


@pytest.mark.parametrize("parameterization", ["full", "lora"])
def test_a_shared_prompt_gives_the_plain_paths_log_probabilities_and_gradients(
    run_of: Any, parameterization: str
) -> None:
    trainer, _, _ = run_of(parameterization=parameterization)
    shared, _, _ = run_of(parameterization=parameterization, share_prefix=True)
    for module in (trainer, shared):
        module.model.train()
        if parameterization == "lora":
            with torch.no_grad():
                for name, weight in module.model.named_parameters():
                    if "lora_B" in name:
                        weight.fill_(0.01)
    torch.manual_seed(0)
    ids, mask = torch.randint(4, 19, (8, 10)), torch.ones(8, 10, dtype=torch.long)
    groups = torch.tensor([0, 1, 0, 1, 1, 0, 0, 1])  # as shuffled for the update
    ids[:, :4] = ids[groups, :4]
    mask[groups == 0, :2] = 0
    mask[2, -2:] = 0
    found = []
    for one in (trainer, shared):
        logprobs, entropies, _ = one._get_per_token_logps_and_entropies(
            one.model, ids, mask, 6, compute_entropy=True
        )
        (logprobs * torch.linspace(0.1, 1.0, 6)).sum().backward()
        grads = [p.grad for p in one.model.parameters() if p.grad is not None]
        found.append((logprobs, entropies, grads))
    (plain, entropy, grads), (ours, our_entropy, our_grads) = found
    torch.testing.assert_close(ours, plain, atol=2e-6, rtol=0.0)
    torch.testing.assert_close(our_entropy, entropy, atol=2e-6, rtol=0.0)
    assert len(grads) == len(our_grads) > 0
    for a, b in zip(grads, our_grads, strict=True):
        torch.testing.assert_close(b, a, atol=2e-5, rtol=1e-4)


def test_prompts_are_computed_once_for_a_group() -> None:
    from inner_trials.shared_prefix import distinct_rows

    lines, group = distinct_rows(torch.tensor([[1, 2], [3, 4], [1, 2], [3, 5], [3, 4]]))
    assert lines.tolist() == [0, 1, 3]
    assert group.tolist() == [0, 1, 0, 2, 1]


def micro_batch(lengths: list[int], first: int, width: int = 6) -> dict[str, Any]:
    rows = len(lengths)
    mask = torch.tensor([[1] * n + [0] * (width - n) for n in lengths])
    name = torch.arange(first, first + rows)
    return {
        "prompt_ids": name.unsqueeze(1).repeat(1, 3),
        "prompt_mask": torch.tensor([[0, 1, 1]] * rows),
        "completion_ids": name.unsqueeze(1) * mask,
        "completion_mask": mask,
        "advantages": name.float(),
        "num_items_in_batch": torch.tensor(9),
        "rollout": name,
    }


def test_an_update_keeps_its_rows_whole_and_sorted_by_length() -> None:
    from inner_trials.length_buckets import by_length

    lengths = [[5, 1], [2, 4], [3, 3], [0, 1]]
    batches = [micro_batch(some, at * 2) for at, some in enumerate(lengths)]
    found = by_length(copy.deepcopy(batches), 2)
    assert [batch["rollout"].tolist() for batch in found] == [[1, 2], [3, 0], [7, 4], [5, 6]]
    assert [batch["completion_ids"].shape[1] for batch in found] == [2, 5, 3, 6]
    for batch in found:
        assert batch["prompt_ids"].shape[1] == 2, "without the padding that all rows have"
        assert torch.equal(batch["prompt_ids"][:, 0], batch["rollout"])
        assert torch.equal(batch["advantages"], batch["rollout"].float())
        assert (
            batch["completion_ids"] == batch["rollout"][:, None] * batch["completion_mask"]
        ).all()
        assert int(batch["num_items_in_batch"]) == 9


@pytest.mark.parametrize(
    "loss_type",
    [
        "dapo",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("grpo", "dr_grpo", "cispo")),
    ],
)
def test_buckets_and_stragglers_change_no_sample_and_no_update(
    run_of: Any, tmp_path: Path, loss_type: str
) -> None:
    weights, records, learned = [], [], []
    for more in (
        {"share_prefix": True},
        {"length_buckets": 2, "straggler_tokens": 2},
    ):
        trainer, _, _ = run_of(
            max_steps=2,
            loss_type=loss_type,
            epsilon_high=5.0 if loss_type == "cispo" else None,
            gradient_accumulation_steps=2,
            verifier="numeric",
            format_weight=1.0,
            learning_rate=1e-3,
            **more,
        )
        before = copy.deepcopy(trainer.model.state_dict())
        trainer.train()
        trainer.close_rollouts()
        moved = [(trainer.model.state_dict()[n] - w).abs().max() for n, w in before.items()]
        assert max(moved) > 1e-3, "or there would be nothing to compare"
        weights.append(copy.deepcopy(trainer.model.state_dict()))
        rows = rollouts.read_rollouts(tmp_path / "output" / "rollouts")
        names = ("group", "sample", "prompt_tokens", "completion_tokens", "reward", "loss_mask")
        records.append([{name: row[name] for name in names} for row in rows])
        learned.append(
            [line["completions_learned"] for line in trainer.state.log_history if "loss" in line]
        )
    assert records[0] == records[1]
    assert len({len(row["completion_tokens"]) for row in records[0]}) > 2
    assert learned == [[16.0, 16.0]] * 2
    for name, value in weights[0].items():
        torch.testing.assert_close(weights[1][name], value, atol=2e-5, rtol=1e-4, msg=name)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"straggler_tokens": 6}, "must be less than max_completion_length"),
        ({"share_prefix": True, "gradient_checkpointing": True}, "turn one of them off"),
        ({"share_prefix": True, "lora_dropout": 0.1}, "the same for a whole group"),
        ({"length_buckets": 0}, "length_buckets: 0 must be 1 or more"),
        (
            {"length_buckets": 2, "generation": "vllm_colocated"},
            "options.generation: vllm_colocated makes batches",
        ),
        (
            {"length_buckets": 2, "gradient_accumulation_steps": 2, "loss_type": "bnpo"},
            "with loss_type bnpo it matters",
        ),
        (
            {"length_buckets": 2, "gradient_accumulation_steps": 2, "entropy_coef": 0.1},
            "with entropy_coef 0.1 it matters",
        ),
    ],
    ids=str,
)
def test_batches_that_make_no_sense_are_refused(options: dict[str, Any], said: str) -> None:
    from inner_trials import grpo_settings

    given = {"max_completion_length": 6, **options}
    with pytest.raises(SettingsError, match=said):
        grpo_settings.check_settings(read_settings(grpo_settings.Settings, {"options": given}))
