"""The whole corpus against the sandboxes: no attack changes a score, is promoted, reaches what is
outside, or harms its neighbours, the controller or the host.

Each attack goes through a real study beside honest candidates (tests.hostile.corpus_study); the
tests below read what the ledger and the logs say of it.
"""

from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.hostile.corpus.entry import Attack, Shape
from tests.hostile.corpus_checks import Studies, attacks_for, is_heavy
from tests.target_runs import require_bubblewrap

SANDBOXES: Final = ("bubblewrap", "docker")
_MARKS: Final = {"bubblewrap": pytest.mark.bubblewrap, "docker": pytest.mark.docker}


def cases() -> Iterator[Any]:
    for target in SANDBOXES:
        for attack in attacks_for(target):
            marks = [_MARKS[target], pytest.mark.timeout(600)]
            if attack.shape is Shape.MODEL:
                marks.append(pytest.mark.train)
            if is_heavy(attack, target):
                marks.append(pytest.mark.slow)
            yield pytest.param(target, attack, marks=marks, id=f"{target}-{attack.name}")


@pytest.fixture(scope="module")
def studies() -> dict[str, Studies]:
    return {}


def studies_of(target: str, known: dict[str, Studies], request: pytest.FixtureRequest) -> Studies:
    if target not in known:
        environment = {}
        if target == "docker":
            environment["ARL_DOCKER_HOST"] = request.getfixturevalue("docker_engine").host
        else:
            require_bubblewrap()
        known[target] = Studies(target, environment)
    return known[target]


@pytest.mark.parametrize(("target", "attack"), [*cases()])
def test_an_attack_is_contained_by_a_sandbox(
    target: str, attack: Attack, studies: dict[str, Studies], request: pytest.FixtureRequest
) -> None:
    found = studies_of(target, studies, request)
    assert found.misses(attack) == []
    assert found.surprises(attack) == []


@pytest.mark.parametrize("target", [pytest.param(name, marks=_MARKS[name]) for name in SANDBOXES])
def test_the_neighbours_the_controller_and_the_host_of_all_attacks_are_unharmed(
    target: str, studies: dict[str, Studies], request: pytest.FixtureRequest
) -> None:
    """Of every study that the tests above ran; it comes after them."""
    assert studies_of(target, studies, request).broken() == []
