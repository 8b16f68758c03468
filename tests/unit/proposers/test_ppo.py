"""The learned policy as a proposer: resumable, within its space, and good from the first trial."""

import math
import random
import statistics
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from ledger.digests import params_digest
from ledger.errors import ProposerFailed
from ledger.records import Params
from ledger.search import History
from ledger.states import Reason, TrialState
from proposers.ppo_memory import BEST_KEPT, LATEST_KEPT, Memory
from proposers.ppo_options import PpoOptions
from proposers.ppo_rewards import FAILURE, HIGHEST, reward_of
from proposers.ppo_space import UnitCube
from proposers.ppo_state import read, read_weights, write_weights
from proposers.registry import option_problems
from proposers.search_space import Categorical, Float, Int, SearchSpace, faults, sample
from tests.ppo_studies import Driven

BOWL: SearchSpace = {f"x{n}": Float(-5.0, 5.0) for n in range(4)}
MIXED: SearchSpace = {
    "lr": Float(1e-5, 1e-1, log=True),
    "units": Int(8, 256, log=True),
    "layers": Int(1, 6),
    "drop": Float(0.0, 0.5, step=0.1),
    "act": Categorical(("relu", "tanh", True, 1, 1.0)),
    "mode": Categorical(("a", "b")),
    "depth": Int(1, 9, when=(("mode", ("b",)),)),
    "only": Categorical(("one",)),
}


def bowl(params: Params) -> float:
    return sum((float(value) - 1.5) ** 2 for value in params.values())


def mixed(params: Params) -> float:
    loss = abs(math.log10(float(params["lr"])) + 3.0) + abs(int(params["layers"]) - 3)
    loss += 0.0 if params["act"] is True else 1.0
    return loss + (abs(int(params["depth"]) - 7) * 0.1 if params["mode"] == "b" else 2.0)


def random_best(space: SearchSpace, value: object, trials: int, seed: int) -> float:
    rng = random.Random(seed)
    assert callable(value)
    return min(value(sample(space, rng)) for _ in range(trials))


# --- the same again ------------------------------------------------------------------------------


@pytest.mark.parametrize("space", [BOWL, MIXED], ids=["numbers", "mixed"])
def test_a_restart_at_any_call_changes_nothing_while_the_policy_learns(space: SearchSpace) -> None:
    value = bowl if space is BOWL else mixed
    straight, restarted = Driven(space, value, seed=3), Driven(space, value, seed=3)
    for count in (3, 5, 1, 8, 2, 9):
        restarted.proposer = restarted.fresh()
        assert restarted.ask(count) == straight.ask(count)
        assert restarted.state == straight.state
        while len(straight.pending) > 2:
            assert straight.end(-1) == restarted.end(-1)
    assert straight.state is not None
    assert read(straight.state).knowledge.updates >= 2


def test_another_process_proposes_the_same(tmp_path: Path) -> None:
    study = Driven(BOWL, bowl, seed=1)
    study.run(20, batch=4)
    assert study.state is not None
    (tmp_path / "state").write_bytes(study.state)
    code = f"""
import sys
from dataclasses import replace
from pathlib import Path
from tests.ppo_studies import Driven
from tests.unit.proposers.test_ppo import BOWL, bowl
study = Driven(BOWL, bowl, seed=1)
for trial in {[dict(p) for p in study.made]!r}:
    study.made.append(trial)
    from ledger.search import PendingTrial
    number = len(study.made) + 6
    study.pending.append(PendingTrial(number=number, params=trial, candidate_id=f"c{{number}}"))
    study.end()
study.state = Path(sys.argv[1]).read_bytes()
print(repr([sorted(p.items()) for p in study.ask(3)]))
"""
    found = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "state")],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[3],
    )
    assert found.stdout.strip() == repr([sorted(p.items()) for p in study.ask(3)])


def test_the_process_random_states_are_left_alone() -> None:
    before = (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist())
    Driven(BOWL, bowl).run(20, batch=2)
    after = (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist())
    assert after == before


def test_proposals_are_drawn_and_differ_by_seed_and_number() -> None:
    one, two = Driven(BOWL, bowl, seed=1), Driven(BOWL, bowl, seed=2)
    assert one.ask(4) != two.ask(4)
    assert len({params_digest(params) for params in one.made}) == 4


# --- it finds what is good -----------------------------------------------------------------------


def test_a_bowl_is_found_far_better_than_at_random() -> None:
    found = []
    for seed in range(3):
        study = Driven(BOWL, bowl, seed=seed)
        study.run(50)
        found.append(study.best())
    assert statistics.median(found) < 0.1 * statistics.median(
        random_best(BOWL, bowl, 50, seed) for seed in range(20)
    )


