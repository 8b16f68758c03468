"""Freezing an evaluator into a real store, and noticing when it changed."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from evaluator.bundle import Bundle, freeze_bundle, load_bundle, verify_bundle
from evaluator.protocol import DEFAULT_ARGV
from evaluator.scores import MetricRange
from ledger.artifacts import ArtifactStore
from ledger.errors import BundleChanged, InvalidInput, NotFound, UnknownName
from ledger.records import Split

METRICS = {"exact_match": MetricRange(low=0.0, high=1.0, resolution=0.001)}


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(tmp_path / "store")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An evaluator as a user writes it: code, and its splits below it."""
    root = tmp_path / "evaluator"
    (root / "lib").mkdir(parents=True)
    (root / "evaluate.py").write_text("print('scores')\n")
    (root / "lib" / "words.txt").write_text("a b c\n")
    (root / "search.jsonl").write_text(lines(range(10)))
    (root / "holdout.jsonl").write_text(lines(range(100, 121)))
    return root


def lines(numbers: range) -> str:
    return "".join(json.dumps({"prompt": f"sort {n}", "answer": str(n)}) + "\n" for n in numbers)


def splits_of(home: Path) -> dict[str, Path]:
    return {"search": home / "search.jsonl", "holdout": home / "holdout.jsonl"}


def freeze(store: ArtifactStore, home: Path, **changes: object) -> Bundle:
    settings: dict[str, object] = {
        "directory": home,
        "splits": splits_of(home),
        "metrics": METRICS,
    }
    return freeze_bundle(store, **(settings | changes))  # type: ignore[arg-type]


def names(store: ArtifactStore, tree: str) -> list[str]:
    return [path for path, *_ in store.manifest(tree)]


def items(store: ArtifactStore, bundle: Bundle, split: Split) -> list[str]:
    text = (store.checkout(bundle.splits[split]) / "split.jsonl").read_text()
    return [json.loads(line)["answer"] for line in text.splitlines()]


def test_a_frozen_bundle_is_read_back_as_it_was(store: ArtifactStore, home: Path) -> None:
    bundle = freeze(store, home, options={"max_new_tokens": 8})
    assert load_bundle(store, bundle.digest) == bundle
    assert verify_bundle(store, bundle.digest) == bundle
    assert bundle.argv == DEFAULT_ARGV
    assert bundle.metrics == METRICS
    assert bundle.has_holdout


def test_the_code_holds_no_split(store: ArtifactStore, home: Path) -> None:
    bundle = freeze(store, home)
    assert names(store, bundle.code_tree) == ["evaluate.py", "lib/words.txt"]


def test_each_split_is_a_tree_of_its_own_with_one_file(store: ArtifactStore, home: Path) -> None:
    bundle = freeze(store, home)
    assert all(names(store, tree) == ["split.jsonl"] for tree in bundle.splits.values())
    a, b = (items(store, bundle, s) for s in (Split.HOLDOUT_A, Split.HOLDOUT_B))
    assert sorted([*a, *b], key=int) == [str(n) for n in range(100, 121)]
    assert bundle.items == {Split.SEARCH: 10, Split.HOLDOUT_A: 11, Split.HOLDOUT_B: 10}
    assert items(store, bundle, Split.SEARCH) == [str(n) for n in range(10)]


def test_freezing_twice_gives_the_same_digest(
    store: ArtifactStore, home: Path, tmp_path: Path
) -> None:
    elsewhere = ArtifactStore(tmp_path / "elsewhere")
    assert freeze(store, home).digest == freeze(elsewhere, home).digest


@pytest.mark.parametrize(
    "change",
    [
        {"argv": ("{python}", "-I", "{bundle}/evaluate.py", "--strict")},
        {"mode": "answers"},
        {"metrics": {"exact_match": MetricRange(low=0.0, high=100.0)}},
        {"metrics": {**METRICS, "length": MetricRange()}},
        {"options": {"max_new_tokens": 9}},
        {"splits": {}},
    ],
)
def test_a_changed_bundle_is_a_new_bundle(
    store: ArtifactStore, home: Path, change: Mapping[str, object]
) -> None:
    assert freeze(store, home, **change).digest != freeze(store, home).digest


