"""The learned policy learns: rollouts are stable-baselines3's, updates improve its objective."""

import json
import math
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from stable_baselines3.common.buffers import RolloutBuffer

from ledger.errors import InvalidInput
from ledger.records import Direction, Params
from proposers.ppo_episodes import Episode
from proposers.ppo_features import COLUMNS, DIRECTIONS, FIRST_DIRECTION
from proposers.ppo_functions import make_task
from proposers.ppo_learner import PRIOR_STEPS, Learner
from proposers.ppo_options import PpoOptions
from proposers.ppo_policy import spaces_of
from proposers.ppo_pretrain import main
from proposers.ppo_recorded import read_recording
from proposers.ppo_rollout import Step
from proposers.ppo_seen import STUDY
from proposers.ppo_space import UnitCube
from proposers.ppo_state import Kept, read, read_weights, write
from proposers.search_space import Categorical, Float, Int, SearchSpace, sample
from tests.ppo_studies import Driven

BOWL: SearchSpace = {f"x{n}": Float(-5.0, 5.0) for n in range(3)}
WIDTH = 3


def bowl(params: Params) -> float:
    return sum((float(value) - 1.5) ** 2 for value in params.values())


def steps_of(learner: Learner, count: int) -> list[Step]:
    """Draws of the policy that earn more the further they lie above their mean."""
    rng = np.random.default_rng(0)
    steps = []
    for number in range(count):
        observation = rng.normal(size=WIDTH * len(COLUMNS) + len(STUDY)).astype(np.float16)
        table = observation[: -len(STUDY)].reshape(WIDTH, -1)
        table[:, : COLUMNS.index("exists") + 1] = 1.0
        table[:, FIRST_DIRECTION : FIRST_DIRECTION + len(DIRECTIONS)] *= 0.05
        table[:, COLUMNS.index("scale")] = 0.1
        seen = observation.astype(np.float32)
        means, widths, value = learner.decide(seen)
        noise = rng.normal(size=WIDTH)
        action = (means + widths * noise).astype(np.float32)
        step = Step(
            digest=f"{number:064x}",
            observation=seen,
            action=action,
            log_prob=learner.log_prob(seen, action),
            value=value,
            best=0.0,
            unit=1.0,
            reward=float(noise.mean()),
        )
        steps.append(step)
    return steps


def clipped_objective(learner: Learner, steps: list[Step]) -> float:
    now = np.array([learner.log_prob(s.observation, s.action) for s in steps])
    ratio = np.exp(now - np.array([s.log_prob for s in steps]))
    advantage = np.array([s.reward - s.value for s in steps])
    return float(np.minimum(ratio * advantage, np.clip(ratio, 0.8, 1.2) * advantage).mean())


def test_the_rollout_is_what_stable_baselines_makes_of_episodes_of_one_step() -> None:
    learner = Learner(WIDTH, PpoOptions(update_every=8))
    steps = steps_of(learner, 8)
    plain = RolloutBuffer(8, *spaces_of(WIDTH), device="cpu", gamma=0.99, gae_lambda=0.95)
    for step in steps:
        plain.add(
            step.observation[None],
            step.action[None],
            np.array([step.reward]),
            np.ones(1),
            torch.tensor([step.value]),
            torch.tensor([step.log_prob]),
        )
    plain.compute_returns_and_advantage(torch.tensor([123.0]), np.ones(1))
    learner.fill(steps)
    ours = learner.algorithm.rollout_buffer
    for name in ("observations", "actions", "rewards", "returns", "values", "log_probs"):
        assert (getattr(ours, name) == getattr(plain, name)).all(), name
    expected = np.array([s.reward - s.value for s in steps])
    assert plain.advantages[:, 0] == pytest.approx(expected, abs=1e-5)
    size = math.sqrt((PRIOR_STEPS + np.square(expected).sum()) / (PRIOR_STEPS + 8))
    assert ours.advantages == pytest.approx(plain.advantages / size, rel=1e-5)
    (samples,) = ours.get(8)
    assert samples.actions.numpy().tolist() == [s.action.tolist() for s in steps]


