"""The losses of DPO and of Bradley and Terry: TRL's numbers against hand-computed ones; masks."""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from inner_trials import demo_task, dpo, pairs, reward_model, rewards
from inner_trials.data import DataError
from inner_trials.failures import NotFinite
from inner_trials.settings import read_settings

# The libraries warn about each other while they are imported.
pytestmark = [pytest.mark.train, pytest.mark.filterwarnings("ignore")]

PAIRS = [
    {"prompt": "sort 21", "chosen": "12", "rejected": "213"},
    {"prompt": "sort 54321", "chosen": "12345", "rejected": "1"},
]
BETA = 0.25
SMOOTHING = 0.1
LN2 = math.log(2)


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two models of the same shape: a policy and another one to be its reference."""
    found = []
    for seed in (0, 1):
        directory = tmp_path_factory.mktemp("base")
        demo_task.write_base(directory, seed=seed)
        demo_task.write_tokenizer(directory)
        found.append(directory)
    return found[0], found[1]


@pytest.fixture(autouse=True)
def quiet_offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
    monkeypatch.setenv("TQDM_DISABLE", "1")
    monkeypatch.setenv("ARL_OUTPUT", str(tmp_path / "output"))


def dpo_trainer(base: Path, other: Path | None = None, **options: object) -> Any:
    settings = read_settings(dpo.Settings, {"options": {"beta": BETA, "max_steps": 1, **options}})
    dpo.check_settings(settings)
    return dpo.build_trainer(dpo.Job(settings, base, other, "text", PAIRS, [], 0))


def batch_of(trainer: Any) -> Any:
    return trainer.data_collator(list(trainer.train_dataset))


def loss_of(trainer: Any, batch: Any) -> float:
    return float(trainer.compute_loss(trainer.model.train(), dict(batch)))


def log_probabilities(model: Any, batch: Any) -> list[list[float]]:
    """Of each row's completion tokens, one after the other, by the definition."""
    import torch

    with torch.no_grad():
        logits = model.eval()(
            input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]
        ).logits.double()
    found = []
    for row, ids in enumerate(batch["input_ids"].tolist()):
        where = [i for i, kept in enumerate(batch["completion_mask"][row].tolist()) if kept]
        scores = [logits[row, i - 1] - logits[row, i - 1].logsumexp(0) for i in where]
        found.append([float(s[ids[i]]) for s, i in zip(scores, where, strict=True)])
    return found


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def softplus(x: float) -> float:
    return math.log1p(math.exp(x))


@dataclass(frozen=True)
class Pair:
    """Log-ratios of policy to reference of the two answers, and their lengths in tokens."""

    chosen: float
    rejected: float
    chosen_size: int
    rejected_size: int

    @property
    def x(self) -> float:
        return BETA * (self.chosen - self.rejected)

    @property
    def mean_gap(self) -> float:
        return self.chosen / self.chosen_size - self.rejected / self.rejected_size


def exo_pair(pair: Pair) -> float:
    chance = sigmoid(pair.x)
    flipped = (1 - chance) * math.log((1 - chance) / SMOOTHING)
    return chance * math.log(chance / (1 - SMOOTHING)) + flipped


def discopop(pair: Pair) -> float:
    share = sigmoid(pair.x / 0.05)
    return (1 - share) * softplus(-pair.x) + share * math.exp(-pair.x)


def smoothed(x: float) -> float:
    return (1 - SMOOTHING) * softplus(-x) + SMOOTHING * softplus(x)


