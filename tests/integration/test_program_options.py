"""Options do what they say in a real trainer, rather than only reach its configuration."""

import math
from pathlib import Path
from typing import Any

import pytest

from inner_trials import guards, sft
from inner_trials.settings import read_settings

# The libraries warn about each other while they are imported.
pytestmark = [pytest.mark.train, pytest.mark.filterwarnings("ignore")]

torch = pytest.importorskip("torch")

ROWS = [
    {"prompt": f"sort {number}", "completion": "".join(sorted(str(number)))}
    for number in range(2100, 2116)
]


@pytest.fixture
def built(task: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A real trainer on a few rows, with these options."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
    monkeypatch.setenv("ARL_OUTPUT", str(tmp_path / "output"))

    def make(**options: Any) -> Any:
        from transformers import PrinterCallback

        usual = {"per_device_train_batch_size": 4, "learning_rate": 1e-2, "report_every": 1}
        settings = read_settings(sft.Settings, {"options": {**usual, **options}})
        trainer = sft.build_trainer(sft.Job(settings, task / "base", "text", ROWS, [], 0))
        trainer.remove_callback(PrinterCallback)
        return trainer

    return make


def logged(trainer: Any, name: str) -> list[float]:
    return [line[name] for line in trainer.state.log_history if name in line]


def watch_gradients(trainer: Any, weight: Any) -> list[Any]:
    """The gradient that each update of a weight is made from, and its norm over all weights."""
    from transformers import TrainerCallback

    seen: list[Any] = []

    class Watch(TrainerCallback):  # type: ignore[misc]  # transformers is not typed
        def on_pre_optimizer_step(self, *_: Any, **__: Any) -> None:
            every = [p.grad for p in trainer.model.parameters() if p.grad is not None]
            norm = torch.stack([grad.norm() for grad in every]).norm().item()
            seen.append((weight.grad.clone(), norm))

    trainer.add_callback(Watch())
    return seen


def test_updates_are_those_of_adamw_by_hand(built: Any) -> None:
    """Loshchilov & Hutter 2019, algorithm 2, with the decay times the learning rate."""
    trainer = built(max_steps=3, weight_decay=0.1, lr_scheduler_type="constant", max_grad_norm=0)
    weight = trainer.model.lm_head.weight
    expected, first, second = weight.detach().clone(), 0.0, 0.0
    seen = watch_gradients(trainer, weight)
    trainer.train()
    assert len(seen) == 3
    for step, (grad, _) in enumerate(seen, start=1):
        first = 0.9 * first + 0.1 * grad
        second = 0.999 * second + 0.001 * grad**2
        update = (first / (1 - 0.9**step)) / ((second / (1 - 0.999**step)).sqrt() + 1e-8)
        expected = expected - 1e-2 * 0.1 * expected - 1e-2 * update
    torch.testing.assert_close(weight.detach(), expected, atol=1e-6, rtol=1e-5)


def test_gradients_are_clipped_to_their_norm_and_not_without(built: Any) -> None:
    free = built(max_steps=2, max_grad_norm=0)
    unclipped = watch_gradients(free, free.model.lm_head.weight)
    free.train()
    bound = unclipped[0][1] / 4
    clipped = built(max_steps=2, max_grad_norm=bound)
    seen = watch_gradients(clipped, clipped.model.lm_head.weight)
    clipped.train()
    assert [norm for _, norm in seen] == pytest.approx([bound] * 2, rel=1e-4)
    torch.testing.assert_close(seen[0][0], unclipped[0][0] / 4, atol=1e-6, rtol=1e-3)
    reported = logged(clipped, "grad_norm")
    assert reported[0] == pytest.approx(unclipped[0][1], rel=1e-4), "what it was before"


def test_the_rate_warms_up_and_then_falls_like_a_cosine(built: Any) -> None:
    trainer = built(max_steps=8, warmup_steps=3, lr_scheduler_type="cosine")
    trainer.train()
    warm = [step / 3 for step in range(3)]
    falling = [0.5 * (1 + math.cos(math.pi * step / 5)) for step in range(5)]
    expected = [1e-2 * share for share in (*warm, *falling)]
    assert logged(trainer, "learning_rate") == pytest.approx(expected)


@pytest.mark.parametrize(
    "parameterization", [pytest.param("full", marks=pytest.mark.slow), "lora"]
)
def test_checkpointed_layers_are_computed_twice_and_give_the_same_gradients(
    built: Any, parameterization: str
) -> None:
    found, calls = [], []
    for is_on in (False, True):
        trainer = built(
            max_steps=1, gradient_checkpointing=is_on, parameterization=parameterization
        )
        count: list[int] = []
        inner = trainer.accelerator.unwrap_model(trainer.model)
        layer = next(m for n, m in inner.named_modules() if n.endswith("layers.0.mlp"))
        layer.register_forward_pre_hook(lambda *_, count=count: count.append(1))
        weight = next(p for p in trainer.model.parameters() if p.requires_grad)
        seen = watch_gradients(trainer, weight)
        trainer.train()
        found.append(seen[0])
        calls.append(len(count))
    assert calls == [1, 2]
    torch.testing.assert_close(found[1][0], found[0][0], atol=1e-6, rtol=1e-4)
    assert found[1][1] == pytest.approx(found[0][1], rel=1e-5)


@pytest.mark.slow
def test_mixed_precision_computes_in_half_and_keeps_whole_weights(built: Any) -> None:
    losses = []
    for precision, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
        trainer = built(max_steps=2, precision=precision)
        seen: list[Any] = []
        layer = trainer.model.model.layers[0].mlp.down_proj
        layer.register_forward_hook(lambda _, __, out, seen=seen: seen.append(out.dtype))
        trainer.train()
        assert set(seen) == {dtype}
        assert {p.dtype for p in trainer.model.parameters()} == {torch.float32}
        losses.append(logged(trainer, "loss"))
    assert losses[0] == pytest.approx(losses[1], rel=2e-2)
    assert losses[0] != losses[1]


GREEDY: list[dict[str, Any]] = [
    {"top_k": 1},
    {"top_p": 1e-6},
    {"min_p": 1.0},
    {"temperature": 1e-4},
]


@pytest.mark.parametrize("options", GREEDY, ids=str)
def test_each_way_to_sample_less_freely_ends_at_the_likeliest_tokens(
    run_of: Any, options: dict[str, Any]
) -> None:
    trainer, _, _ = run_of(**options)
    free, _, _ = run_of(temperature=1.0)
    sharpen(trainer)
    sharpen(free)
    prompts = [dict(trainer.train_dataset[0])["prompt"]] * 8
    assert len({tuple(ids) for ids in trainer._generate(prompts)[1]}) == 1
    assert len({tuple(ids) for ids in free._generate(prompts)[1]}) > 4


def test_a_token_that_was_said_is_said_no_more_under_a_great_penalty(run_of: Any) -> None:
    # Greedy, and short: of the tokens that speak for themselves only so many are new.
    trainer, _, _ = run_of(repetition_penalty=1e9, top_k=1, max_completion_length=3)
    sharpen(trainer)
    prompts = [dict(trainer.train_dataset[0])["prompt"]] * 8
    sampled = trainer._generate(prompts)
    for prompt, completion in zip(sampled[0], sampled[1], strict=True):
        assert len(set(completion)) == len(completion)
        assert not set(completion) & set(prompt)


def sharpen(trainer: Any) -> None:
    """A fresh model finds all tokens so alike that rounding would decide."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        weight = trainer.model.lm_head.weight
        weight.copy_(0.1 * torch.randn(weight.shape, generator=generator))


@pytest.mark.slow
@pytest.mark.parametrize("options", GREEDY, ids=str)
def test_ppo_samples_by_the_same_options(task: Path, options: dict[str, Any]) -> None:
    from inner_trials import models
    from inner_trials.ppo_learner import Learner
    from inner_trials.ppo_settings import Settings

    model = models.load_model(task / "base")
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        model.lm_head.weight.copy_(torch.randn(model.lm_head.weight.shape, generator=generator))
    given = {"max_completion_length": 6, "kl_coef": 0.0, **options}
    learner = Learner(model, read_settings(Settings, {"options": given}), pad=0, ends=[1])
    assert len({tuple(ids) for ids in learner.sample([[2, 5, 6, 1, 3]] * 8)}) == 1


def test_ppo_computes_in_the_precision_that_is_asked_for(task: Path) -> None:
    from inner_trials import models
    from inner_trials.ppo_learner import Learner
    from inner_trials.ppo_settings import Settings

    found = {}
    for precision in ("fp32", "auto", "bf16"):
        given = {"precision": precision, "kl_coef": 0.0}
        settings = read_settings(Settings, {"options": given})
        learner = Learner(models.load_model(task / "base"), settings, pad=0, ends=[1])
        found[precision] = learner.judge([[2, 5, 6, 1, 3]], [[7, 8, 1]], [1.0]).logprobs
    assert torch.equal(found["fp32"], found["auto"]), "there is no GPU"
    assert not torch.equal(found["fp32"], found["bf16"])
    assert torch.allclose(found["fp32"], found["bf16"], atol=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("options", GREEDY, ids=str)
def test_rejection_sampling_samples_by_the_same_options(
    task: Path, options: dict[str, Any]
) -> None:
    from inner_trials import models
    from inner_trials.sampling import SamplingSettings, sample

    model, tokenizer = models.load_model(task / "base"), models.load_tokenizer(task / "base")
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        model.lm_head.weight.copy_(torch.randn(model.lm_head.weight.shape, generator=generator))
    settings = SamplingSettings(samples=8, max_new_tokens=6, **options)
    (answers,) = sample(model, tokenizer, ["sort 21"], settings, chat=True, seed=0).values()
    assert len({answer.text for answer in answers}) == 1


def test_the_fixed_slices_loss_is_the_mean_over_its_completions_tokens(
    built: Any, tmp_path: Path
) -> None:
    trainer = built()
    path = tmp_path / "fixed.jsonl"
    path.write_text(
        '{"prompt": "sort 21", "completion": "12"}\n{"prompt": "sort 54321", "completion": "1"}\n'
    )
    tokenizer, model = trainer.processing_class, trainer.model.eval()
    fixed = guards.FixedSlice(path, tokenizer, chat=True, max_length=64)
    total, tokens = 0.0, 0
    for prompt, completion in (("sort 21", "12"), ("sort 54321", "1")):
        asked = f"<|user|>{prompt}<|end|><|assistant|>"
        before = tokenizer(asked)["input_ids"]
        ids = tokenizer(f"{asked}{completion}<|end|>")["input_ids"]
        scores = torch.log_softmax(model(input_ids=torch.tensor([ids])).logits[0], dim=-1)
        for at in range(len(before), len(ids)):
            total -= scores[at - 1, ids[at]].item()
            tokens += 1
    assert fixed.loss(model) == pytest.approx(total / tokens, rel=1e-5)


@pytest.mark.slow
def test_what_is_lost_on_the_fixed_slice_rings_an_alarm_in_grpo(
    run_of: Any, task: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import json

    from inner_trials import training

    monkeypatch.setenv("ARL_REPORTS", str(tmp_path / "reports"))
    trainer, events, job = run_of(
        {"fixed": task / "data"}, max_steps=2, guard_every=1, alarms={"forgetting": 1e-4}
    )
    training.add_guards(trainer, job.settings, job.base, events.ring)
    with torch.no_grad():  # it never trained on these rows, and forgot what it knew of them
        trainer.model.lm_head.weight.mul_(-20.0)
    trainer.train()
    lines = [json.loads(line) for line in (tmp_path / "reports").read_text().splitlines()]
    lost = [line["value"] for line in lines if line["metric"] == "guard/forgetting"]
    assert len(lost) == 2
    assert min(lost) > 1e-4
    assert {line["step"] for line in lines if line["metric"] == "alarm/forgetting"} == {1, 2}


def test_the_proxy_that_goes_on_while_the_held_out_value_falls_is_over_optimised() -> None:
    from inner_trials.heldout import HeldOut

    watch = object.__new__(HeldOut)
    watch.best = None
    seen = [(0.5, 0.5), (0.7, 0.6), (0.6, 0.8), (0.65, 0.5), (0.4, 0.9), (0.8, 0.9)]
    found = [watch._over_optimised(value, proxy) for value, proxy in seen]
    assert found == pytest.approx([0.0, 0.0, 0.1, 0.0, 0.3, 0.0])