def test_an_update_changes_the_weights_and_improves_the_clipped_objective() -> None:
    learner = Learner(WIDTH, PpoOptions(update_every=64, learning_rate=1e-4))
    before = learner.knowledge()
    steps = steps_of(learner, 64)
    assert clipped_objective(learner, steps) == pytest.approx(
        np.mean([s.reward - s.value for s in steps]), abs=1e-4
    )
    start = clipped_objective(learner, steps)
    learner.update(steps)
    after = learner.knowledge()
    assert (after.weights != before.weights).mean() > 0.5
    assert after.gradient_steps >= 1
    assert clipped_objective(learner, steps) > start + 0.01


def test_a_policy_that_is_paid_for_a_direction_goes_there() -> None:
    learner = Learner(WIDTH, PpoOptions(update_every=32, learning_rate=1e-4))
    probe = steps_of(learner, 1)[0].observation
    means, widths, _ = learner.decide(probe)
    for _ in range(20):
        learner.update(steps_of(learner, 32))
    later, _, _ = learner.decide(probe)
    assert ((later - means) / widths).mean() > 0.2


def test_what_a_learner_knows_is_taken_over_to_the_bit() -> None:
    options = PpoOptions(update_every=8)
    one, two = Learner(WIDTH, options, seed=1), Learner(WIDTH, options, seed=2)
    one.update(steps_of(one, 8))
    kept = read(write(Kept(space="s", knowledge=one.knowledge())))
    two.take(kept.knowledge)
    steps = steps_of(one, 8)
    one.update(steps)
    two.update(steps)
    assert (one.knowledge().weights == two.knowledge().weights).all()
    assert (one.knowledge().second_moments == two.knowledge().second_moments).all()


def test_knowledge_of_another_size_or_without_numbers_is_refused() -> None:
    learner = Learner(WIDTH, PpoOptions())
    known = learner.knowledge()
    with pytest.raises(ValueError, match="weights has 3 numbers"):
        learner.take(replace(known, weights=known.weights[:3]))
    with pytest.raises(ValueError, match="not finite"):
        learner.take(replace(known, weights=known.weights * np.float32(np.nan)))


def test_rows_that_fill_the_table_and_what_does_not_exist_change_no_probability() -> None:
    learner = Learner(WIDTH, PpoOptions())
    step = steps_of(learner, 1)[0]
    table = step.observation[: -len(STUDY)].reshape(WIDTH, -1)
    table[2, : COLUMNS.index("exists") + 1] = 0.0
    other = step.action.copy()
    other[2] += 1.0
    assert learner.log_prob(step.observation, other) == learner.log_prob(
        step.observation, step.action
    )


def test_no_reward_of_a_parallel_batch_is_lost_in_whatever_order_trials_end() -> None:
    study = Driven(BOWL, bowl, options=PpoOptions(update_every=100))
    rng = random.Random(0)
    for _ in range(12):
        study.ask(4)
        while len(study.pending) > 3:
            study.end(rng.randrange(len(study.pending)))
    study.ask(0)
    assert study.state is not None
    kept = read(study.state)
    assert len(kept.rollout) == len(study.finished)
    assert len(kept.pending) == len(study.pending)
    rewards = [step.reward for step in kept.rollout]
    assert max(rewards) > 0
    # Each in units, against the best that was known when it was proposed.
    for step, trial in zip(kept.rollout, study.finished, strict=True):
        assert trial.value is not None
        if step.best is not None and step.reward not in (0.0, 5.0):
            assert step.reward == pytest.approx((step.best - trial.value) / step.unit)


def test_late_results_teach_as_much_as_early_ones() -> None:
    late = Driven(BOWL, bowl, options=PpoOptions(update_every=4))
    late.ask(12)
    for _ in range(12):
        late.end(-1)
    late.ask(0)
    assert late.state is not None
    assert read(late.state).knowledge.steps_seen == 12
    assert read(late.state).pending == []


# --- pretraining ---------------------------------------------------------------------------------


def test_made_up_studies_are_finite_and_differ() -> None:
    merits = []
    for seed in range(25):
        rng = np.random.default_rng(seed)
        task = make_task(rng)
        episode = Episode(task, rng, trials=6, batch=2)
        is_over, total = False, 0.0
        while not is_over:
            assert np.isfinite(episode.observation()).all()
            reward, is_over = episode.step(rng.normal(size=task.cube.width))
            total += reward
        assert total == pytest.approx(episode.merit)
        merits.append(episode.merit)
    assert len(set(merits)) > 15


