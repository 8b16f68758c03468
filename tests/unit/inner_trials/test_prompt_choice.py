"""Prompts that teach nothing rest for a while, and what that does to the data is counted."""

import json
from collections.abc import Callable

import pytest

from inner_trials.prompt_choice import PromptChoice

ROWS = list(range(6))


def choice_of(*, rest_after: int = 1, rest_passes: int = 1, seed: int = 0) -> PromptChoice:
    return PromptChoice(ROWS, seed=seed, rest_after=rest_after, rest_passes=rest_passes)


def generation(choice: PromptChoice, rewards_of: Callable[[int], list[float]]) -> list[int]:
    """One of two prompts, without others in their place."""
    rows = choice.draw(2)
    for row in rows:
        choice.see(row, rewards_of(row), rewards_of(row))
    choice.learn([0, 1])
    return rows


def mixed(_: int) -> list[float]:
    return [1.0, 0.0]


def test_without_anything_to_skip_each_pass_shows_every_prompt_once_in_another_order() -> None:
    choice = choice_of()
    passes = []
    for _ in range(3):
        shown: list[int] = []
        for _ in range(3):
            shown += generation(choice, mixed)
            values = choice.end_generation()
            assert values["resting"] == values["left_out"] == values["reward_shift"] == 0.0
        assert sorted(shown) == ROWS
        passes.append(shown)
    assert passes[0] != passes[1] != passes[2]


@pytest.mark.parametrize(("reward", "side"), [(1.0, "always_pass"), (0.0, "always_fail")])
def test_a_prompt_that_always_ends_alike_rests_for_so_many_passes_and_comes_back(
    reward: float, side: str
) -> None:
    choice = choice_of(rest_after=2, rest_passes=2)
    shown = []
    for _ in range(18):
        shown += generation(choice, lambda row: [reward] * 2 if row == 3 else [1.0, 0.0])
        values = choice.end_generation()
        if values[side]:
            assert values[side] == pytest.approx(1 / 6)
    # Thirty-six prompts were shown: two passes of six, two of five, one of six ...
    passes = [shown[:6], shown[6:12], shown[12:17], shown[17:22], shown[22:28]]
    assert [3 in rows for rows in passes] == [True, True, False, False, True]


def test_a_difference_in_between_starts_the_count_again() -> None:
    choice = choice_of(rest_after=2)
    for rewards in ([0.0, 0.0], [0.0, 1.0], [0.0, 0.0], [1.0, 1.0]):
        choice.see(3, rewards, rewards)
        assert choice.state()["known"]["3"]["rests_until"] == 0
    choice.see(3, [1.0, 1.0], [1.0, 1.0])
    assert choice.state()["known"]["3"]["rests_until"] == 2


def test_a_difference_in_another_part_of_the_reward_is_something_to_learn_from() -> None:
    assert choice_of().see(0, [0.0, 0.1], [0.0, 0.0])
    assert not choice_of().see(0, [0.1, 0.1], [0.0, 0.0])


def test_when_all_rest_all_are_shown() -> None:
    choice = choice_of(rest_passes=50)
    shown = [row for _ in range(9) for row in generation(choice, lambda _: [0.0, 0.0])]
    assert all(shown.count(row) >= 2 for row in ROWS)


def test_the_shift_of_the_mean_reward_is_that_of_what_was_come_by() -> None:
    order = choice_of().draw(6)
    choice = choice_of()
    last = {0: 1.0, 1: 1.0, 2: 0.0}
    known = {
        str(row): {
            "reward": reward,
            "has_passed": reward > 0,
            "idle_groups": 1,
            "rests_until": 9,
            "is_learned": False,
        }
        for row, reward in last.items()
    }
    choice.load({"passes": 0, "at": 0, "known": known})
    rows = choice.draw(3)
    assert sorted(rows) == [3, 4, 5]
    for row, verdicts in zip(rows, ([1.0, 0.0], [0.0, 0.0], [1.0, 0.0]), strict=True):
        choice.see(row, verdicts, verdicts)
    choice.learn([0, 2])
    came_by = order[: choice.state()["at"]]
    rested = [last[row] for row in came_by if row in last]
    values = choice.end_generation()
    assert len(rested) > 0
    assert values["resting"] == pytest.approx(len(rested) / len(came_by))
    assert values["left_out"] == pytest.approx(1 / len(came_by))
    assert values["pass_rate"] == pytest.approx(1 / 3)
    assert values["reward_shown"] == 0.5
    assert values["reward_all"] == pytest.approx((sum(rested) + 1.0) / len(came_by))
    assert values["reward_shift"] == pytest.approx(0.5 - values["reward_all"])


def test_what_was_never_learned_from_is_counted_over_all_prompts() -> None:
    choice = choice_of()
    rows = choice.draw(2)
    for row in rows:
        choice.see(row, [1.0, 0.0], [1.0, 0.0])
    choice.learn([1])
    assert choice.end_generation()["never_learned"] == pytest.approx(5 / 6)


def test_a_choice_goes_on_from_its_state_as_if_it_had_never_stopped() -> None:
    def rewards(row: int) -> list[float]:
        return [[1.0, 1.0], [0.0, 0.0], [1.0, 0.0]][row % 3]

    whole, first = choice_of(), choice_of()
    for choice in (whole, first):
        for _ in range(4):
            generation(choice, rewards)
            choice.end_generation()
    second = choice_of()
    second.load(json.loads(json.dumps(first.state())))
    for _ in range(10):
        assert generation(whole, rewards) == generation(second, rewards)
        assert whole.end_generation() == second.end_generation()


def test_another_seed_gives_another_order() -> None:
    assert choice_of(seed=0).draw(6) == choice_of(seed=0).draw(6) != choice_of(seed=1).draw(6)
