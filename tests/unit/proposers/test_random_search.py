"""Random search: uniform, without repeats, to the last point of a small space."""

from itertools import product

from ledger.digests import params_digest
from ledger.records import Direction, Objective
from ledger.search import History
from proposers.host import number_rng
from proposers.random_search import RandomSearch
from proposers.search_space import Categorical, Float, Int, SearchSpace, point

OBJECTIVE = Objective(metric="score", direction=Direction.MAXIMIZE)
SMALL: SearchSpace = {"a": Int(0, 9), "b": Categorical(("x", "y", "z"))}


def history(number: int, proposed: frozenset[str] = frozenset()) -> History:
    return History(objective=OBJECTIVE, next_number=number, proposed=proposed)


def test_a_small_space_is_searched_to_its_last_point_without_repeats() -> None:
    found = RandomSearch(SMALL).propose(history(0), count=100, seed=5, state=None)
    assert len(found.items) == 30
    assert len({params_digest(p.params) for p in found.items}) == 30


def test_one_point_left_is_found_wherever_it_is() -> None:
    everything = [point(SMALL, i) for i in range(30)]
    for left, seed in product((0, 13, 29), range(20)):
        taken = frozenset(params_digest(p) for i, p in enumerate(everything) if i != left)
        found = RandomSearch(SMALL).propose(history(29, taken), count=3, seed=seed, state=None)
        assert [p.params for p in found.items] == [everything[left]]


def test_a_range_of_two_floats_ends_instead_of_drawing_for_ever() -> None:
    tiny: SearchSpace = {"x": Float(1.0, 1.0000000000000002, log=True)}
    found = RandomSearch(tiny).propose(history(0), count=50, seed=0, state=None)
    assert {p.params["x"] for p in found.items} <= {1.0, 1.0000000000000002}
    assert len(found.items) <= 2


def test_a_space_without_parameters_is_exhausted_at_once() -> None:
    assert RandomSearch({}).propose(history(0), count=3, seed=0, state=None).items == ()


def test_draws_cover_the_range_evenly() -> None:
    space: SearchSpace = {"x": Float(0.0, 1.0)}
    found = RandomSearch(space).propose(history(0), count=2000, seed=3, state=None)
    below = sum(p.params["x"] < 0.25 for p in found.items)  # type: ignore[operator]
    assert 430 < below < 570


def test_another_seed_draws_other_points() -> None:
    one, two = (
        RandomSearch({"x": Float(0.0, 1.0)}).propose(history(0), count=5, seed=s, state=None)
        for s in (1, 2)
    )
    assert one != two


def test_the_generator_of_a_number_never_changes_between_versions() -> None:
    # Studies in old ledgers go on with the sequence they began.
    assert number_rng(0, 0).random() == 0.5050399556623759
    assert number_rng(7, 12).random() == 0.06320533180551102


def test_seed_and_number_do_not_run_into_each_other() -> None:
    assert number_rng(1, 11).random() != number_rng(11, 1).random()
