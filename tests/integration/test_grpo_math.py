"""Advantages, losses, KL estimates and corrections: by hand, and beside TRL's own numbers."""

import math
from pathlib import Path
from typing import Any

import pytest

from inner_trials import demo_task, grpo, grpo_settings
from inner_trials.settings import SettingsError, read_settings

# The libraries warn about each other while they are imported.
pytestmark = [pytest.mark.train, pytest.mark.filterwarnings("ignore")]

torch = pytest.importorskip("torch")

LOGPROBS = [[-1.0, -2.0, -0.5], [-0.3, -1.5, -4.0]]
OLD = [[-1.2, -1.5, -0.5], [-0.9, -1.5, -3.0]]
REFERENCE = [[-1.1, -2.5, -0.4], [-0.3, -1.0, -4.5]]
SAMPLER = [[-1.0, -3.0, -0.6], [-0.9, -1.4, -3.5]]
MASK = [[1, 1, 0], [1, 1, 1]]
ADVANTAGES = [1.5, -0.5]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("base")
    demo_task.write_base(directory)
    demo_task.write_tokenizer(directory)
    (directory.parent / "train.jsonl").write_text('{"prompt": "sort 21", "answer": "12"}\n' * 8)
    return directory


@pytest.fixture
def trainer_of(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A real trainer with these options, whose model's numbers are the table above."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("ARL_OUTPUT", str(tmp_path / "output"))

    def make(**options: Any) -> Any:
        job = job_of(base, max_steps=1, **options)
        from inner_trials.grpo_events import OnlineEvents

        trainer = grpo.build_trainer(job, OnlineEvents({}, cycle=1))
        trainer.current_gradient_accumulation_steps = 1
        trainer.model.train()
        found = torch.tensor(LOGPROBS, requires_grad=True)
        trainer._get_per_token_logps_and_entropies = lambda *_, **__: (
            found,
            torch.ones_like(found),
            None,
        )
        return trainer

    return make


def job_of(base: Path, **options: Any) -> grpo.Job:
    from inner_trials import health, prompts
    from inner_trials.verifiers.registry import make_verifier

    usual = {
        "num_generations": 2,
        "per_device_train_batch_size": 2,
        "max_completion_length": 3,
        "max_length": 64,
        "rollout_mib": 0,
    }
    settings = read_settings(grpo_settings.Settings, {"options": {**usual, **options}})
    grpo_settings.check_settings(settings)
    shape, rows = prompts.read_prompts(base.parent / "train.jsonl")
    verifier = make_verifier("exact", {})
    return grpo.Job(settings, base, None, verifier, None, health.ALARMS, shape, rows, [], 0)


def loss_of(trainer: Any, **more: Any) -> float:
    mask = torch.tensor(MASK)
    from trl import GRPOTrainer

    return float(
        GRPOTrainer._compute_loss(
            trainer,
            trainer.model,
            {
                "prompt_ids": torch.ones(2, 1, dtype=torch.long),
                "prompt_mask": torch.ones(2, 1, dtype=torch.long),
                "completion_ids": torch.ones(2, 3, dtype=torch.long),
                "completion_mask": mask,
                "advantages": torch.tensor(ADVANTAGES),
                "old_per_token_logps": torch.tensor(OLD),
                "ref_per_token_logps": torch.tensor(REFERENCE),
                "num_items_in_batch": mask.sum(),
                **more,
            },
        ).detach()
    )


def ours(
    how: str, *, level: str = "token", low: float = 0.2, high: float = 0.2, **more: Any
) -> Any:
    from inner_trials import policy_math as pm

    logprobs, old, mask = torch.tensor(LOGPROBS), torch.tensor(OLD), torch.tensor(MASK)
    advantages = torch.tensor(ADVANTAGES).unsqueeze(1)
    if level == "token":
        ratios = pm.token_ratios(logprobs, old)
    else:
        ratios = pm.sequence_ratios(logprobs, old, mask)
    if how == "cispo":
        losses = pm.cispo_losses(ratios, advantages, logprobs, high=high)
    else:
        losses = pm.clipped_losses(ratios, advantages, low=low, high=high, delta=more.get("delta"))
    losses = losses * more.get("weights", 1.0)
    if "beta" in more:
        reference = torch.tensor(REFERENCE)
        # TRL weights the estimate by the ratio, which makes its gradient right off policy.
        losses = losses + more["beta"] * ratios * pm.kl_estimates(logprobs, reference, "k3")
    return float(pm.aggregate(losses, mask, how, constant=3.0))


def test_advantages_by_hand() -> None:
    from inner_trials.policy_math import group_advantages

    rewards = torch.tensor([1.0, 0.0, 0.0, 1.0, 5.0, 5.0, 5.0, 5.0])
    mean_only = group_advantages(rewards, 4, "none").tolist()
    assert mean_only == [0.5, -0.5, -0.5, 0.5, 0.0, 0.0, 0.0, 0.0]
    scaled = group_advantages(rewards, 4, "group").tolist()
    assert scaled[0] == pytest.approx(0.5 / (math.sqrt(1 / 3) + 1e-4))
    assert scaled[4:] == [0.0] * 4, "equal rewards teach nothing, and nothing is divided by zero"
    batch = group_advantages(rewards, 4, "batch").tolist()
    assert batch[0] == pytest.approx(0.5 / (rewards.std().item() + 1e-4))


def test_losses_by_hand() -> None:
    # Ratios: e^0.2, e^-0.5 and a masked one; e^0.6, 1, e^-1.
    first = [-min(math.exp(0.2), 1.2) * 1.5, -math.exp(-0.5) * 1.5]
    second = [0.5 * math.exp(0.6), 0.5, 0.5 * 0.8]
    assert ours("grpo") == pytest.approx((sum(first) / 2 + sum(second) / 3) / 2)
    assert ours("bnpo") == pytest.approx((sum(first) + sum(second)) / 5)
    assert ours("dr_grpo") == pytest.approx((sum(first) + sum(second)) / 6)
    whole = [math.exp((0.2 - 0.5) / 2), math.exp((0.6 + 0 - 1) / 3)]
    assert ours("grpo", level="sequence") == pytest.approx(
        (-max(whole[0], 0.0) * 1.5 + 0.5 * whole[1]) / 2
    )
    weighted = [math.exp(0.2) * 1.0, math.exp(-0.5) * 2.0]
    others = [math.exp(0.6) * 0.3, 1.5, math.exp(-1.0) * 4.0]
    assert ours("cispo", high=5.0) == pytest.approx((1.5 * sum(weighted) - 0.5 * sum(others)) / 5)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"loss_type": "grpo"}, {"how": "grpo"}),
        ({"loss_type": "bnpo"}, {"how": "bnpo"}),
        ({"loss_type": "dapo"}, {"how": "dapo"}),
        ({"loss_type": "dr_grpo"}, {"how": "dr_grpo"}),
        ({"loss_type": "dapo", "epsilon_high": 0.28}, {"how": "dapo", "high": 0.28}),
        ({"loss_type": "grpo", "epsilon": 0.1}, {"how": "grpo", "low": 0.1, "high": 0.1}),
        ({"loss_type": "grpo", "delta": 1.5}, {"how": "grpo", "delta": 1.5}),
        ({"loss_type": "cispo", "epsilon_high": 5.0}, {"how": "cispo", "high": 5.0}),
        (
            {"loss_type": "grpo", "importance_sampling_level": "sequence"},
            {"how": "grpo", "level": "sequence"},
        ),
        ({"loss_type": "grpo", "beta": 0.3}, {"how": "grpo", "beta": 0.3}),
    ],
    ids=str,
)
def test_trls_loss_is_the_formula(
    trainer_of: Any, options: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert loss_of(trainer_of(**options)) == pytest.approx(ours(**expected), rel=1e-6)


def test_padding_and_what_follows_the_end_change_no_loss(trainer_of: Any) -> None:
    trainer = trainer_of(loss_type="grpo")
    del trainer._get_per_token_logps_and_entropies  # the model's own numbers
    inputs = {
        "prompt_ids": torch.tensor([[0, 5, 6], [4, 7, 8]]),
        "prompt_mask": torch.tensor([[0, 1, 1], [1, 1, 1]]),
        "completion_ids": torch.tensor([[5, 1, 0], [6, 9, 1]]),
        "old_per_token_logps": None,
    }
    before = loss_of(trainer, **inputs)
    inputs["prompt_ids"][0, 0] = inputs["completion_ids"][0, 2] = 9
    assert loss_of(trainer, **inputs) == before
    ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], dim=1)
    attended = torch.cat([inputs["prompt_mask"], torch.tensor(MASK)], dim=1)
    with torch.no_grad():
        scores = trainer.model(input_ids=ids, attention_mask=attended).logits.log_softmax(-1)
    wanted = scores[:, 2:5].gather(-1, ids[:, 3:].unsqueeze(-1)).squeeze(-1)
    wanted, found = wanted * torch.tensor(MASK), trainer._logprobs * torch.tensor(MASK)
    assert found.flatten().tolist() == pytest.approx(wanted.flatten().tolist(), rel=1e-5)