def test_a_mixed_conditional_space_is_found_better_than_at_random() -> None:
    found = []
    for seed in range(3):
        study = Driven(MIXED, mixed, seed=seed)
        study.run(60, batch=4)
        assert all(not list(faults(MIXED, params)) for params in study.made)
        found.append(study.best())
    expected = statistics.median(random_best(MIXED, mixed, 60, seed) for seed in range(20))
    assert statistics.median(found) < 0.7 * expected


def test_the_best_arm_of_a_noisy_bandit_is_pulled_more_and_more() -> None:
    space: SearchSpace = {"arm": Categorical(tuple("abcde")), "nonce": Int(0, 10**6)}
    shares = []
    for seed in range(3):
        rng = random.Random(seed)
        study = Driven(
            space, lambda p, r=rng: "edcba".index(str(p["arm"])) + r.gauss(0, 0.5), seed=seed
        )
        study.run(60, batch=4)
        pulls = [params["arm"] == "e" for params in study.made]
        shares.append((sum(pulls[:15]) / 15, sum(pulls[-30:]) / 30))
    early, late = (statistics.mean(column) for column in zip(*shares, strict=True))
    assert late > 0.5  # at random: 0.2
    assert late > early


def test_an_optimum_that_moves_is_followed() -> None:
    """Random cannot follow: its trials of the second half are no better than those before."""
    study = Driven(BOWL, bowl, seed=0)
    moved = {"to": 1.5}
    study.value = lambda p: (
        sum((float(v) - moved["to"]) ** 2 for v in p.values()) - 40 * (moved["to"] < 0)
    )
    study.run(30)
    moved["to"] = -2.0
    later = [value for value in study.run(40) if value is not None]
    rng = random.Random(0)
    at_random = [study.value(sample(BOWL, rng)) or 0.0 for _ in range(400)]
    assert statistics.median(later[-10:]) < statistics.quantiles(at_random, n=20)[0]


# --- awkward histories ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "values",
    [
        [1e308, -1e308, math.nan, math.inf, 0.0],
        [0.0],
        [None],
        [1e-320, 0.0, 1e308],
        [5.0, 5.0, None, 5.0],
    ],
    ids=["extremes", "all-equal", "failures-only", "tiny-and-huge", "equal-and-failed"],
)
@pytest.mark.parametrize("noise_floor", [0.0, 1e308, 1e-12])
def test_any_history_gives_points_of_the_space(
    values: list[float | None], noise_floor: float
) -> None:
    turn = iter(values * 20)
    study = Driven(MIXED, lambda p: next(turn), noise_floor=noise_floor, baseline=(1e308, 1e308))
    study.run(20, batch=3)
    assert len(study.made) == 20
    assert all(not list(faults(MIXED, params)) for params in study.made)
    assert study.state is not None
    assert read(study.state).knowledge.updates == 2


def test_pruned_and_cancelled_trials_are_no_stumbling_block() -> None:
    study = Driven(BOWL, bowl)
    for state in (TrialState.PRUNED, TrialState.CANCELLED, TrialState.FAILED, None) * 5:
        study.ask()
        study.end(state=state)
    study.ask()
    assert study.state is not None
    kept = read(study.state)
    # Cancelled trials say nothing: 15 of 20 are learned from, 8 of them by now.
    assert (kept.knowledge.updates, len(kept.rollout)) == (1, 7)


def test_two_hundred_parameters() -> None:
    space: SearchSpace = {f"p{n:03}": Float(0.0, 1.0) for n in range(200)}
    study = Driven(space, lambda p: sum(float(v) for v in p.values()))
    study.run(12, batch=4)
    assert len(study.made) == 12
    assert study.state is not None
    assert len(study.state) < 300_000


def test_a_space_of_one_point_ends_after_it() -> None:
    study = Driven({"a": Categorical(("x",)), "b": Int(1, 2, step=5)}, lambda p: 1.0)
    assert study.ask(3) == [{"a": "x", "b": 1}]
    study.end()
    assert study.ask(1) == []


def test_unicode_names_and_values() -> None:
    space: SearchSpace = {"größe": Float(0.0, 1.0), "算法": Categorical(("甲", "乙"))}
    study = Driven(space, lambda p: float(p["größe"]))
    study.run(12)
    assert len(study.made) == 12


def test_the_widest_range_and_the_finest_grid() -> None:
    space: SearchSpace = {"wide": Float(-1.7e308, 1.7e308), "fine": Int(-(10**15), 10**15)}
    study = Driven(space, lambda p: float(p["wide"]))
    study.run(15)
    assert all(not list(faults(space, params)) for params in study.made)


def test_a_point_that_breaks_a_constraint_counts_as_a_failure() -> None:
    study = Driven(BOWL, bowl)
    study.run(1)
    memory = Memory(UnitCube(BOWL))
    infeasible = replace(study.finished[0], reason=Reason.INFEASIBLE)
    memory.update(History(objective=study.objective, next_number=1, finished=[infeasible]))
    assert (memory.scored, memory.failed, memory.best) == (0, 1, None)


