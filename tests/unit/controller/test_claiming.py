"""Which studies a worker takes and which it leaves to others."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from controller.decisions.claiming import (
    Free,
    fair_part,
    how_many_to_hand_over,
    studies_to_claim,
)

PATIENCE_S = 5.0


def claimed(free: list[Free], driven: int, studies: int, workers: int) -> list[str]:
    return studies_to_claim(
        free, driven=driven, studies=studies, workers=workers, patience_s=PATIENCE_S
    )


def test_a_worker_alone_takes_everything_the_highest_priority_and_the_oldest_first() -> None:
    free = [
        Free(study_id="old", created_at=1.0),
        Free(study_id="first", priority=3, created_at=9.0),
        Free(study_id="new", created_at=2.0),
    ]
    assert claimed(free, 0, 3, 1) == ["first", "old", "new"]


def test_one_of_two_workers_takes_half() -> None:
    free = [Free(study_id=f"s{n}", created_at=n) for n in range(4)]
    assert claimed(free, 0, 4, 2) == ["s0", "s1"]
    assert claimed(free[2:], 2, 4, 2) == []


def test_what_the_others_leave_alone_is_taken_in_the_end() -> None:
    free = [Free(study_id="a", free_for_s=PATIENCE_S), Free(study_id="b")]
    assert claimed(free, 4, 6, 2) == ["a"]


def test_what_a_machine_is_too_small_for_is_left_to_larger_ones_for_a_while() -> None:
    large = Free(study_id="large", priority=9, fits=False, free_for_s=5 * PATIENCE_S)
    assert claimed([large, Free(study_id="small")], 0, 2, 1) == ["small"]
    assert claimed([replace(large, free_for_s=6 * PATIENCE_S)], 0, 1, 1) == ["large"]


@given(
    drives=st.lists(st.integers(0, 9), min_size=1, max_size=6),
    free=st.integers(0, 12),
)
def test_claims_and_handing_over_end_with_equal_parts(drives: list[int], free: int) -> None:
    """Workers look in turn; after a few rounds nobody drives two more than another."""
    studies = sum(drives) + free
    for _ in range(4):
        for worker, driven in enumerate(drives):
            others = {str(n): count for n, count in enumerate(drives) if n != worker}
            given_back = how_many_to_hand_over(driven=driven, others=others, studies=studies)
            waiting = [Free(study_id=f"s{n}") for n in range(free)]
            taken = len(claimed(waiting, driven, studies, len(drives)))
            assert not (taken and given_back)
            drives[worker] += taken - given_back
            free += given_back - taken
    assert free == 0
    assert max(drives) <= fair_part(studies, len(drives))
    assert min(drives) >= studies // len(drives)
