"""The policy as a stable-baselines3 PPO: one small network shared by all coordinates.

Each row of the observation's table goes through the same layers, joined by the mean over all
rows in between (Zaheer et al., Deep Sets, 2017), so the weights fit a space of any width. A row
gives weights for the directions of the table, which add up to where the mean of that coordinate
lies, and how wide the Gaussian is. Actions are offsets from the best point.
"""

from typing import Any, Final

import gymnasium
import numpy as np
import torch
from stable_baselines3.common.distributions import DiagGaussianDistribution
from stable_baselines3.common.policies import ActorCriticPolicy
from torch import Tensor, nn

from proposers.ppo_features import COLUMNS, DIRECTIONS, FIRST_DIRECTION, LIMIT
from proposers.ppo_seen import STUDY

HIDDEN: Final = 64
NARROWEST: Final = -3.0
WIDEST: Final = 1.2
"""Bounds on the logarithm of a standard deviation over the coordinate's scale."""
START_WIDTH: Final = -1.0
START_TRUST: Final = 0.95
"""How far towards a hint a network goes that has learned nothing."""
START_MODEL: Final = 0.5
"""How often that is the hint of the smooth model."""
OFFSET_GAIN: Final = 40.0
"""The trust in each direction and the width that all states have in common: these few numbers
learn so many times faster than the other weights."""
_STEEP: Final = 4.0
_COUNTS: Final = COLUMNS.index("counts")
_EXISTS: Final = COLUMNS.index("exists")
_SCALE: Final = COLUMNS.index("scale")
_LAST_DIRECTION: Final = FIRST_DIRECTION + len(DIRECTIONS)


def spaces_of(width: int) -> tuple[gymnasium.spaces.Box, gymnasium.spaces.Box]:
    """The observation and action space of a cube that is `width` coordinates wide."""
    shape = (width * len(COLUMNS) + len(STUDY),)
    observations = gymnasium.spaces.Box(-LIMIT, LIMIT, shape, np.float32)
    return observations, gymnasium.spaces.Box(-LIMIT, LIMIT, (width,), np.float32)


class SharedNetwork(nn.Module):  # type: ignore[misc]  # torch's types are not followed
    """From observations to mean and log standard deviation by coordinate, and the value."""

    def __init__(self) -> None:
        super().__init__()
        self.row = nn.Linear(len(COLUMNS) - 1 + len(STUDY), HIDDEN)
        self.joined = nn.Linear(2 * HIDDEN, HIDDEN)
        self.head = nn.Linear(HIDDEN, len(DIRECTIONS) + 2, bias=False)
        self.offsets = nn.Parameter(torch.zeros(len(DIRECTIONS) + 2))
        self.value = nn.Linear(HIDDEN, 1)
        gains = {self.row: 1.4, self.joined: 1.4, self.head: 0.01, self.value: 0.1}
        for layer, gain in gains.items():
            nn.init.orthogonal_(layer.weight, gain)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
        with torch.no_grad():
            self._start()

    def _start(self) -> None:
        """Before it learns anything the network is a strategy that moves to where the model or,
        less often, the density points: one unit of each layer passes on the study's draw."""
        draw = len(COLUMNS) - 1 + STUDY.index("draw")
        self.row.weight[0].zero_()
        self.row.weight[0, draw], self.row.bias[0] = _STEEP, _STEEP * (1.0 - 2.0 * START_MODEL)
        self.joined.weight[0].zero_()
        self.joined.weight[0, 0] = _STEEP
        for name, sign in (("expected", -1.0), ("likely", 1.0)):
            place = DIRECTIONS.index(name)
            self.head.weight[place, 0] = sign * START_TRUST / 2
            self.offsets[place] = START_TRUST / 2 / OFFSET_GAIN
        self.offsets[-1] = START_WIDTH / OFFSET_GAIN

    def forward(self, flat: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Means, log standard deviations and which coordinates count, each (batch, width); and
        values (batch, 1)."""
        table, exists = self._table(flat)
        joined = self._joined(flat)
        out = self.head(joined) + OFFSET_GAIN * self.offsets
        scale = table[:, :, _SCALE].clamp(min=1e-3)
        trust = out[:, :, : len(DIRECTIONS)]
        towards = (trust * table[:, :, FIRST_DIRECTION:_LAST_DIRECTION]).sum(dim=2)
        means = towards + scale * out[:, :, -2]
        widths = torch.log(scale) + out[:, :, -1].clamp(NARROWEST, WIDEST)
        return means, widths, table[:, :, _COUNTS], self.value(_mean(joined, exists))

    def pooled(self, flat: Tensor) -> Tensor:
        """What the value is a linear function of."""
        return _mean(self._joined(flat), self._table(flat)[1])

    def _table(self, flat: Tensor) -> tuple[Tensor, Tensor]:
        table = flat[:, : -len(STUDY)].reshape(len(flat), -1, len(COLUMNS))
        return table, table[:, :, _EXISTS : _EXISTS + 1]

    def _joined(self, flat: Tensor) -> Tensor:
        table, exists = self._table(flat)
        study = flat[:, None, -len(STUDY) :].expand(-1, table.shape[1], -1)
        # Without `counts`, which is known only once a point was drawn.
        rows = torch.tanh(self.row(torch.cat([table[:, :, _EXISTS:], study], dim=2)))
        pooled = _mean(rows, exists)[:, None, :].expand_as(rows)
        return torch.tanh(self.joined(torch.cat([rows, pooled], dim=2)))


def _mean(rows: Tensor, exists: Tensor) -> Tensor:
    """Over the rows that exist."""
    return (rows * exists).sum(dim=1) / exists.sum(dim=1).clamp(min=1.0)


class MaskedGaussian(DiagGaussianDistribution):  # type: ignore[misc]  # not followed
    """Coordinates that do not count add nothing to probability and entropy."""

    def masked(self, means: Tensor, widths: Tensor, counts: Tensor) -> "MaskedGaussian":
        self.distribution = torch.distributions.Normal(means, widths.exp(), validate_args=False)
        self.counts = counts
        return self

    def log_prob(self, actions: Tensor) -> Tensor:
        return (self.distribution.log_prob(actions) * self.counts).sum(dim=1)

    def entropy(self) -> Tensor:
        return (self.distribution.entropy() * self.counts).sum(dim=1)


class CubePolicy(ActorCriticPolicy):  # type: ignore[misc]  # not followed
    """stable-baselines3's actor and critic over `SharedNetwork`."""

    def _build(self, lr_schedule: Any) -> None:
        self.network = SharedNetwork()
        self.action_dist = MaskedGaussian(int(np.prod(self.action_space.shape)))
        self.optimizer = self.optimizer_class(
            self.parameters(), lr=lr_schedule(1), **self.optimizer_kwargs
        )

    def forward(self, obs: Tensor, deterministic: bool = False) -> tuple[Tensor, Tensor, Tensor]:  # noqa: FBT001, FBT002 - its signature
        means, widths, counts, values = self.network(obs)
        distribution = self.action_dist.masked(means, widths, counts)
        actions = distribution.get_actions(deterministic=deterministic)
        return actions, values, distribution.log_prob(actions)

    def evaluate_actions(self, obs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        means, widths, counts, values = self.network(obs)
        distribution = self.action_dist.masked(means, widths, counts)
        return values, distribution.log_prob(actions), distribution.entropy()

    def get_distribution(self, obs: Tensor) -> MaskedGaussian:
        means, widths, counts, _ = self.network(obs)
        return self.action_dist.masked(means, widths, counts)

    def predict_values(self, obs: Tensor) -> Tensor:
        values: Tensor = self.network(obs)[3]
        return values
