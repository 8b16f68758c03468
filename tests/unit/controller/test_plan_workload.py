"""The workload that `arl plan` estimates memory for is the one that the programs have."""

from controller.documents.plan_system import workload
from inner_trials import grpo_settings, ppo_settings, rejection_sampling
from inner_trials.planning.kinds import plan_of


def sampled(kind: str, **settings: object) -> tuple[int, int]:
    """Sequences of one pass, and completions sampled at once."""
    found = workload(kind, plan_of("p", kind, {}, settings), settings)
    return found.sequences, found.rollout_sequences


def test_defaults_are_the_programs_own() -> None:
    grpo, ppo = grpo_settings.Settings(), ppo_settings.Settings()
    assert sampled("grpo") == (grpo.per_device_train_batch_size, grpo.sampled_at_once)
    assert sampled("ppo") == (ppo.per_device_train_batch_size, ppo.rollout_batch_size)
    best = rejection_sampling.Settings()
    assert sampled("rejection_sampling") == (
        best.per_device_train_batch_size,
        best.sample_batch_size * best.samples,
    )


def test_settings_say_how_many_are_sampled_at_once() -> None:
    assert sampled("grpo", per_device_train_batch_size=16, steps_per_generation=4) == (16, 64)
    assert sampled("grpo", gradient_accumulation_steps=3) == (8, 24)
    assert sampled("ppo", rollout_batch_size=128) == (16, 128)
    assert sampled("rejection_sampling", samples=2, sample_batch_size=10) == (8, 20)
