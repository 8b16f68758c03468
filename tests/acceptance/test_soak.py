"""A seeded soak: hundreds (under `slow`, ten thousand) of trials with faults all the time."""

import random
import time
from collections import Counter

import pytest

from ledger.states import Reason, StudyState, TrialState
from tests.acceptance import figures
from tests.acceptance.lab import NOTE, READ_X, SAVE, SCORE, Lab
from tests.acceptance.shell_study import witness
from tests.acceptance.test_process_kills import kill, subreaper_pids, supervisor_pid

SEED = 20_251_129
RECOVERY_LIMIT_S = 5.0
# What a trial does is decided by the digits of its x, so that it is the same in every run.
TRAIN = (
    READ_X + NOTE + 'k=${x#*.}; k=${k%"${k#??}"}; '
    'case "$k" in 1[0-4]) exit 3 ;; 2[0-2]) kill -9 $$ ;; 3[0-2]) exit 0 ;; '
    '4[0-2]) ln -s /etc "$ARL_OUTPUT/model"; exit 0 ;; 5?) sleep 0.03 ;; '
    '6[0-3]) echo "{\\"step\\": 1, \\"metric\\": \\"a\\", \\"value\\": NaN}" >> "$ARL_REPORTS" ;; '
    "esac; " + SAVE
)
EVALUATE = (
    NOTE + 'read -r x < "$ARL_INPUTS/artifact/x"; '
    'case "$ARL_ATTEMPT" in *-0) case "$x" in 0.7*) exit 4 ;; 0.8*) echo nonsense >&3; exit 0 ;; '
    "esac ;; esac; " + SCORE
)


def soak(lab: Lab, trials: int, *, parallel: int, kills_every_s: float) -> Counter[str]:
    """Run the study with workers, supervisors and subreapers killed; how trials ended."""
    dice = random.Random(SEED)
    study_id = lab.submit(
        program={"kind": "command", "argv": ["/bin/sh", "-c", TRAIN]},
        evaluator={
            "bundle": "./evaluator",
            "argv": ["/bin/sh", "-c", EVALUATE],
            "splits": {"search": "search.jsonl", "holdout": "holdout.jsonl"},
            "metrics": {"score": {"low": 0, "high": 1, "resolution": 0.001}},
        },
        space={"x": {"type": "float", "low": 0.0, "high": 1.0, "default": 0.955}},
        proposer={"name": "random"},
        seed=SEED,
        budget={"trials": trials},
        parallel=parallel,
        retries={"infrastructure": 100, "evaluator": 3, "candidate": 0},
        stop={"consecutive_failures": 1000, "failure_rate": 1.0, "failure_window": 100_000},
    )
    worker = lab.worker(study_id)
    killed: Counter[str] = Counter()
    worker_kills: list[float] = []
    while not worker.ended():
        time.sleep(dice.expovariate(1 / kills_every_s))
        victim = dice.random()
        if victim < 0.4:
            worker_kills.append(time.time())
            worker.kill()
            worker = lab.worker(study_id)
            killed["worker"] += 1
        elif victim < 0.6:
            killed["supervisor"] += kill(supervisor_pid(lab))
        else:
            pids = subreaper_pids(lab)
            killed["subreaper"] += kill(dice.choice(pids) if pids else None)
    assert worker.join() == 0
    assert killed.total() >= trials / 60
    ends = judged(lab, study_id, trials)
    report(lab, study_id, killed, ends, worker_kills)
    return ends


def report(
    lab: Lab,
    study_id: str,
    killed: Counter[str],
    ends: Counter[str],
    worker_kills: list[float],
) -> None:
    """What was done to the study and what came of it."""
    with lab.service() as service:
        facts = witness(service).facts(study_id)
    times = figures.recoveries(facts, worker_kills)
    assert figures.p95(times) <= RECOVERY_LIMIT_S
    attempts = Counter(str(attempt.reason) for attempt in lab.attempts(study_id))
    failing = {"exit_nonzero", "crashed", "no_model", "output_refused"}
    figures.publish(
        f"soak of {ends.total():,} trials",
        seed=SEED,
        trials=ends.total(),
        attempts=attempts.total(),
        killed=dict(killed),
        failed_by_themselves=sum(ends[reason] for reason in failing),
        evaluators_failed=attempts["evaluator_error"] + attempts["bad_score"],
        attempts_lost_and_repeated=attempts["attempt_lost"],
        **lab.tally(),
        **figures.spread(times),
    )


def judged(lab: Lab, study_id: str, trials: int) -> Counter[str]:
    assert lab.study(study_id).state is StudyState.COMPLETED
    found = lab.trials(study_id)
    assert len(found) == trials, "the cap is exact"
    by_state: Counter[str] = Counter()
    params = [p["x"] for p in lab.params(study_id)]
    for x, trial in zip(params, found, strict=True):
        expected = doomed(x)
        assert (trial.state is TrialState.FAILED) == (expected is not None), (x, trial)
        assert trial.reason is expected or expected is None, (x, trial)
        assert trial.value == (None if expected else pytest.approx(x))
        by_state[str(trial.reason)] += 1
    return by_state


def doomed(x: float) -> Reason | None:
    """Why a trial with this x must fail, whatever else happens; None: it must be scored."""
    digits = f"{x!r}".partition(".")[2]
    two = int(digits[:2].ljust(2, "0")) if "e" not in f"{x!r}" else -1
    if 10 <= two <= 14:
        return Reason.EXIT_NONZERO
    if 20 <= two <= 22:
        return Reason.CRASHED
    if 30 <= two <= 32:
        return Reason.NO_MODEL
    if 40 <= two <= 42:
        return Reason.OUTPUT_REFUSED
    return None


def test_a_soak_of_three_hundred_trials_under_fire_loses_and_doubles_nothing(lab: Lab) -> None:
    ends = soak(lab, 300, parallel=6, kills_every_s=0.1)
    assert set(ends) >= {"exit_nonzero", "crashed", "no_model", "output_refused"}


@pytest.mark.slow
@pytest.mark.timeout(3 * 3600)
def test_a_soak_of_ten_thousand_trials_under_fire_loses_and_doubles_nothing(lab: Lab) -> None:
    ends = soak(lab, 10_000, parallel=12, kills_every_s=0.5)
    assert sum(ends.values()) == 10_000
