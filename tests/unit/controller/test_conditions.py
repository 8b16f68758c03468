"""How soon a held study is tried again."""

from controller.worker.conditions import LONGEST_HOLD_S, Pace


def test_a_condition_that_comes_right_back_is_tried_less_and_less_often() -> None:
    pace, now, waits = Pace(), 100.0, []
    for _ in range(6):
        waits.append(pace.next_look(now) - now)
        now += waits[-1]
        pace.clear(now)
    assert waits == [2.0, 4.0, 8.0, LONGEST_HOLD_S, LONGEST_HOLD_S, LONGEST_HOLD_S]


def test_a_condition_that_had_really_cleared_is_tried_soon_again() -> None:
    pace = Pace()
    pace.next_look(0.0)
    pace.clear(2.0)
    assert pace.next_look(4.0) == 8.0
    pace.clear(8.0)
    assert pace.next_look(60.0) == 62.0