def test_what_is_remembered_does_not_grow() -> None:
    study = Driven(BOWL, bowl)
    study.run(1)
    rng = random.Random(0)
    trials = [
        replace(study.finished[0], number=n, params=sample(BOWL, rng), value=rng.random())
        for n in range(3000)
    ]
    memory = Memory(UnitCube(BOWL))
    for seen in (100, 101, 3000):
        memory.update(History(objective=study.objective, next_number=seen, finished=trials[:seen]))
    assert len(memory.told().losses) <= BEST_KEPT + LATEST_KEPT
    at_once = Memory(UnitCube(BOWL))
    at_once.update(History(objective=study.objective, next_number=3000, finished=trials))
    assert at_once.told().losses.tolist() == memory.told().losses.tolist()
    assert memory.best is not None
    assert memory.best.loss == min(trial.value or 1.0 for trial in trials)


# --- rewards, options, files ---------------------------------------------------------------------


def test_rewards_are_finite_and_bounded_whatever_the_numbers() -> None:
    numbers = [0.0, 1e308, -1e308, 5e-324, 1.0, math.nan, math.inf, -math.inf, None]
    units = [0.0, 5e-324, 1.0, 1e308]
    found = {
        reward_of(loss, best, unit)
        for loss in numbers
        for best in numbers
        if best is None or math.isfinite(best)
        for unit in units
    }
    assert all(FAILURE <= reward <= HIGHEST for reward in found)
    assert reward_of(1.0, 3.0, 1.0) == 2.0
    assert reward_of(3.0, 1.0, 1.0) == 0.0
    assert reward_of(None, 1.0, 1.0) == FAILURE


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({"warm_start": "weights"}, "warm_start"),
        ({"warm_start": "relative.safetensors"}, "warm_start"),
        ({"update_every": 1}, "update_every"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"clip_range": 1.0}, "clip_range"),
        ({"epoch": 3}, "epoch"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, object], wrong: str) -> None:
    assert [where for where, _ in option_problems("ppo", options)] == [wrong]


def test_a_file_of_weights_is_where_the_policy_starts(tmp_path: Path) -> None:
    shipped = Driven(BOWL, bowl)
    shipped.ask()
    assert shipped.state is not None
    weights = read(shipped.state).knowledge.weights
    file = tmp_path / "mine.safetensors"
    file.write_bytes(write_weights(weights * 0.5))
    mine = Driven(BOWL, bowl, options=PpoOptions(warm_start=str(file)))
    mine.ask()
    assert mine.state is not None
    assert (read(mine.state).knowledge.weights == weights * 0.5).all()
    assert (read_weights(file) == weights * 0.5).all()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "No such file"),
        (b"", "holds no weights"),
        (b"\x10\x00\x00\x00\x00\x00\x00\x00" + b"x" * 40, "holds no weights"),
    ],
    ids=["missing", "empty", "garbage"],
)
def test_weights_that_cannot_be_read_are_refused(
    tmp_path: Path, content: bytes | None, why: str
) -> None:
    file = tmp_path / "mine.safetensors"
    if content is not None:
        file.write_bytes(content)
    study = Driven(BOWL, bowl, options=PpoOptions(warm_start=str(file)))
    with pytest.raises(ProposerFailed, match=why):
        study.ask()


def test_weights_that_are_gone_after_the_first_call_are_not_missed(tmp_path: Path) -> None:
    file = tmp_path / "mine.safetensors"
    shipped = Driven(BOWL, bowl)
    shipped.ask()
    assert shipped.state is not None
    file.write_bytes(write_weights(read(shipped.state).knowledge.weights))
    study = Driven(BOWL, bowl, options=PpoOptions(warm_start=str(file)))
    study.ask()
    file.unlink()
    again = Driven(BOWL, bowl, options=PpoOptions(warm_start=str(file)), state=study.state)
    assert again.ask()


def test_a_state_that_is_damaged_or_newer_is_refused_and_says_so() -> None:
    study = Driven(BOWL, bowl)
    study.run(3)
    assert study.state is not None
    good = study.state
    newer = good.replace(b'\\"version\\": 1', b'\\"version\\": 9')
    assert newer != good
    for state, why in (
        (b"", "cannot be read"),
        (good[: len(good) // 2], "cannot be read"),
        (newer, "has version 9"),
    ):
        study.state = state
        with pytest.raises(ProposerFailed, match=why):
            study.ask()
    study.state = good
    assert study.ask()


def test_the_state_of_another_space_is_not_used() -> None:
    study = Driven(BOWL, bowl)
    study.run(12)
    other = Driven({"x": Float(0.0, 1.0)}, lambda p: 0.0, state=study.state)
    fresh = Driven({"x": Float(0.0, 1.0)}, lambda p: 0.0)
    assert other.ask(2) == fresh.ask(2)