def test_the_later_losses_of_trl_are_those_of_their_papers(trainer_of: Any) -> None:
    def soft(ratio: float, temperature: float) -> float:
        return 4 / temperature / (1 + math.exp(-temperature * (ratio - 1)))

    # SAPO (Gao et al. 2025, equation 6): a sigmoid in place of the clip, 1 where nothing changed
    first = [-1.5 * soft(math.exp(log), 1.0) for log in (0.2, -0.5)]
    second = [0.5 * soft(math.exp(log), 1.05) for log in (0.6, 0.0, -1.0)]
    wanted = (sum(first) / 2 + sum(second) / 3) / 2
    assert loss_of(trainer_of(loss_type="sapo")) == pytest.approx(wanted, rel=1e-6)
    # LUSPO: GSPO's ratio of a sequence, weighted by its length
    whole = [math.exp((0.2 - 0.5) / 2), math.exp((0.6 + 0 - 1) / 3)]
    wanted = (2 * -1.5 * whole[0] + 3 * 0.5 * whole[1]) / 2
    assert loss_of(trainer_of(loss_type="luspo")) == pytest.approx(wanted, rel=1e-6)

    def gamma(log_weight: float, power: float, rate: float) -> float:
        return (
            math.exp(rate) * math.exp(log_weight) ** power * math.exp(-rate * math.exp(log_weight))
        )

    # VESPO: a sequence's whole ratio w, weighted by e^l w^k e^(-l w), as a constant
    wanted = -gamma(-0.3, 2, 3) * 1.5 * -3.0 - gamma(-0.4, 3, 2) * -0.5 * -5.8
    assert loss_of(trainer_of(loss_type="vespo")) == pytest.approx(wanted / 5, rel=1e-6)


