"""Freezes an evaluator: every file it reads becomes content in the store, under one digest."""

import json
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from evaluator.program_files import measuring_files, program_files
from evaluator.protocol import DEFAULT_ARGV, PROGRAM_FILE, SPLIT_FILE, Mode
from evaluator.scores import MetricRange
from evaluator.splits import Item, check_disjoint, halves, joined, read_items
from ledger.artifacts import ArtifactStore
from ledger.digests import canonical_json
from ledger.errors import ArtifactCorrupt, BundleChanged, InvalidInput, NotFound
from ledger.records import Json, Split

FORMAT: Final = 1
FILES_CAP: Final = 100_000
BYTES_CAP: Final = 16 * 1024**3
"""Of one directory: code or a split."""

_MODE: Final = 0o644
_SKIPPED: Final = frozenset({"__pycache__", ".git"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """A frozen evaluator. Everything it is made of is in the store."""

    digest: str
    """sha256 of its document, which names all of the below by content."""
    code_tree: str
    argv: tuple[str, ...]
    mode: Mode
    metrics: Mapping[str, MetricRange]
    options: Mapping[str, Json]
    splits: Mapping[Split, str]
    """Tree of each declared split: mounted one at a time. Empty for a trivial evaluator."""
    items: Mapping[Split, int]
    """Items of each split, or files of a directory: the weights of the holdout's halves."""

    @property
    def has_holdout(self) -> bool:
        """Without one nothing can be promoted."""
        return Split.HOLDOUT_A in self.splits


def freeze_bundle(
    store: ArtifactStore,
    *,
    directory: Path | None = None,
    program: str | None = None,
    splits: Mapping[str, Path] | None = None,
    argv: Sequence[str] | None = None,
    mode: Mode = "weights",
    metrics: Mapping[str, MetricRange],
    options: Mapping[str, Json] | None = None,
) -> Bundle:
    """Store an evaluator's files and splits and return the bundle they make. Idempotent.

    Exactly one of `directory` (the user's files) and `program` (a built-in by name) is given.
    `splits` maps `search` and `holdout` to JSON Lines files or directories; a holdout directory
    has one directory `a` and one `b`. A split inside `directory` is kept out of the code, so that
    only the split in use is ever mounted.

    Raises:
        InvalidInput: naming the field, the value and the rule.
        UnknownName: there is no such built-in program.
    """
    if (directory is None) == (program is None):
        raise InvalidInput("evaluator: write either bundle (a directory) or program (a name)")
    declared = _declared_splits(splits or {})
    code = (
        _store_contents(store, program_files(program))
        if program is not None
        else _store_directory(store, _existing(directory, "evaluator.bundle"), declared)
    )
    trees, counts = _store_splits(store, declared)
    document = {
        "format": FORMAT,
        "code": code,
        "argv": list(argv or DEFAULT_ARGV),
        "mode": mode,
        "metrics": {name: [m.low, m.high, m.resolution] for name, m in metrics.items()},
        "options": dict(options or {}),
        "splits": dict(trees),
        "items": dict(counts),
    }
    if argv is None and PROGRAM_FILE not in {path for path, *_ in store.manifest(code)}:
        raise InvalidInput(
            f"evaluator.bundle has no {PROGRAM_FILE}; add it, or write evaluator.argv, for"
            ' example ["{python}", "-I", "{bundle}/score.py"]'
        )
    return load_bundle(store, store.put_bytes(canonical_json(document).encode()))


def load_bundle(store: ArtifactStore, digest: str) -> Bundle:
    """The bundle of that digest. Raises NotFound, ArtifactCorrupt."""
    document = json.loads(store.read_bytes(digest))
    return Bundle(
        digest=digest,
        code_tree=document["code"],
        argv=tuple(document["argv"]),
        mode=document["mode"],
        metrics={
            name: MetricRange(low=low, high=high, resolution=resolution)
            for name, (low, high, resolution) in document["metrics"].items()
        },
        options=document["options"],
        splits={Split(name): tree for name, tree in document["splits"].items()},
        items={Split(name): count for name, count in document["items"].items()},
    )


def verify_bundle(store: ArtifactStore, digest: str) -> Bundle:
    """Recompute every digest of a bundle from the bytes on disk.

    Raises BundleChanged, saying which part no longer matches.
    """
    part = "document"
    try:
        bundle = load_bundle(store, digest)
        parts = {"code": bundle.code_tree}
        parts.update({f"split {split}": tree for split, tree in bundle.splits.items()})
        for part in parts:
            store.verify(parts[part])
    except (ArtifactCorrupt, NotFound) as error:
        raise BundleChanged(
            f"the evaluator bundle {digest[:12]} changed after it was frozen: its {part} no"
            f" longer matches ({error}); scores under it cannot be trusted"
        ) from error
    return bundle


def store_measuring(store: ArtifactStore) -> str:
    """Tree digest of the program that measures a converted model, as this installation has it."""
    return _store_contents(store, measuring_files())


# --- code --------------------------------------------------------------------------------------


def _store_contents(store: ArtifactStore, contents: Mapping[str, bytes]) -> str:
    return store.put_manifest(
        (path, _MODE, len(data), store.put_bytes(data)) for path, data in sorted(contents.items())
    )


def _store_directory(store: ArtifactStore, directory: Path, declared: Mapping[str, Path]) -> str:
    root = directory.resolve()
    excluded = {
        found.relative_to(root).as_posix()
        for path in declared.values()
        if (found := path.resolve()).is_relative_to(root)
    }
    if "." in excluded:
        raise InvalidInput(
            "evaluator.splits names the bundle directory itself; write a file or directory in it"
        )
    return store.put_tree(root, _listed(root, "evaluator.bundle", excluded))


def _listed(
    root: Path, field: str, excluded: frozenset[str] | set[str] = frozenset()
) -> list[str]:
    """Relative paths of the regular files below a directory, caches and `excluded` left out."""
    found: list[str] = []
    total = 0
    pending = [PurePosixPath()]
    while pending:
        below = pending.pop()
        for entry in sorted(os.scandir(root / below), key=lambda e: e.name):
            path = below / entry.name
            if entry.name in _SKIPPED or path.as_posix() in excluded:
                continue
            status = entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode):
                pending.append(path)
                continue
            if not stat.S_ISREG(status.st_mode):
                raise InvalidInput(
                    f"{field}: {path} is a link or no regular file; a bundle is frozen by"
                    " content, so put a copy of the file there"
                )
            found.append(path.as_posix())
            total += status.st_size
            if len(found) > FILES_CAP or total > BYTES_CAP:
                raise InvalidInput(
                    f"{field}: {root} has more than {FILES_CAP} files or {BYTES_CAP} bytes"
                )
    return sorted(found)


def _existing(path: Path | None, field: str) -> Path:
    if path is None or not path.is_dir():
        raise InvalidInput(f"{field}: {path} is not a directory")
    return path


# --- splits ------------------------------------------------------------------------------------


def _declared_splits(splits: Mapping[str, Path]) -> Mapping[str, Path]:
    for name, path in splits.items():
        if name not in ("search", "holdout"):
            raise InvalidInput(f"evaluator.splits.{name}: only search and holdout are known")
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise InvalidInput(
                f"evaluator.splits.{name}: {path} is not a file or directory (links are refused)"
            )
    if splits and "search" not in splits:
        raise InvalidInput(
            "evaluator.splits has a holdout but no search split; trials are scored on search"
        )
    return splits


def _store_splits(
    store: ArtifactStore, declared: Mapping[str, Path]
) -> tuple[dict[Split, str], dict[Split, int]]:
    trees: dict[Split, str] = {}
    counts: dict[Split, int] = {}
    lines = {name: read_items(path, name) for name, path in declared.items() if path.is_file()}
    if len(lines) == 2:
        check_disjoint(lines["search"], lines["holdout"])
    for name, path in declared.items():
        for split, content in _parts(name, path, lines.get(name)).items():
            if isinstance(content, Path):
                trees[split], counts[split] = _store_split_directory(store, content, name)
            else:
                trees[split] = _store_contents(store, {SPLIT_FILE: joined(content)})
                counts[split] = len(content)
    _check_directories(store, [trees[s] for s in trees if s not in _in_files(lines)])
    return trees, counts


def _in_files(lines: Mapping[str, list[Item]]) -> set[Split]:
    """The splits whose items were compared line by line already."""
    search = {Split.SEARCH} if "search" in lines else set()
    return search | ({Split.HOLDOUT_A, Split.HOLDOUT_B} if "holdout" in lines else set())


def _check_directories(store: ArtifactStore, trees: Sequence[str]) -> None:
    """Splits declared as directories must not share a file."""
    seen: dict[str, str] = {}
    for tree in trees:
        for path, _, size, digest in store.manifest(tree):
            if size and seen.get(digest, tree) != tree:
                raise InvalidInput(
                    f"evaluator.splits: {path} is in two of the search split and the holdout's"
                    " halves; keep items apart, and put what all need into the bundle"
                )
            seen.setdefault(digest, tree)


def _parts(name: str, path: Path, items: list[Item] | None) -> Mapping[Split, Path | list[Item]]:
    """What each split is made of: the holdout is two halves from here on."""
    if name == "search":
        return {Split.SEARCH: path if items is None else items}
    if items is not None:
        a, b = halves(items)
        return {Split.HOLDOUT_A: a, Split.HOLDOUT_B: b}
    for half in ("a", "b"):
        if not (path / half).is_dir():
            raise InvalidInput(
                f"evaluator.splits.holdout: {path} has no directory {half}; a holdout directory"
                " has one directory a and one b, used as its two halves"
            )
    return {Split.HOLDOUT_A: path / "a", Split.HOLDOUT_B: path / "b"}


def _store_split_directory(store: ArtifactStore, path: Path, name: str) -> tuple[str, int]:
    listed = _listed(path, f"evaluator.splits.{name}")
    if not listed:
        raise InvalidInput(f"evaluator.splits.{name}: {path} holds no files")
    return store.put_tree(path, listed), len(listed)
