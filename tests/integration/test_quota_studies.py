"""A study whose programs write too much: whose fault that is, and what a person is told."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli_runs import Arl, arl_in
from tests.target_runs import end_supervisor, require_bubblewrap

GREEDY = 'head -c 9000000 /dev/zero > "$ARL_OUTPUT/big"; head -c 9000000 /dev/zero > "$HOME/big"\n'


@pytest.fixture
def arl(tmp_path: Path) -> Iterator[Arl]:
    with arl_in(tmp_path / "place") as made:
        yield made
        if (made.home / "bubblewrap").is_dir():
            end_supervisor(made.home / "bubblewrap")


@pytest.mark.parametrize(
    "target", ["local", pytest.param("bubblewrap", marks=[pytest.mark.bubblewrap])]
)
@pytest.mark.parametrize("what", ["output", "scratch"])
def test_a_trial_that_writes_too_much_fails_by_its_own_fault_and_says_how_much(
    arl: Arl, target: str, what: str
) -> None:
    if target == "bubblewrap":
        require_bubblewrap()
    resources = {"wall_time": "60s", "output": "64MiB", "scratch": "64MiB", what: "4MiB"}
    file = arl.study(body=GREEDY + "sleep 8\n", target={"name": target}, resources=resources)
    done = arl.run("run", file)
    assert done.code == 6, done
    study = arl.show()
    assert study["reason"] == "baseline_failed"
    assert "too_much_data" in done.out
    attempt = arl.ok("show", f"{study['study']}/0", "--json").json()["attempts"][0]
    assert attempt["reason"] == "too_much_data"
    assert f"resources.{what} allows 4 MiB" in attempt["detail"]
    assert attempt["wall_s"] < 8