def test_kl_estimates_by_hand_and_beside_trls(trainer_of: Any) -> None:
    from inner_trials.policy_math import kl_estimates

    logprobs, reference = torch.tensor([[-1.0, -2.0]]), torch.tensor([[-1.5, -2.0]])
    assert kl_estimates(logprobs, reference, "k1").tolist() == [[0.5, 0.0]]
    assert kl_estimates(logprobs, reference, "k2").tolist() == [[0.125, 0.0]]
    k3 = kl_estimates(logprobs, reference, "k3")[0, 0].item()
    assert k3 == pytest.approx(math.exp(-0.5) - 1 + 0.5)
    trainer = trainer_of(loss_type="grpo", beta=0.3)
    loss_of(trainer, old_per_token_logps=torch.tensor(LOGPROBS))
    estimates = kl_estimates(torch.tensor(LOGPROBS), torch.tensor(REFERENCE), "k3")
    mask = torch.tensor(MASK)
    assert trainer._metrics["train"]["kl"][-1] == pytest.approx(
        float((estimates * mask).sum() / mask.sum())
    )


def test_kl_estimates_agree_with_the_divergence_they_estimate() -> None:
    from inner_trials.policy_math import kl_estimates

    generator = torch.Generator().manual_seed(0)
    policy = torch.log_softmax(torch.randn(5, generator=generator), 0)
    reference = torch.log_softmax(policy + 0.1 * torch.randn(5, generator=generator), 0)
    exact = float((policy.exp() * (policy - reference)).sum())
    for kind, bias in (("k1", 1e-6), ("k3", 1e-6), ("k2", 0.1 * exact)):
        values = kl_estimates(policy, reference, kind)  # type: ignore[arg-type]  # one of three
        assert float((policy.exp() * values).sum()) == pytest.approx(exact, abs=bias), kind
    assert (kl_estimates(policy, reference, "k3") >= 0).all()


def test_sampler_weights_by_hand() -> None:
    from inner_trials.policy_math import sampler_weights

    trainer, sampler = torch.tensor([[-1.0, -1.0, -9.0]]), torch.tensor([[-1.5, -0.5, -1.0]])
    mask = torch.tensor([[1, 1, 0]])

    def weights(level: str, how: str, maximum: float) -> list[float]:
        found = sampler_weights(
            trainer,
            sampler,
            mask,
            level=level,  # type: ignore[arg-type]  # as the cases below say
            how=how,  # type: ignore[arg-type]
            maximum=maximum,
        )
        return [round(value, 6) for value in found[0].tolist()]

    up, down = round(math.exp(0.5), 6), round(math.exp(-0.5), 6)
    assert weights("token", "importance_sampling", 1.0) == [up, down, 1.0]
    assert weights("token", "tis", 1.2) == [1.2, down, 1.0]
    assert weights("token", "mis", 1.2) == [0.0, down, 1.0]
    assert weights("sequence", "tis", 2.0) == [1.0]