def exported(file: Path, trials: int) -> Path:
    space: SearchSpace = {
        "lr": Float(1e-5, 1e-1, log=True),
        "layers": Int(1, 6),
        "act": Categorical(("relu", "tanh")),
    }
    rng = random.Random(0)
    rows = []
    for number in range(trials):
        params = sample(space, rng)
        value = abs(math.log10(float(params["lr"])) + 3) + (params["act"] == "tanh")
        rows.append({"number": number, "kind": "search", "value": value, "params": params})
    rows.append({"number": trials, "kind": "search", "value": None, "params": rows[0]["params"]})
    file.write_text(json.dumps(rows), encoding="utf-8")
    return file


def test_a_recorded_study_is_an_objective_like_itself(tmp_path: Path) -> None:
    recording = read_recording(exported(tmp_path / "s.json", 60), Direction.MINIMIZE)
    task = recording.task(np.random.default_rng(0))
    best = int(np.argmin(recording.losses))
    assert task.loss(recording.vectors[best]) < np.quantile(recording.losses, 0.2)
    assert {part.name for part in task.cube.parts.values()} == {"lr", "layers", "act"}


def test_a_file_that_is_no_export_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "s.json"
    with pytest.raises(InvalidInput, match="cannot be read"):
        read_recording(file, Direction.MINIMIZE)
    file.write_text('{"a": 1}', encoding="utf-8")
    with pytest.raises(InvalidInput, match="0 trials with a value"):
        read_recording(file, Direction.MINIMIZE)


def test_a_recorded_trial_that_broke_a_constraint_is_no_example(tmp_path: Path) -> None:
    file = exported(tmp_path / "s.json", 20)
    rows = json.loads(file.read_text(encoding="utf-8"))
    rows.append({**rows[0], "state": "complete", "reason": "infeasible", "value": -1000.0})
    file.write_text(json.dumps(rows), encoding="utf-8")
    recording = read_recording(file, Direction.MINIMIZE)
    assert (len(recording.losses), recording.losses.min() >= 0.0) == (20, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--out", "none/such/w.safetensors"), "--out none/such/w.safetensors: there is no dir"),
        (("--out", "w.json"), "ends in .safetensors"),
        (("--out", "w.safetensors", "--trials", "0"), "--trials 0: write a whole number from 1"),
        (("--out", "w.safetensors", "--seed", "-1"), "--seed -1: write a whole number from 0"),
    ],
)
def test_pretraining_whose_weights_could_not_be_kept_is_not_begun(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert said in capsys.readouterr().err


@pytest.mark.slow
def test_pretraining_is_reproducible_and_says_how_it_was_done(tmp_path: Path) -> None:
    study = exported(tmp_path / "s.json", 20)
    made = []
    for name in ("a", "b"):
        out = tmp_path / f"{name}.safetensors"
        arguments = ["--out", str(out), "--trials", "2048", "--studies", str(study)]
        assert main(arguments) == 0
        made.append(read_weights(out))
    assert (made[0] == made[1]).all()
    facts = json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))
    assert facts["trials"] == 2048
    assert facts["studies"] == ["s.json"]
    study_of_mine = Driven(
        BOWL, bowl, options=PpoOptions(warm_start=str(tmp_path / "a.safetensors"))
    )
    assert study_of_mine.ask(2)


def test_points_come_back_from_the_cube_as_they_were() -> None:
    space: SearchSpace = {
        "a": Float(-1.7e308, 1.7e308),
        "b": Float(1e-9, 1e9, log=True),
        "c": Float(0.0, 0.3, step=0.1),
        "d": Float(0.1, 5.0, step=0.3, log=True),
        "e": Int(-7, 10**12, step=3),
        "f": Int(1, 1000, log=True),
        "g": Int(2, 4096, log=True, step=2),
        "h": Categorical((1, 1.0, True, "1")),
        "i": Int(0, 9, when=(("h", (True, 1)),)),
        "j": Categorical(("x", "y"), when=(("h", (1.0,)),)),
    }
    cube, rng = UnitCube(space), random.Random(0)
    for _ in range(300):
        params = sample(space, rng)
        vector = cube.encode(params)
        assert vector is not None
        assert vector.min() >= 0.0
        assert vector.max() <= 1.0
        back = cube.decode(vector)
        assert {k: v for k, v in back.items() if k not in "ab"} == {
            k: v for k, v in params.items() if k not in "ab"
        }
        assert back["b"] == pytest.approx(params["b"], rel=1e-6)
        settled = cube.settle(vector[None])[0]
        assert settled == pytest.approx(vector, abs=1e-6)
