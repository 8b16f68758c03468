"""The corpus without a sandbox: what is missed there is published, and no more is missed."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.hostile.corpus.entry import Attack, Shape
from tests.hostile.corpus_checks import LOCAL, Studies, attacks_for, is_heavy

PAGE = Path(__file__).resolve().parents[2] / "docs" / "hostile.json"
OWN_DOING = ("a socket of the host was reached", "a process of the host was killed")
"""Harm that published misses do there."""


@pytest.fixture(scope="module")
def studies() -> Studies:
    return Studies(LOCAL)


@pytest.fixture(scope="module")
def published() -> dict[str, Any]:
    verdicts: dict[str, Any] = json.loads(PAGE.read_bytes())["targets"][LOCAL]["verdicts"]
    return verdicts


def cases() -> Iterator[Any]:
    for attack in attacks_for(LOCAL):
        marks = [pytest.mark.slow] if is_heavy(attack, LOCAL) else []
        marks += [pytest.mark.train] if attack.shape is Shape.MODEL else []
        yield pytest.param(attack, marks=marks, id=attack.name)


@pytest.mark.parametrize("attack", [*cases()])
def test_what_the_local_process_misses_is_published(
    attack: Attack, studies: Studies, published: dict[str, Any]
) -> None:
    misses = studies.misses(attack)
    assert misses == [] or published[attack.name]["verdict"] == "missed", misses


def test_the_neighbours_and_the_controller_of_all_attacks_are_unharmed(studies: Studies) -> None:
    assert [line for line in studies.broken() if not line.startswith(OWN_DOING)] == []
