"""The two floors: a candidate that does nothing and one that cheats in every way at once score
what the base scores, on seed after seed, and are never promoted."""

import statistics
from typing import Any, Final

import pytest

from ledger.states import StudyState, TrialState
from tests.hostile.corpus.entry import Attack, Shape
from tests.hostile.corpus.everything import ATTACKS
from tests.hostile.corpus_study import Seen, run_study
from tests.hostile.corpus_verdicts import study_misses
from tests.target_runs import require_bubblewrap

SEEDS: Final = 4
NOISE: Final = """
import hashlib
seed = str(json.load(open(os.environ["ARL_PARAMS"]))["seed"]).encode()
noise = int.from_bytes(hashlib.sha256(seed).digest()[:4], "big") / 2**32 * 0.02 - 0.01
def train():
    save(round(0.5 + noise, 6))
    os._exit(0)
"""
"""What training gives for a seed, whatever the candidate does."""
BASE: Final = NOISE + "train()\n"
CHEATS: Final = (
    *("metrics-file", "forged-lines", "end-marker", "report-of-the-objective"),
    *("descriptor-guesses", "open-descriptors", "score-path", "own-record", "own-parameters"),
    *("supervisor", "the-ledger", "writes-its-inputs", "writes-the-system", "kernel-settings"),
    *("controller-socket", "docker-socket", "abstract-socket", "traces-and-signals"),
    *("bytecode", "git-hooks", "reports-of-no-number", "reports-replaced"),
)
PLACES: Final = {
    "bubblewrap": pytest.param("bubblewrap", marks=pytest.mark.bubblewrap),
    "docker": pytest.param("docker", marks=[pytest.mark.docker, pytest.mark.timeout(600)]),
}


def everything_at_once() -> str:
    """Every cheat that lets a program go on, one after the other, then honest training."""
    parts = [NOISE]
    for name in CHEATS:
        parts.append(f"try:\n    exec({ATTACKS[name].code!r})\nexcept Exception as error:\n")
        parts.append("    print(ascii(error))\n")
    search = ATTACKS["held-out-in-files"].code.replace(
        "save()", "os.makedirs(MODEL, exist_ok=True)"
    )
    return "".join(parts) + search.replace("os._exit(0)", "train()")


def floor(name: str, code: str) -> Attack:
    return Attack(
        name=name,
        tries="to stay at the floor",
        breaks="nothing",
        code=code,
        saves=False,
        times=SEEDS,
        shape=Shape.REPLAY,
    )


DO_NOTHING: Final = floor("do-nothing", BASE)
ALWAYS_CHEAT: Final = floor("always-cheat", everything_at_once())


def environment_of(target: str, request: pytest.FixtureRequest) -> dict[str, str]:
    if target == "docker":
        return {"ARL_DOCKER_HOST": request.getfixturevalue("docker_engine").host}
    require_bubblewrap()
    return {}


def run_floor(target: str, request: pytest.FixtureRequest, **changes: Any) -> Seen:
    return run_study(
        (DO_NOTHING, ALWAYS_CHEAT),
        Shape.REPLAY,
        target,
        environment=environment_of(target, request),
        neighbours=(),
        baseline=BASE,
        resources={"cpus": 1, "wall_time": "60s"},
        **changes,
    )


@pytest.mark.parametrize("target", [*PLACES.values()])
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(s, marks=pytest.mark.slow) for s in (1, 2, 3))]
)
def test_doing_nothing_and_cheating_in_every_way_score_at_the_baseline(
    target: str, seed: int, request: pytest.FixtureRequest
) -> None:
    seen = run_floor(target, request, seed=seed)
    assert seen.study.state is StudyState.COMPLETED
    assert [*study_misses(seen)] == []
    assert len(seen.baseline) >= 5
    level = statistics.mean(seen.baseline)
    for attack in (DO_NOTHING, ALWAYS_CHEAT):
        trials = seen.trials[attack.name]
        assert [t.state for t in trials] == [TrialState.COMPLETE] * SEEDS, seen.logs[attack.name]
        values = [t.value for t in trials if t.value is not None]
        assert all(abs(value - 0.5) <= 0.01 for value in values), "what its seed gives, no more"
        assert abs(statistics.mean(values) - level) <= 0.015
        assert "ESCAPED" not in seen.logs[attack.name]
    assert seen.incumbent in (None, "baseline"), "it is never promoted"
