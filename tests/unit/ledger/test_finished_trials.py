"""A packed history reads like the list that it was made of."""

import random

import pytest

from ledger.digest_set import DigestSet
from ledger.digests import sha256_hex
from ledger.finished_trials import BLOCK, UNPACKED, FinishedTrials, outcomes_of
from ledger.search import FinishedTrial
from ledger.states import Reason, TrialState

COUNT = 2 * BLOCK + 137


def awkward(count: int, rng: random.Random) -> list[FinishedTrial]:
    """Values and words of every kind; some blocks in which all say the same, some not."""
    params = ({"a": 1, "b": 1.0, "c": True, "d": "1"}, {"a": -0.0, "e": 'é"\\\n\udcff'}, {})
    return [
        FinishedTrial(
            number=2 * place,
            params={**rng.choice(params), "p": rng.random()},
            state=rng.choice(list(TrialState)),
            value=rng.choice([None, 0.1, -0.0, 1e300, float(place)]),
            reason=rng.choice(list(Reason)),
            candidate_id=f"s1-c{rng.randrange(count)}",
            kept=rng.random() < 0.1,
            scores=rng.choice([{}, {"x": 0.1 + place, "y": 3}]),
            detail="" if place < BLOCK else rng.choice(["", "why"]),
            proposer="random",
            parent_id=None if place < BLOCK else rng.choice([None, "s1-c1"]),
            rationale="",
            source_digest=rng.choice(["5" * 64, None]),
            wall_s=0.0 if place < BLOCK else rng.random(),
        )
        for place in range(count)
    ]


@pytest.fixture(scope="module")
def plain() -> list[FinishedTrial]:
    return awkward(COUNT, random.Random(3))


@pytest.fixture(scope="module")
def packed(plain: list[FinishedTrial]) -> FinishedTrials:
    found = FinishedTrials()
    for trial in plain:
        found.append(trial)
    found._unpacked.clear()  # what lies at hand would hide what packing loses
    return found


def test_a_packed_history_is_the_list_it_was_made_of(
    plain: list[FinishedTrial], packed: FinishedTrials
) -> None:
    assert len(packed) == COUNT
    assert [repr(one) for one in packed] == [repr(one) for one in plain]  # 1 is not 1.0 here
    assert list(reversed(packed)) == plain[::-1]
    assert packed[BLOCK - 2 : BLOCK + 3] == plain[BLOCK - 2 : BLOCK + 3]
    for place in (0, 1, BLOCK - 1, BLOCK, COUNT - 1, -1, -COUNT):
        assert packed[place] == plain[place]
    for place in (COUNT, -COUNT - 1):
        with pytest.raises(IndexError):
            packed[place]


def test_outcomes_are_the_same_packed_and_plain(
    plain: list[FinishedTrial], packed: FinishedTrials
) -> None:
    for start in (0, 1, BLOCK, BLOCK + 1, 2 * BLOCK + 5, COUNT):
        assert list(outcomes_of(packed, start)) == list(outcomes_of(plain, start))
    assert list(packed.candidate_ids()) == [trial.candidate_id for trial in plain]


def test_a_long_walk_keeps_few_blocks_unpacked() -> None:
    found = FinishedTrials()
    for trial in awkward((UNPACKED + 3) * BLOCK, random.Random(1)):
        found.append(trial)
    assert sum(1 for _ in reversed(found)) == len(found)
    assert len(found._unpacked) == UNPACKED


def test_a_digest_set_is_the_set_of_its_digests() -> None:
    words = [f"word {number}" for number in range(500)]
    digests = [sha256_hex(word.encode()) for word in words]
    known = DigestSet(bytes.fromhex(digest) for digest in [*digests[:300], *digests[:10]])
    assert known == set(digests[:300])
    for digest in digests[250:400]:
        known.add(digest)
    assert known == set(digests[:400])
    assert all(digest in known for digest in digests[:400])
    assert not any(digest in known for digest in digests[400:])
    assert known | {"x"} == {*digests[:400], "x"}
    assert "" not in DigestSet()