@pytest.mark.parametrize("file", ["evaluate.py", "lib/words.txt", "search.jsonl", "holdout.jsonl"])
def test_one_more_byte_in_any_file_is_a_new_bundle(
    store: ArtifactStore, home: Path, file: str
) -> None:
    before = freeze(store, home).digest
    with (home / file).open("a") as stream:
        stream.write('{"answer": "1", "prompt": "new"}\n')
    assert freeze(store, home).digest != before


def test_a_bundle_needs_no_splits_and_then_promotes_nothing(
    store: ArtifactStore, home: Path
) -> None:
    trivial = freeze(store, home, splits={})
    assert (trivial.splits, trivial.has_holdout) == ({}, False)
    searching = freeze(store, home, splits={"search": home / "search.jsonl"})
    assert set(searching.splits) == {Split.SEARCH}
    assert not searching.has_holdout


@pytest.mark.parametrize(
    "part", ["document", "code", "split search", "split holdout_a", "split holdout_b"]
)
def test_one_flipped_byte_anywhere_is_noticed_and_named(
    store: ArtifactStore, home: Path, tmp_path: Path, part: str
) -> None:
    bundle = freeze(store, home)
    digest = bundle.digest
    if part == "code":
        digest = store.manifest(bundle.code_tree)[1][3]
    elif part != "document":
        digest = store.manifest(bundle.splits[Split(part.removeprefix("split "))])[0][3]
    (stored,) = (p for p in (tmp_path / "store" / "objects").rglob(digest[2:]) if p.is_file())
    data = bytearray(stored.read_bytes())
    data[-2] ^= 1
    os.chmod(stored, 0o644)
    stored.write_bytes(bytes(data))
    with pytest.raises(BundleChanged, match=f"its {part} no longer matches"):
        verify_bundle(store, bundle.digest)


def test_a_missing_bundle_is_not_found_and_does_not_verify(store: ArtifactStore) -> None:
    with pytest.raises(NotFound):
        load_bundle(store, "0" * 64)
    with pytest.raises(BundleChanged, match="document"):
        verify_bundle(store, "0" * 64)


def test_search_and_holdout_must_not_share_items(store: ArtifactStore, home: Path) -> None:
    with (home / "holdout.jsonl").open("a") as stream:
        stream.write('{"answer":"3",   "prompt":"sort 3"}\n')
    with pytest.raises(InvalidInput, match=r"1 of 22 holdout items .* line 22"):
        freeze(store, home)


def test_a_link_in_a_bundle_is_refused(store: ArtifactStore, home: Path) -> None:
    (home / "lib" / "link.txt").symlink_to("/etc/hostname")
    with pytest.raises(InvalidInput, match=r"lib/link\.txt is a link"):
        freeze(store, home)
    (home / "lib" / "link.txt").unlink()
    (home / "search.jsonl").rename(home / "real.jsonl")
    (home / "search.jsonl").symlink_to(home / "real.jsonl")
    with pytest.raises(InvalidInput, match="links are refused"):
        freeze(store, home)


def test_caches_and_version_control_are_left_out(store: ArtifactStore, home: Path) -> None:
    before = freeze(store, home).digest
    for skipped in ("__pycache__/evaluate.cpython-311.pyc", ".git/config"):
        (home / skipped).parent.mkdir()
        (home / skipped).write_text("x")
    assert freeze(store, home).digest == before


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"directory": None}, "either bundle"),
        ({"program": "exact_match"}, "either bundle"),
        ({"directory": Path("/nowhere/at/all")}, "not a directory"),
        ({"splits": {"holdout": "holdout.jsonl"}}, "no search split"),
        ({"splits": {"train": "search.jsonl"}}, "only search and holdout"),
        ({"splits": {"search": "missing.jsonl"}}, "not a file or directory"),
        ({"splits": {"search": "."}}, "names the bundle directory itself"),
    ],
)
def test_what_is_wrong_is_said_by_field_value_and_rule(
    store: ArtifactStore, home: Path, change: dict[str, object], said: str
) -> None:
    if "splits" in change:
        written = change["splits"]
        assert isinstance(written, dict)
        change = {"splits": {name: home / path for name, path in written.items()}}
    with pytest.raises(InvalidInput, match=said):
        freeze(store, home, **change)


