"""Whether an online run is well: what is watched at each step, and alarms with thresholds.

All of it is reported, so that it is in the ledger and on the curves, and a study's pruner can end
a trial by it: `pruning: {name: threshold, metric: alarm/any, upper: 0.5}` ends one at the first
alarm that stays, or name one metric of the list below and bounds of your own.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean, pvariance
from typing import Final

from inner_trials.settings import SettingsError

SELECTION: Final = (
    "resting",
    "left_out",
    "pass_rate",
    "reward_shown",
    "reward_all",
    "reward_shift",
    "never_learned",
    "always_pass",
    "always_fail",
)
"""What inner_trials.prompt_choice says of a generation."""
REPORTED: Final[Mapping[str, str]] = {
    "reward": "train/reward",
    "entropy": "health/entropy",
    "kl": "health/kl",
    "clip_ratio/region_mean": "health/clip_fraction",
    "cispo_clip_ratio": "health/clip_fraction",
    "frac_reward_zero_std": "health/zero_variance_groups",
    "completions/mean_length": "health/length",
    "completions/max_length": "health/length_max",
    "completions/clipped_ratio": "health/truncated",
    "well_formed": "health/well_formed",
    "turns": "health/turns",
    "broken_episodes": "health/broken_episodes",
    "partial_episodes": "health/partial_episodes",
    "tool_calls": "health/tool_calls",
    "failed_calls": "health/failed_calls",
    "reward_variance_in_groups": "health/reward_variance_in_groups",
    "importance_ratio_mean": "health/importance_ratio_mean",
    "importance_ratio_max": "health/importance_ratio_max",
    "completions_learned": "health/completions_learned",
    "stragglers": "health/stragglers",
    **{f"selection/{name}": f"selection/{name}" for name in SELECTION},
    "staleness": "health/staleness",
    "staleness_max": "health/staleness_max",
    "rollouts_dropped": "health/rollouts_dropped",
    "weight_sync_s": "health/weight_sync_s",
    "sampling/sampling_logp_difference/mean": "health/actor_mismatch",
    "sampling/sampling_logp_difference/max": "health/actor_mismatch_max",
    "sampling/importance_sampling_ratio/mean": "health/correction_mean",
    "sampling/importance_sampling_ratio/min": "health/correction_min",
}
"""TRL's names, and those of inner_trials.grpo_trainer, by the name they are reported under."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """Rings while a metric is beyond its threshold in as many reports in a row as `patience`."""

    metric: str
    threshold: float
    is_upper: bool = True
    """Whether more than the threshold is wrong, or less."""
    patience: int = 3

    def is_beyond(self, value: float) -> bool:
        # A NaN is beyond any threshold.
        fine = value <= self.threshold if self.is_upper else value >= self.threshold
        return not fine


ALARMS: Final[Mapping[str, Alarm]] = {
    "entropy_collapse": Alarm("health/entropy", 1e-3, is_upper=False),
    "far_from_reference": Alarm("health/kl", 10.0),
    "no_signal": Alarm("health/zero_variance_groups", 0.95, patience=10),
    "clipping": Alarm("health/clip_fraction", 0.5),
    "importance_ratio": Alarm("health/importance_ratio_max", 100.0),
    "truncation": Alarm("health/truncated", 0.9, patience=10),
    "malformed": Alarm("health/well_formed", 0.02, is_upper=False, patience=10),
    "environment": Alarm("health/broken_episodes", 0.1),
    "gradient": Alarm("train/grad_norm", 1000.0),
    "actor_mismatch": Alarm("health/actor_mismatch", 0.1),
    "stale_actors": Alarm("health/staleness", 0.0),
    "over_optimised": Alarm("guard/over_optimised", 0.1, patience=1),
    "forgetting": Alarm("guard/forgetting", 2.0, patience=1),
}


def make_alarms(thresholds: Mapping[str, object]) -> dict[str, Alarm]:
    """The alarms with a study's own thresholds; None takes one away.

    Raises:
        SettingsError: there is no such alarm, or a threshold is no number.
    """
    alarms = dict(ALARMS)
    for name, value in thresholds.items():
        if name not in ALARMS:
            known = ", ".join(ALARMS)
            raise SettingsError(f"options.alarms.{name}: there is no such alarm; known: {known}")
        if value is None:
            del alarms[name]
        elif isinstance(value, bool) or not isinstance(value, int | float):
            raise SettingsError(f"options.alarms.{name}: {value!r} is not a number or null")
        else:
            old = ALARMS[name]
            alarms[name] = Alarm(old.metric, float(value), old.is_upper, old.patience)
    return alarms


class AlarmPanel:
    """Which alarms ring, from one report to the next."""

    def __init__(self, alarms: Mapping[str, Alarm]) -> None:
        self._alarms = alarms
        self.counts: dict[str, int] = dict.fromkeys(alarms, 0)
        """Reports in a row beyond each threshold; kept in checkpoints."""

    def see(self, values: Mapping[str, float]) -> dict[str, float]:
        """What to report beside these values: `alarm/any`, and `alarm/<name>` of those that ring.

        A metric that is not among the values leaves its alarm as it was.
        """
        for name, alarm in self._alarms.items():
            if alarm.metric in values:
                beyond = alarm.is_beyond(values[alarm.metric])
                self.counts[name] = self.counts[name] + 1 if beyond else 0
        ringing = [n for n, alarm in self._alarms.items() if self.counts[n] >= alarm.patience]
        return {"alarm/any": float(bool(ringing)), **{f"alarm/{name}": 1.0 for name in ringing}}


def variance_in_groups(rewards: list[float], size: int) -> float:
    """The mean over groups of the rewards' variance within each."""
    groups = [rewards[start : start + size] for start in range(0, len(rewards), size)]
    return fmean(pvariance(group) for group in groups)