@pytest.mark.parametrize("level", ["token", "sequence"])
@pytest.mark.parametrize("how", ["importance_sampling", "tis", "mis"])
def test_trls_sampler_weights_are_the_formula(
    trainer_of: Any, base: Path, level: Any, how: Any
) -> None:
    from inner_trials.policy_math import sampler_weights

    trainer = trainer_of()
    corrected = {"correction": how, "correction_level": level, "correction_max": 1.05}
    settings = job_of(base, generation="vllm_colocated", **corrected).settings
    for name, value in grpo_settings.correction_options(settings).items():
        setattr(trainer, name, value)
    trainer.use_vllm, trainer._writer = True, None
    said = [[5, 5], [5, 5, 1]]
    drawn = [row[: len(ids)] for row, ids in zip(SAMPLER, said, strict=True)]
    trainer._generate = lambda _: ([[3]] * 2, said, None, ["", ""], drawn, {}, None, None)
    rows = [{"prompt": [{"role": "user", "content": "sort 21"}], "row": 0} for _ in range(2)]
    found = trainer._generate_and_score_completions(rows)["importance_sampling_ratio"]
    mask = torch.tensor(MASK)
    wanted = sampler_weights(
        torch.tensor(LOGPROBS), torch.tensor(SAMPLER), mask, level=level, how=how, maximum=1.05
    )
    assert found.flatten().tolist() == pytest.approx(wanted.flatten().tolist(), rel=1e-6)
    assert found.shape == ((2, 3) if level == "token" else (2, 1))


@pytest.mark.parametrize("weights", [[[1.0, 2.0, 1.0], [0.5, 1.1, 2.0]], [[0.0], [1.3]]])
def test_the_sampler_weights_multiply_each_tokens_loss_in_trl(
    trainer_of: Any, weights: list[list[float]]
) -> None:
    trainer = trainer_of(loss_type="dapo")
    trainer.use_vllm, trainer.vllm_importance_sampling_correction = True, True
    given = torch.tensor(weights)
    loss = loss_of(trainer, importance_sampling_ratio=given)
    assert loss == pytest.approx(ours("dapo", weights=given), rel=1e-6)


@pytest.mark.parametrize(
    ("options", "mode", "maximum"),
    [
        ({"correction": "tis"}, "token_truncate", 2.0),
        ({"correction": "mis", "correction_level": "sequence"}, "sequence_mask", 2.0),
        ({"correction": "importance_sampling"}, "token_mask", None),
    ],
)
def test_a_correction_is_what_trl_makes_of_its_options(
    base: Path, options: dict[str, Any], mode: str, maximum: float | None
) -> None:
    settings = job_of(base, generation="vllm_colocated", **options).settings
    made = grpo_settings.trl_options(settings, {})
    assert made["vllm_importance_sampling_mode"] == mode
    assert made["vllm_importance_sampling_clip_max"] == maximum
    assert made["use_vllm"]
    assert made["vllm_mode"] == "colocate"


@pytest.mark.parametrize("scale", ["group", "batch", "none"])
def test_trls_advantages_are_the_formula(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scale: str
) -> None:
    from inner_trials.grpo_events import OnlineEvents
    from inner_trials.policy_math import group_advantages

    monkeypatch.setenv("ARL_OUTPUT", str(tmp_path / "output"))
    job = job_of(
        base, scale_rewards=scale, num_generations=4, per_device_train_batch_size=8, max_steps=1
    )
    trainer = grpo.build_trainer(job, OnlineEvents({}, cycle=1))
    rewards = torch.tensor([1.0, 0.0, 0.25, 0.5, 1.0, 1.0, 1.0, 1.0])
    trainer._calculate_rewards = lambda *_: rewards.unsqueeze(1)
    trainer._components = rewards.unsqueeze(1)
    trainer.model.train()
    rows = [{"prompt": [{"role": "user", "content": "sort 21"}], "row": 0} for _ in range(8)]
    advantages = trainer._generate_and_score_completions(rows)["advantages"]
    assert advantages.tolist() == pytest.approx(group_advantages(rewards, 4, scale).tolist())  # type: ignore[arg-type]
    assert advantages[4:].tolist() == [0.0] * 4


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"num_generations": 3}, "2 completions are sampled at once"),
        ({"loss_type": "cispo"}, "must be 1 or more; its authors write 5"),
        ({"delta": 1.1}, "must be more than 1 \\+ epsilon"),
        ({"generation": "vllm_server"}, "needs its address"),
        ({"generation": "vllm_adapters", "vllm_server": "localhost:80"}, "must start with http"),
        ({"generation": "vllm_adapters", "vllm_server": "http://x"}, "write lora, or another"),
        ({"vllm_sleep": True}, "only a colocated vLLM"),
        ({"steps_per_generation": 3, "gradient_accumulation_steps": 2}, "must divide"),
        ({"num_iterations": 4, "save_every": 6}, "must be a multiple of 4"),
        ({"top_p": 1.5}, "must be 1.0 or less"),
        ({"loss_type": "ppo"}, "is not one of grpo"),
    ],
    ids=str,
)
def test_settings_that_make_no_sense_together_are_refused(
    base: Path, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(SettingsError, match=said):
        job_of(base, **options)