BY_HAND: Mapping[str, Callable[[Pair], float]] = {
    # Rafailov et al. 2023, equation 7
    "sigmoid": lambda p: softplus(-p.x),
    # the same of means over tokens (Meng et al. 2024 normalise so)
    "sigmoid_norm": lambda p: softplus(-BETA * p.mean_gap),
    # Zhao et al. 2023 (SLiC), with the normalised likelihoods of DPO
    "hinge": lambda p: max(0.0, 1 - p.x),
    # Azar et al. 2023, equation 17, per token
    "ipo": lambda p: (p.mean_gap - 1 / (2 * BETA)) ** 2,
    # Ji et al. 2024, equation 16: the KL divergence from the smoothed labels
    "exo_pair": exo_pair,
    # Chen et al. 2024 (NCA), of a pair whose rewards are 1 and 0
    "nca_pair": lambda p: (
        softplus(-BETA * p.chosen)
        + 0.5 * softplus(BETA * p.chosen)
        + 0.5 * softplus(BETA * p.rejected)
    ),
    # Chowdhury et al. 2024, equation 12, with 10 % of labels flipped
    "robust": lambda p: ((1 - SMOOTHING) * softplus(-p.x) - SMOOTHING * softplus(p.x)) / 0.8,
    # Jung et al. 2024, without its moving average
    "bco_pair": lambda p: softplus(-BETA * p.chosen) + softplus(BETA * p.rejected),
    # Wu et al. 2024, equation 4.7 with hard probabilities
    "sppo_hard": lambda p: (p.chosen - 0.5 / BETA) ** 2 + (p.rejected + 0.5 / BETA) ** 2,
    # D'Oosterlinck et al. 2024, equations 7 and 8
    "apo_zero": lambda p: 1 - sigmoid(BETA * p.chosen) + sigmoid(BETA * p.rejected),
    "apo_down": lambda p: sigmoid(BETA * p.chosen) + 1 - sigmoid(p.x),
    # Lu et al. 2024, equation 5, with its temperature of 0.05
    "discopop": discopop,
}


def pairs_of(policy: list[list[float]], reference: list[list[float]]) -> list[Pair]:
    """Of rows that are first all chosen answers and then all rejected ones."""
    ratios = [sum(p) - sum(r) for p, r in zip(policy, reference, strict=True)]
    sizes = [len(p) for p in policy]
    return [Pair(ratios[i], ratios[i + 2], sizes[i], sizes[i + 2]) for i in range(2)]


@pytest.fixture
def measured(bases: tuple[Path, Path]) -> Callable[..., tuple[float, Any, Any]]:
    """What TRL says is the loss, and both models' log-probabilities."""

    def measure(**options: Any) -> tuple[float, list[list[float]], list[list[float]]]:
        trainer = dpo_trainer(*bases, label_smoothing=SMOOTHING, **options)
        batch = batch_of(trainer)
        models = (trainer.model, trainer.ref_model)
        policy, reference = (log_probabilities(model, batch) for model in models)
        return loss_of(trainer, batch), policy, reference

    return measure


@pytest.mark.parametrize("loss", BY_HAND)
def test_each_loss_is_the_one_its_paper_writes(measured: Any, loss: str) -> None:
    found, *models = measured(loss_type=loss)
    wanted = [BY_HAND[loss](pair) for pair in pairs_of(*models)]
    assert found == pytest.approx(sum(wanted) / 2, rel=1e-5)


def test_losses_of_quantiles_compare_the_sorted_ratios(measured: Any) -> None:
    # Melnyk et al. 2024: of policy and reference, and unpaired of chosen and rejected answers
    found, policy, reference = measured(loss_type="aot")
    by_model = [
        sorted(sum(model[i]) - sum(model[i + 2]) for i in range(2))
        for model in (policy, reference)
    ]
    wanted = [smoothed(BETA * (p - r)) for p, r in zip(*by_model, strict=True)]
    assert found == pytest.approx(sum(wanted) / 2, rel=1e-5)
    found, *models = measured(loss_type="aot_unpaired")
    both = pairs_of(*models)
    chosen, rejected = sorted(p.chosen for p in both), sorted(p.rejected for p in both)
    wanted = [smoothed(BETA * (c - r)) for c, r in zip(chosen, rejected, strict=True)]
    assert found == pytest.approx(sum(wanted) / 2, rel=1e-5)


