"""Alarms: what rings, when, and with whose threshold."""

import math

import pytest

from inner_trials import health
from inner_trials.settings import SettingsError


def test_an_alarm_rings_once_its_metric_stayed_beyond_for_its_patience() -> None:
    panel = health.AlarmPanel(health.make_alarms({}))
    fine, wrong = {"health/clip_fraction": 0.5}, {"health/clip_fraction": 0.51}
    assert panel.see(wrong) == {"alarm/any": 0.0}
    assert panel.see(wrong) == {"alarm/any": 0.0}
    assert panel.see(fine) == {"alarm/any": 0.0}, "a value at the threshold is fine"
    for _ in range(2):
        panel.see(wrong)
    assert panel.see(wrong) == {"alarm/any": 1.0, "alarm/clipping": 1.0}
    assert panel.see({"train/grad_norm": 1.0})["alarm/any"] == 1.0, "no news, no change"
    assert panel.see(fine) == {"alarm/any": 0.0}


def test_a_lower_bound_rings_below_and_nan_rings_on_both_sides() -> None:
    collapse = health.ALARMS["entropy_collapse"]
    assert collapse.is_beyond(0.0)
    assert not collapse.is_beyond(0.5)
    assert collapse.is_beyond(math.nan)
    assert health.ALARMS["gradient"].is_beyond(math.nan)


def test_a_study_moves_a_threshold_or_takes_an_alarm_away() -> None:
    alarms = health.make_alarms({"clipping": 0.1, "no_signal": None})
    assert alarms["clipping"].threshold == 0.1
    assert alarms["clipping"].patience == health.ALARMS["clipping"].patience
    assert "no_signal" not in alarms


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"entropy": 1.0}, "there is no such alarm; known: entropy_collapse"),
        ({"clipping": "high"}, "'high' is not a number or null"),
        ({"clipping": True}, "True is not a number or null"),
    ],
)
def test_a_wrong_alarm_is_refused(given: dict[str, object], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        health.make_alarms(given)


def test_every_alarm_watches_a_metric_that_is_reported() -> None:
    reported = {*health.REPORTED.values(), "train/grad_norm"}
    reported |= {"guard/over_optimised", "guard/forgetting"}
    assert {alarm.metric for alarm in health.ALARMS.values()} <= reported


def test_variance_within_groups_ignores_that_groups_differ() -> None:
    assert health.variance_in_groups([0.0, 0.0, 1.0, 1.0], 2) == 0.0
    assert health.variance_in_groups([0.0, 1.0, 0.0, 0.0], 2) == pytest.approx(0.125)
