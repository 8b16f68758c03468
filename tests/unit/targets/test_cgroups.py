"""Which control groups are made where, in both layouts that kernels have."""

import os
import subprocess
from pathlib import Path

from targets.cgroups import (
    Group,
    count_kills,
    find_places,
    joining,
    make_groups,
    plan_groups,
    remove_groups,
    sweep_groups,
)


def unified(tmp_path: Path) -> Path:
    (tmp_path / "cgroup.subtree_control").write_text("cpu memory pids\n")
    return tmp_path


def test_the_unified_hierarchy_is_used_where_it_hands_out_both_controllers(
    tmp_path: Path,
) -> None:
    root = unified(tmp_path)
    places = find_places(str(root))
    assert places == {"memory": f"{root}/arl", "pids": f"{root}/arl"}
    groups = plan_groups(places, "a", memory_bytes=4096, processes=7)
    assert groups == [
        (f"{root}/arl/a", {"memory.max": "4096", "memory.swap.max": "0", "pids.max": "7"})
    ]


def test_the_old_hierarchies_are_used_below_the_group_this_process_is_in(
    tmp_path: Path,
) -> None:
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in {"memory", "pids"} & set(controllers.split(",")):
            (tmp_path / f"{controller}{path}").mkdir(parents=True, exist_ok=True)
            (tmp_path / f"{controller}{path}" / "cgroup.procs").touch()
    for controller, place in find_places(str(tmp_path)).items():
        assert place.startswith(f"{tmp_path}/{controller}")
    old = {"memory": "/m/own", "pids": "/p"}
    assert plan_groups(old, "a", memory_bytes=4096, processes=7) == [
        ("/m/own/a", {"memory.limit_in_bytes": "4096"}),
        ("/p/a", {"pids.max": "7"}),
    ]
    assert plan_groups(old, "a", memory_bytes=None, processes=7) == [("/p/a", {"pids.max": "7"})]


def test_nothing_is_planned_where_nothing_may_be_made(tmp_path: Path) -> None:
    assert find_places(str(tmp_path)) == {}
    assert plan_groups({}, "a", memory_bytes=1, processes=1) == []
    assert joining([], ("bwrap", "x")) == ["bwrap", "x"]


def test_limits_are_written_counted_and_taken_away(tmp_path: Path) -> None:
    groups = plan_groups(find_places(str(unified(tmp_path))), "a", memory_bytes=4096, processes=7)
    make_groups(groups)
    group = Path(groups[0][0])
    assert (group / "memory.max").read_text() == "4096"
    assert count_kills(groups) == 0
    (group / "memory.events").write_text("low 0\noom 3\noom_kill 2\noom_group_kill 1\n")
    assert count_kills(groups) == 2
    for file in group.iterdir():  # a real group's files go with it
        file.unlink()
    sweep_groups({"pids": str(group.parent)}, "b")
    assert group.exists()
    sweep_groups({"pids": str(group.parent)}, "a")
    assert not group.exists()
    remove_groups(groups)


def test_a_group_that_cannot_be_made_is_left_to_the_watchdog(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    make_groups([(f"{tmp_path}/file/a", {"pids.max": "7"})])
    assert count_kills([(f"{tmp_path}/file/a", {})]) == 0


def test_a_program_joins_its_groups_before_it_runs_and_keeps_its_arguments(
    tmp_path: Path,
) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    groups: list[Group] = [(f"{tmp_path}/{name}", {}) for name in ("one", "gone", "two")]
    argv = joining(groups, ["/bin/sh", "-c", 'echo "$$|$0|$1"', "a b", "$HOME"])
    done = subprocess.run(argv, capture_output=True, text=True, check=True, env={"PATH": "/bin"})
    pid, *arguments = done.stdout.strip().split("|")
    assert arguments == ["a b", "$HOME"]
    assert done.stderr == ""
    for name in ("one", "two"):
        assert (tmp_path / name / "cgroup.procs").read_text().strip() == pid
    assert not os.path.exists(tmp_path / "gone")
