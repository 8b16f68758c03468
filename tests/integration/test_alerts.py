"""What Prometheus' own tool says of the alerts and of what the server tells."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
SERIES = ROOT / "tests" / "alert_series.yml"


def test_each_alert_fires_on_what_it_is_for_and_not_on_a_healthy_arl() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed: apt-get install prometheus")
    done = subprocess.run([promtool, "test", "rules", SERIES], capture_output=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr).decode()


def test_every_alert_is_tried_with_series_that_fire_it_and_with_healthy_ones() -> None:
    rules = yaml.safe_load((ROOT / "deploy" / "alerts.yml").read_text())["groups"][0]["rules"]
    cases = [c for one in series()["tests"] for c in one["alert_rule_test"]]
    alerts = {rule["alert"] for rule in rules}
    assert {case["alertname"] for case in cases if case["exp_alerts"]} == alerts
    healthy = series()["tests"][0]["alert_rule_test"]
    assert {case["alertname"] for case in healthy if not case["exp_alerts"]} == alerts


def series() -> Any:
    return yaml.safe_load(SERIES.read_text())
