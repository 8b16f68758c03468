"""A campaign that is killed anywhere goes on: no second study, no half switch, nothing lost."""

from collections.abc import Callable, Iterator

import pytest

from tests.acceptance.campaign_kills import Scene, scene_in

COMMIT = "commit @ "
pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]


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


def is_an_effect(identity: str) -> bool:
    """A commit, something said to the server, or a change of the campaign's own files."""
    what, _, lines = identity.partition(" @ ")
    is_said = what.endswith(("send", "connect")) and "targets/outbound" in lines
    return what.endswith("commit") or is_said or lines.startswith("controller/campaigns/")


def kill_everywhere(scene: Scene, is_chosen: Callable[[str], bool]) -> int:
    """At each point that is chosen by its identity; how many there were."""
    scene.go_back()
    points = scene.points(is_chosen)
    assert scene.judge() == []
    killed, broken = 0, []
    for point in points:
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


def test_a_cycle_killed_at_any_commit_of_its_own_goes_on(due: Scene) -> None:
    assert kill_everywhere(due, lambda identity: COMMIT in identity) >= 12


def test_a_roll_back_killed_anywhere_is_finished(forgetful: Scene) -> None:
    assert kill_everywhere(forgetful, is_an_effect) >= 20
