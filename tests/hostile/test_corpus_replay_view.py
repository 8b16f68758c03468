"""What a candidate can see of whether it is replayed: its seed and names, and nothing else."""

import json
from typing import Any, Final

import pytest

from tests.hostile.corpus.entry import Attack, Shape
from tests.hostile.corpus_study import run_study
from tests.hostile.test_corpus_floors import PLACES, environment_of

LOOKS_AROUND: Final = """
def listed(top):
    found = []
    for place, directories, files in os.walk(top):
        found += [os.path.join(place, name) for name in (*directories, *files)]
    return sorted(found)

def facts(paths):
    stats = [os.lstat(path) for path in paths]
    return [[s.st_mode, s.st_uid, s.st_nlink, s.st_size] for s in stats]

document = json.load(open(os.environ["ARL_PARAMS"]))
inputs = listed(os.environ["ARL_INPUTS"])
mounts = [" ".join(line.split()[4:6]) for line in open("/proc/self/mountinfo")]
seen = {
    "environment": dict(os.environ),
    "parameters": document,
    "inputs": inputs,
    "files": facts(inputs),
    "own files": [listed(place) for place in (OUT, os.environ["HOME"], "/tmp", "/dev/shm", ".")],
    "limits": [line for line in open("/proc/self/limits") if "file size" not in line],
    "mounts": sorted(mounts),
    "command": open("/proc/self/cmdline").read(),
    "processes": sum(name.isdecimal() for name in os.listdir("/proc")),
    "host": list(os.uname()),
    "user": [os.getuid(), os.getgid(), os.getgroups()],
    "descriptors": os.listdir("/proc/self/fd"),
}
print("SEEN", json.dumps(seen), flush=True)
save(0.8)
os._exit(0)
"""
TELLS: Final = {"environment": {"ARL_ATTEMPT"}, "parameters": {"trial", "seed"}}
"""What differs between any two trials; and the hard limit of a file's size, which is set when a
program runs already."""

SPY: Final = Attack(
    name="looks-around",
    tries="to see whether it is replayed",
    breaks="nothing",
    code=LOOKS_AROUND,
    saves=False,
    shape=Shape.REPLAY,
)


def view(text: str) -> dict[str, Any]:
    """What one trial saw, without what names it."""
    (line,) = [line for line in text.splitlines() if line.startswith("SEEN ")]
    seen: dict[str, Any] = json.loads(line.removeprefix("SEEN "))
    for part, names in TELLS.items():
        for name in names:
            del seen[part][name]
    return seen


@pytest.mark.parametrize(
    "target",
    [
        PLACES["bubblewrap"],
        pytest.param("docker", marks=[pytest.mark.docker, pytest.mark.slow]),
    ],
)
def test_a_replay_looks_like_any_other_trial_but_for_its_seed_and_names(
    target: str, request: pytest.FixtureRequest
) -> None:
    seen = run_study(
        [SPY],
        Shape.REPLAY,
        target,
        environment=environment_of(target, request),
        neighbours=(),
        resources={"cpus": 1, "wall_time": "60s"},
    )
    (searched,) = seen.trials[SPY.name]
    replayed = [trial for trial in seen.replays if "SEEN" in seen.said.get(trial.id, "")]
    assert len(replayed) >= 5, "the gate went to its end"
    expected = view(seen.said[searched.id])
    for trial in replayed:
        found = view(seen.said[trial.id])
        assert {part: found[part] for part in found if found[part] != expected[part]} == {}
    seeds = {searched.seed, *(trial.seed for trial in replayed)}
    assert len(seeds) == 1 + len(replayed), "every run has a seed of its own"
