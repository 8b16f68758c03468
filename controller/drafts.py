"""Files and directories that a person named for a result: made beside, whole or not at all."""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from controller.documents.plain_text import plain
from ledger.errors import Conflict, DiskFull, InvalidInput


def check_new(directory: Path, what: str) -> None:
    """Raise Conflict unless the directory can be made: an empty one may be there."""
    if os.path.lexists(directory) and (not directory.is_dir() or any(directory.iterdir())):
        raise Conflict(f"{what}: {_shown(directory)} exists already: name a new directory")


@contextmanager
def new_directory(directory: Path, what: str = "--output") -> Iterator[Path]:
    """A directory to fill that has the name in the end; `what` named it.

    Raises:
        Conflict: something is there.
        InvalidInput: nothing can be made there.
        DiskFull: there is no room.
    """
    place = Path(os.path.abspath(directory))
    check_new(place, what)
    draft = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        with _written(place, what):
            draft.mkdir(parents=True)
            yield draft
            if place.is_dir():
                place.rmdir()
            draft.rename(place)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


@contextmanager
def new_file(file: Path, what: str = "--output") -> Iterator[Path]:
    """A path to write that has the name in the end, instead of a file that may be there.

    Raises:
        InvalidInput: no file can be made there.
        DiskFull: there is no room.
    """
    place = Path(os.path.abspath(file))
    if place.exists() and not place.is_file():
        raise InvalidInput(f"{what}: {_shown(file)} is there and is no file: name a new one")
    if not place.parent.is_dir():
        raise InvalidInput(f"{what}: {_shown(file.parent)} does not exist: make it first")
    draft = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        with _written(place, what):
            yield draft
            draft.replace(place)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def _written(place: Path, what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        said = f"{what}: {_shown(place)} cannot be written: {error.strerror or error}"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(f"{said}; free some, or name another place") from error
        raise InvalidInput(f"{said}; name another place") from error


def _shown(path: Path) -> str:
    return plain(str(path))