def test_a_bundle_without_its_program_says_what_to_write(store: ArtifactStore, home: Path) -> None:
    (home / "evaluate.py").rename(home / "score.sh")
    with pytest.raises(InvalidInput, match=r"no evaluate\.py; add it, or write evaluator\.argv"):
        freeze(store, home)
    frozen = freeze(store, home, argv=("/bin/sh", "{bundle}/score.sh"))
    assert frozen.argv == ("/bin/sh", "{bundle}/score.sh")


# --- directories as splits ---------------------------------------------------------------------


def directory_splits(tmp_path: Path, files: Mapping[str, str]) -> dict[str, Path]:
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return {name: tmp_path / name for name in ("search", "holdout") if (tmp_path / name).is_dir()}


def test_a_holdout_directory_brings_its_own_halves(
    store: ArtifactStore, home: Path, tmp_path: Path
) -> None:
    files = {"search/1": "s", "holdout/a/1": "x", "holdout/a/deep/2": "y", "holdout/b/1": "z"}
    bundle = freeze(store, home, splits=directory_splits(tmp_path, files))
    assert names(store, bundle.splits[Split.HOLDOUT_A]) == ["1", "deep/2"]
    assert bundle.items == {Split.SEARCH: 1, Split.HOLDOUT_A: 2, Split.HOLDOUT_B: 1}


def test_a_holdout_directory_without_halves_is_refused(
    store: ArtifactStore, home: Path, tmp_path: Path
) -> None:
    splits = directory_splits(tmp_path, {"search/1": "s", "holdout/a/1": "x"})
    with pytest.raises(InvalidInput, match="no directory b"):
        freeze(store, home, splits=splits)
    splits = directory_splits(tmp_path, {"search/1": "s", "holdout/b/.git/x": "x"})
    with pytest.raises(InvalidInput, match="holds no files"):
        freeze(store, home, splits=splits)


@pytest.mark.parametrize("twin", ["holdout/a/9", "holdout/b/9"])
def test_a_file_in_two_splits_is_refused(
    store: ArtifactStore, home: Path, tmp_path: Path, twin: str
) -> None:
    files = {"search/1": "same", "holdout/a/1": "x", "holdout/b/1": "z", twin: "same"}
    with pytest.raises(InvalidInput, match="is in two of"):
        freeze(store, home, splits=directory_splits(tmp_path, files))


# --- built-in programs -------------------------------------------------------------------------


def test_a_built_in_program_brings_what_it_may_import(store: ArtifactStore, home: Path) -> None:
    bundle = freeze(store, home, directory=None, program="exact_match")
    assert names(store, bundle.code_tree) == [
        "answers.py",
        "evaluate.py",
        "inner_trials/__init__.py",
        "inner_trials/contract.py",
        "inner_trials/reporting.py",
        "quantised.py",
    ]
    code = store.checkout(bundle.code_tree)
    imported = (
        "import sys; sys.path.insert(0, sys.argv[1]); import answers, inner_trials.reporting"
    )
    subprocess.run([sys.executable, "-I", "-c", imported, str(code)], check=True, timeout=60)


@pytest.mark.parametrize("name", ["exact", "__init__", "../scores", "exact_match.py", ""])
def test_an_unknown_program_is_refused_with_the_known_ones(
    store: ArtifactStore, home: Path, name: str
) -> None:
    with pytest.raises(UnknownName, match="exact_match"):
        freeze(store, home, directory=None, program=name)
