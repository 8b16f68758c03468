"""What a training program says by its exit status is the trial's reason in the ledger."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from inner_trials import contract
from tests.cli_runs import Arl, arl_in


@pytest.fixture
def arl(tmp_path: Path) -> Iterator[Arl]:
    with arl_in(tmp_path) as made:
        yield made


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (contract.EXIT_OUT_OF_MEMORY, "out_of_memory"),
        (contract.EXIT_NOT_FINITE, "not_finite"),
        (contract.EXIT_ACTORS_LOST, "actors_lost"),
    ],
)
def test_a_status_with_a_meaning_becomes_its_reason_with_the_programs_line(
    arl: Arl, status: int, reason: str
) -> None:
    body = f"echo 'dpo: the reason why' >&2; exit {status}"
    file = arl.study(body=body, retries={"infrastructure": 0})
    arl.run("run", file)
    trial = arl.ok("export", "last", "--format", "json").json()[0]
    assert (trial["state"], trial["reason"]) == ("failed", reason)
    assert "dpo: the reason why" in trial["detail"]