@pytest.mark.parametrize(
    ("divergence", "score"),
    [
        ("forward_kl", lambda u: 1 - math.exp(-u)),
        ("js_divergence", lambda u: LN2 - softplus(-u)),
        ("alpha_divergence", lambda u: (math.exp(-0.5 * u) - 1) / -0.5),
    ],
)
def test_another_divergence_puts_its_own_derivative_in_the_ratios_place(
    measured: Any, divergence: str, score: Callable[[float], float]
) -> None:
    # Wang et al. 2023, equation 8: f'(ratio) instead of its logarithm
    found, *models = measured(f_divergence=divergence)
    wanted = [softplus(-BETA * (score(p.chosen) - score(p.rejected))) for p in pairs_of(*models)]
    assert found == pytest.approx(sum(wanted) / 2, rel=1e-5)


@pytest.mark.parametrize(
    ("loss", "value"),
    [
        ("sigmoid", LN2),
        ("sigmoid_norm", LN2),
        ("hinge", 1.0),
        ("ipo", (1 / (2 * BETA)) ** 2),
        ("exo_pair", 0.5 * math.log(0.5 / 0.9) + 0.5 * math.log(0.5 / 0.1)),
        ("nca_pair", 2 * LN2),
        ("robust", LN2),
        ("bco_pair", 2 * LN2),
        ("sppo_hard", 2 * (0.5 / BETA) ** 2),
        ("aot", LN2),
        ("aot_unpaired", LN2),
        ("apo_zero", 1.0),
        ("apo_down", 1.0),
        ("discopop", 0.5 * LN2 + 0.5),
    ],
)
def test_a_policy_that_is_its_reference_has_the_loss_of_no_preference(
    bases: tuple[Path, Path], loss: str, value: float
) -> None:
    trainer = dpo_trainer(bases[0], loss_type=loss, label_smoothing=0.1)
    assert loss_of(trainer, batch_of(trainer)) == pytest.approx(value, rel=1e-4)


def test_the_sft_term_is_the_chosen_answers_mean_loss_a_token(bases: tuple[Path, Path]) -> None:
    trainer = dpo_trainer(bases[0], sft_weight=0.5)
    batch = batch_of(trainer)
    chosen = [p for row in log_probabilities(trainer.model, batch)[:2] for p in row]
    wanted = LN2 - 0.5 * sum(chosen) / len(chosen)
    assert loss_of(trainer, batch) == pytest.approx(wanted, rel=1e-5)


def test_adapter_copy_and_precomputed_references_are_the_same_reference(
    bases: tuple[Path, Path],
) -> None:
    losses = []
    for reference in ("adapter", "copy", "precomputed"):
        trainer = dpo_trainer(bases[0], reference=reference, parameterization="lora", lora_r=4)
        for name, weight in trainer.model.named_parameters():
            if "lora_B" in name:  # zero at first, which would make policy and reference equal
                weight.data.fill_(0.05)
        losses.append(loss_of(trainer, batch_of(trainer)))
        assert (trainer.ref_model is None) == (reference != "copy")
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)
    assert losses[0] == pytest.approx(losses[2], rel=1e-5)
    assert losses[0] != pytest.approx(LN2, rel=1e-3)


def test_a_pair_has_no_loss_on_its_prompt_or_on_padding(bases: tuple[Path, Path]) -> None:
    trainer = dpo_trainer(bases[0])
    batch = batch_of(trainer)
    tokenizer = trainer.processing_class
    learned = [
        tokenizer.decode(ids[mask == 1])
        for ids, mask in zip(batch["input_ids"], batch["completion_mask"], strict=True)
    ]
    assert learned == ["12<|end|>", "12345<|end|>", "213<|end|>", "1<|end|>"]
    padding = batch["input_ids"] == tokenizer.pad_token_id
    assert padding.any()
    assert not (padding & (batch["attention_mask"] == 1)).any()
    before = loss_of(trainer, batch)
    batch["input_ids"][padding] = tokenizer.eos_token_id
    assert loss_of(trainer, batch) == before, "what stands in the padding changes nothing"


def classifier(base: Path, rows: list[dict[str, Any]], **options: object) -> Any:
    settings = read_settings(reward_model.Settings, {"options": {"max_steps": 1, **options}})
    return reward_model.build_trainer(reward_model.Job(settings, base, "text", rows, [], 0))


