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
    assert places == dict.fromkeys(("memory", "pids", "cpu"), f"{root}/arl")
    groups = plan_groups(places, "a", memory_bytes=4096, processes=7, cpus=1.5)
    memory = {"memory.max": "4096", "memory.swap.max": "0"}
    assert groups == [(f"{root}/arl/a", {**memory, "pids.max": "7", "cpu.max": "150000 100000"})]


def test_the_old_hierarchies_are_used_below_the_group_this_process_is_in(
    tmp_path: Path,
) -> None:
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in {"memory", "pids", "cpu"} & set(controllers.split(",")):
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
    assert plan_groups({"cpu": "/c"}, "a", memory_bytes=None, processes=7, cpus=0.5) == [
        ("/c/a", {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "50000"})
    ]
    tiny = plan_groups({"cpu": "/c"}, "a", memory_bytes=None, processes=7, cpus=0.001)
    assert tiny[0][1]["cpu.cfs_quota_us"] == "1000", "the kernel takes no less"


def delegated(tmp_path: Path) -> tuple[Path, Path]:
    """As systemd gives a user its own part of the hierarchy; and what tells where one is."""
    root, user = tmp_path / "cgroup", tmp_path / "cgroup" / "user.slice" / "user@7.service"
    session = user / "app.slice" / "terminal.scope"
    session.mkdir(parents=True)
    for place in (root, root / "user.slice", user, user / "app.slice", session):
        (place / "cgroup.subtree_control").write_text("")
        (place / "cgroup.procs").touch()
    (user / "cgroup.subtree_control").write_text("memory pids\n")
    own = tmp_path / "own"
    own.write_text("0::/user.slice/user@7.service/app.slice/terminal.scope\n")
    return root, own


def test_the_nearest_group_that_a_user_was_given_is_used(tmp_path: Path) -> None:
    root, own = delegated(tmp_path)
    ours = f"{root}/user.slice/user@7.service/arl"
    assert find_places(str(root), str(own)) == {"memory": ours, "pids": ours}


def test_a_group_that_nobody_may_be_moved_into_is_not_used(tmp_path: Path) -> None:
    root, own = delegated(tmp_path)
    (root / "user.slice" / "user@7.service" / "cgroup.procs").unlink()
    assert find_places(str(root), str(own)) == {}


def test_our_own_group_around_the_others_is_made_when_needed_and_goes_with_the_last(
    tmp_path: Path,
) -> None:
    parent = tmp_path / "arl"
    group: Group = (f"{parent}/a", {"pids.max": "7", "cpu.max": "1 2"})
    make_groups([group])
    assert (parent / "cgroup.subtree_control").read_text() == "+cpu +pids"
    assert (parent / "a" / "cpu.max").read_text() == "1 2"
    for file in [*(parent / "a").iterdir(), parent / "cgroup.subtree_control"]:
        file.unlink()  # a real group's files go with it
    (parent / "b").mkdir()
    remove_groups([group])
    assert parent.exists(), "another attempt's is in it"
    (parent / "b").rmdir()
    remove_groups([group])
    assert not parent.exists()
    assert tmp_path.exists()


def test_a_limit_that_cannot_be_set_keeps_no_other_from_being_set(tmp_path: Path) -> None:
    (tmp_path / "a" / "memory.swap.max").mkdir(parents=True)
    make_groups([(f"{tmp_path}/a", {"memory.swap.max": "0", "pids.max": "7"})])
    assert (tmp_path / "a" / "pids.max").read_text() == "7"


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
