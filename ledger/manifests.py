"""What a stored tree consists of, and which paths may be in one."""

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Final, TypeAlias

from ledger.errors import ArtifactCorrupt, InvalidInput, NotFound

Manifest: TypeAlias = list[tuple[str, int, int, str]]
"""(path, mode, size in bytes, sha256) of every file, sorted by path."""

SKIPPED: Final = frozenset({"__pycache__", ".git"})
_MODES: Final = (0o644, 0o755)


def check_manifest(files: Iterable[tuple[str, int, int, str]]) -> Manifest:
    """Sorted, with modes reduced to executable or not. Raises InvalidInput."""
    manifest = sorted(
        (path, _MODES[bool(mode & 0o111)], size, digest) for path, mode, size, digest in files
    )
    paths: set[str] = set()
    for path, _, _, _ in manifest:
        check_path(path)
        if path in paths:
            raise InvalidInput(f"{path!r} is twice in one tree")
        paths.add(path)
    for path in paths:
        for parent in PurePosixPath(path).parents:
            if str(parent) in paths:
                raise InvalidInput(f"{parent} is both a file and a directory in one tree")
    return manifest


def check_path(path: str) -> None:
    """Raise InvalidInput unless `path` is relative, normal, and below its root."""
    pure = PurePosixPath(path)
    if not path or "\x00" in path or pure.is_absolute() or str(pure) != path or ".." in pure.parts:
        raise InvalidInput(f"{path!r} is not a plain relative path: write it as `dir/file`")
    try:
        path.encode()
    except UnicodeEncodeError:
        raise InvalidInput(f"{path!r}: the name is not UTF-8; rename the file") from None


def parse_manifest(tree: str, data: bytes) -> Manifest:
    """A stored manifest back. Raises ArtifactCorrupt when the object is no tree."""
    try:
        return check_manifest(
            (str(path), int(mode), int(size), str(digest))
            for path, mode, size, digest in json.loads(data)
        )
    except (ValueError, TypeError, RecursionError, InvalidInput) as error:
        raise ArtifactCorrupt(f"artifact {tree} is not a tree: {error}") from error


def walk_files(root: Path) -> Iterator[str]:
    """Relative POSIX paths of the regular files below `root`, sorted per directory.

    Raises:
        NotFound: `root` is not a directory.
        InvalidInput: a symlink or special file is there.
    """
    pending = [""]
    while pending:
        directory = pending.pop()
        try:
            with os.scandir(root / directory) as scan:
                found = sorted(scan, key=lambda entry: entry.name)
        except (FileNotFoundError, NotADirectoryError):
            raise NotFound(f"{root / directory}: there is no such directory") from None
        for entry in found:
            path = f"{directory}/{entry.name}" if directory else entry.name
            if entry.name in SKIPPED:
                continue
            if entry.is_symlink():
                raise InvalidInput(f"{root / path} is a symlink: copy what it points to")
            if entry.is_dir():
                pending.append(path)
            elif entry.is_file():
                yield path
            else:
                raise InvalidInput(f"{root / path} is not a regular file: remove it")
