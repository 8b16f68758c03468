"""What a person named for a result is there whole or not at all."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from controller.drafts import new_directory, new_file
from ledger.errors import ArlError, Conflict, InvalidInput

New = Callable[[Path], AbstractContextManager[Path]]


def test_a_file_that_was_there_is_replaced_once_the_new_one_is_whole(tmp_path: Path) -> None:
    place = tmp_path / "trials.csv"
    place.write_text("old")
    with new_file(place) as draft:
        draft.write_text("new")
        assert place.read_text() == "old"
    assert place.read_text() == "new"
    assert list(tmp_path.iterdir()) == [place]


def test_a_directory_is_filled_beside_and_may_be_there_empty(tmp_path: Path) -> None:
    place = tmp_path / "deep" / "model"
    place.mkdir(parents=True)
    with new_directory(place) as draft:
        (draft / "config.json").write_text("{}")
        assert list(place.iterdir()) == []
    assert [file.name for file in place.iterdir()] == ["config.json"]
    assert list(place.parent.iterdir()) == [place]


def fill_half(draft: Path) -> None:
    (draft / "part" if draft.is_dir() else draft).write_text("part")
    raise ZeroDivisionError


@pytest.mark.parametrize("new", [new_file, new_directory])
def test_what_fails_half_way_leaves_nothing(tmp_path: Path, new: New) -> None:
    with pytest.raises(ZeroDivisionError), new(tmp_path / "place") as draft:
        fill_half(draft)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("new", "name", "error", "said"),
    [
        (new_file, ".", InvalidInput, "--output: .* is there and is no file: name a new one"),
        (new_file, "/dev/null", InvalidInput, "--output: /dev/null is there and is no file"),
        (new_file, "no/file", InvalidInput, "--output: .*/no does not exist: make it first"),
        (new_directory, ".", Conflict, "--output: .* exists already: name a new directory"),
        (new_directory, "file", Conflict, "--output: .*/file exists already"),
        (new_directory, "file/in", InvalidInput, "--output: .*/file/in cannot be written: Not a"),
    ],
)
def test_what_cannot_be_made_is_refused_with_what_to_name(
    tmp_path: Path, new: New, name: str, error: type[ArlError], said: str
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(error, match=said), new(tmp_path / name):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
