"""PPO's advantages and losses: by hand, and beside stable-baselines3's own numbers."""

import math
from typing import Any

import pytest

# The libraries warn about each other while they are imported.
pytestmark = [pytest.mark.train, pytest.mark.filterwarnings("ignore")]

torch = pytest.importorskip("torch")

STEPS = 24


@pytest.fixture(scope="module")
def sb3() -> Any:
    """stable-baselines3's PPO with a full buffer of one episode after another."""
    gymnasium = pytest.importorskip("gymnasium")
    stable_baselines3 = pytest.importorskip("stable_baselines3")
    numpy = pytest.importorskip("numpy")

    class Walk(gymnasium.Env):  # type: ignore[misc, name-defined]  # gymnasium is not typed
        observation_space = gymnasium.spaces.Box(-1.0, 1.0, (3,), numpy.float32)
        action_space = gymnasium.spaces.Discrete(4)

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            super().reset(seed=seed)
            self.at = 0
            return self._look(), {}

        def step(self, action: int) -> Any:
            self.at += 1
            reward = float(self.np_random.normal()) + action
            return self._look(), reward, self.at % 6 == 0, False, {}

        def _look(self) -> Any:
            return self.np_random.uniform(-1, 1, 3).astype(numpy.float32)

    model = stable_baselines3.PPO(
        "MlpPolicy",
        Walk(),
        n_steps=STEPS,
        batch_size=STEPS,
        n_epochs=1,
        gamma=0.9,
        gae_lambda=0.8,
        clip_range=0.2,
        vf_coef=0.5,
        ent_coef=0.01,
        seed=0,
        device="cpu",
    )
    model.learn(STEPS)
    return model


def episodes(buffer: Any, values: Any) -> Any:
    """A buffer's steps as rows, one an episode."""
    return torch.as_tensor(values).reshape(-1, 6)


def test_gae_is_stable_baselines3s(sb3: Any) -> None:
    from inner_trials.policy_math import gae

    buffer = sb3.rollout_buffer
    buffer.reset()
    sb3.learn(STEPS, reset_num_timesteps=True)
    rewards, values = (
        episodes(buffer, part.flatten()) for part in (buffer.rewards, buffer.values)
    )
    mask = torch.ones_like(rewards)
    advantages, returns = gae(rewards, values, mask, gamma=0.9, decay=0.8)
    assert torch.allclose(advantages, episodes(buffer, buffer.advantages.flatten()), atol=1e-5)
    assert torch.allclose(returns, episodes(buffer, buffer.returns.flatten()), atol=1e-5)


def test_gae_by_hand_and_padding_changes_nothing() -> None:
    from inner_trials.policy_math import gae

    rewards, values = torch.tensor([[0.0, 1.0]]), torch.tensor([[0.5, 0.25]])
    advantages, returns = gae(rewards, values, torch.ones(1, 2), gamma=0.9, decay=0.8)
    last = 1.0 - 0.25
    first = (0.9 * 0.25 - 0.5) + 0.9 * 0.8 * last
    assert advantages[0].tolist() == pytest.approx([first, last])
    assert returns[0].tolist() == pytest.approx([first + 0.5, 1.0])
    padded = gae(
        torch.tensor([[0.0, 1.0, 7.0]]),
        torch.tensor([[0.5, 0.25, 9.0]]),
        torch.tensor([[1, 1, 0]]),
        gamma=0.9,
        decay=0.8,
    )
    assert padded[0][0].tolist() == pytest.approx([first, last, 0.0])
    plain, _ = gae(rewards, torch.zeros(1, 2), torch.ones(1, 2), gamma=1.0, decay=1.0)
    assert plain[0].tolist() == [1.0, 1.0], "without values it is what is still to come"


def test_losses_are_stable_baselines3s(sb3: Any) -> None:
    from inner_trials import policy_math as pm

    buffer, policy = sb3.rollout_buffer, sb3.policy
    # Another policy than the one that sampled, as in a second pass over the same buffer.
    noise = 0.3 * torch.randn(buffer.log_probs.shape, generator=torch.Generator().manual_seed(0))
    buffer.log_probs += noise.numpy()
    sb3._current_progress_remaining = 1.0
    data = next(buffer.get(None))
    with torch.no_grad():
        values, logprobs, entropy = policy.evaluate_actions(
            data.observations, data.actions.long().flatten()
        )
    mask = torch.ones(1, STEPS)
    advantages = pm.whitened(data.advantages.unsqueeze(0), mask)
    ratios = pm.token_ratios(logprobs, data.old_log_prob).unsqueeze(0)
    clip = {"low": 0.2, "high": 0.2}
    kl = pm.kl_estimates(data.old_log_prob, logprobs, "k3").mean()
    ours = {
        "policy_gradient_loss": pm.clipped_losses(ratios, advantages, **clip).mean(),
        "value_loss": pm.value_losses(
            values.flatten(), data.old_values, data.returns, None
        ).mean(),
        "entropy_loss": -entropy.mean(),
        "approx_kl": kl,
    }
    ours["loss"] = (
        ours["policy_gradient_loss"] + 0.5 * ours["value_loss"] + 0.01 * ours["entropy_loss"]
    )
    sb3.train()
    theirs = sb3.logger.name_to_value
    for name, value in ours.items():
        assert float(value) == pytest.approx(float(theirs[f"train/{name}"]), rel=1e-4), name
    beyond = (torch.abs(ratios - 1) > 0.2).float().mean()
    assert float(beyond) == pytest.approx(float(theirs["train/clip_fraction"]))
    clipped = pm.clip_fraction(ratios, advantages, mask, **clip)
    assert 0.0 < float(clipped) < float(beyond), "ours counts the updates that clipping takes away"


def test_value_losses_by_hand() -> None:
    from inner_trials.policy_math import value_losses

    values, old, returns = (
        torch.tensor([2.0, 0.1]),
        torch.tensor([0.0, 0.0]),
        torch.tensor([3.0, 1.0]),
    )
    assert value_losses(values, old, returns, None).tolist() == pytest.approx([1.0, 0.81])
    assert value_losses(values, old, returns, 0.5).tolist() == pytest.approx([6.25, 0.81])


def test_whitening_ignores_padding() -> None:
    from inner_trials.policy_math import whitened

    found = whitened(torch.tensor([[1.0, 3.0, 99.0]]), torch.tensor([[1, 1, 0]]))
    assert found[0].tolist() == pytest.approx([-1 / math.sqrt(2), 1 / math.sqrt(2), 0.0])
