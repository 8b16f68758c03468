"""A campaign that is killed anywhere goes on: no second study, no half switch, nothing lost."""

from collections.abc import Iterator

import pytest

from tests.acceptance.campaign_kills import Scene, scene_in

COMMIT = "commit @ "


@pytest.fixture(scope="module")
def due(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """A study is due."""
    with scene_in(tmp_path_factory.mktemp("kills") / "due") as scene:
        scene.keep()
        yield scene


@pytest.fixture(scope="module")
def forgetful(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """What forgot is promoted and served, and nobody looked yet."""
    with scene_in(tmp_path_factory.mktemp("kills") / "forgetful") as scene:
        scene.keep()
        measured = scene.points(lambda identity: identity.startswith(f"before {COMMIT}"))
        (before,) = [p for p in measured if "watching.py" in p.identity]
        scene.go_back()
        assert scene.die_at(before)
        for name in (".arl", "inbox"):
            (scene.place / f"kept{name}").rename(scene.place / f"old{name}")
        scene.keep()
        yield scene


def kill_everywhere(scene: Scene, wanted: str, *, every: int = 1) -> int:
    """At each point whose identity has the word; how many there were."""
    scene.go_back()
    points = scene.points(lambda identity: wanted in identity)
    assert scene.judge() == []
    killed, broken = 0, []
    for point in points[::every]:
        scene.go_back()
        if not scene.die_at(point):
            continue
        killed += 1
        code = scene.once()
        broken += [f"{point}: {problem}" for problem in scene.judge()]
        if code not in (0, 1):
            broken.append(f"{point}: {code}: {(scene.place / 'output').read_text()[-2000:]}")
    assert broken == []
    return killed


def test_a_cycle_killed_around_its_study_starts_no_second_one(due: Scene) -> None:
    assert kill_everywhere(due, f"after {COMMIT}ledger/database.py", every=100) >= 1


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_cycle_killed_at_any_commit_of_its_own_goes_on(due: Scene) -> None:
    assert kill_everywhere(due, COMMIT) >= 12


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_roll_back_killed_anywhere_is_finished(forgetful: Scene) -> None:
    assert kill_everywhere(forgetful, "controller/campaigns/") >= 40