@pytest.mark.parametrize("margin", [None, 0.75])
def test_bradley_and_terry_is_what_the_frozen_rewards_give_by_hand(
    bases: tuple[Path, Path], tmp_path: Path, margin: float | None
) -> None:
    rows = [pair if margin is None else {**pair, "margin": margin} for pair in PAIRS]
    trainer = classifier(bases[0], rows)
    trainer.model.score.weight.data.mul_(20.0)  # so that there is something to tell apart
    trainer.model.save_pretrained(tmp_path / "model")
    trainer.processing_class.save_pretrained(tmp_path / "model")
    judge = rewards.RewardModel(tmp_path / "model")
    prompts = [pair["prompt"] for pair in PAIRS]
    chosen = judge.score(prompts, [pair["chosen"] for pair in PAIRS])
    rejected = judge.score(prompts, [pair["rejected"] for pair in PAIRS])
    # Bradley and Terry 1952: P(chosen beats rejected) = sigmoid of the difference
    wanted = sum(
        softplus(-(c - r - (margin or 0.0))) for c, r in zip(chosen, rejected, strict=True)
    )
    assert abs(chosen[0] - rejected[0]) > 0.01
    assert loss_of(trainer, batch_of(trainer)) == pytest.approx(wanted / 2, rel=1e-5)
    alone = judge.score(prompts[:1], [PAIRS[0]["chosen"]])
    assert alone[0] == pytest.approx(chosen[0], abs=1e-5), "company changes no reward"


def saved_judge(trainer: Any, directory: Path) -> Path:
    trainer.model.save_pretrained(directory)
    trainer.processing_class.save_pretrained(directory)
    return directory


def test_a_judge_whose_config_names_no_padding_scores_each_answer_at_its_own_end(
    bases: tuple[Path, Path], tmp_path: Path
) -> None:
    trainer = classifier(bases[0], PAIRS)
    trainer.model.score.weight.data.mul_(20.0)
    directory = saved_judge(trainer, tmp_path / "model")
    prompts, answers = [pair["prompt"] for pair in PAIRS], [pair["chosen"] for pair in PAIRS]
    named = rewards.RewardModel(directory).score(prompts, answers)
    config = json.loads((directory / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps({**config, "pad_token_id": None}))
    assert rewards.RewardModel(directory).score(prompts, answers) == named


def test_a_reward_that_is_no_number_ends_what_would_learn_from_it(
    bases: tuple[Path, Path], tmp_path: Path
) -> None:
    trainer = classifier(bases[0], PAIRS)
    trainer.model.score.weight.data.fill_(float("nan"))
    judge = rewards.RewardModel(saved_judge(trainer, tmp_path / "model"))
    with pytest.raises(NotFinite, match="the reward model gave a score that is no number"):
        judge.score([PAIRS[0]["prompt"]], [PAIRS[0]["chosen"]])


def test_a_prompt_that_fills_max_length_is_refused_or_dropped_as_asked(
    bases: tuple[Path, Path],
) -> None:
    reason = "with max_length 11 1 of 2 rows have nothing left.*too_long: drop"
    with pytest.raises(DataError, match=reason):
        dpo_trainer(bases[0], max_length=11)
    reason = "with max_length 14 1 of 2 rows are longer with one of their answers, the first row"
    with pytest.raises(DataError, match=reason):
        classifier(bases[0], PAIRS, max_length=14)
    assert len(dpo_trainer(bases[0], max_length=11, too_long="drop").train_dataset) == 1
    with pytest.raises(DataError, match="2 of 2 rows have nothing left"):
        dpo_trainer(bases[0], max_length=3, too_long="drop")


def test_pairs_of_messages_need_a_template(bases: tuple[Path, Path], tmp_path: Path) -> None:
    chat = [pairs.as_chat(pair) for pair in PAIRS]
    with pytest.raises(DataError, match="the base has no chat template"):
        pairs.in_template("chat", chat, chat=True, has_template=False)
