"""Collecting what an ordinary trial left."""

import hashlib
import os
import time
from pathlib import Path

import pytest

from evaluator.collector import Collected, CollectLimits, Refused, collect
from ledger.artifacts import ArtifactStore


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(tmp_path / "store")


@pytest.fixture
def output(tmp_path: Path) -> Path:
    root = tmp_path / "output"
    root.mkdir()
    return root


def write(root: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def collected(root: Path, store: ArtifactStore, limits: CollectLimits | None = None) -> Collected:
    found = collect(str(root), store, limits=limits)
    assert isinstance(found, Collected), found
    return found


def refused(root: Path, store: ArtifactStore, limits: CollectLimits | None = None) -> Refused:
    found = collect(str(root), store, limits=limits)
    assert isinstance(found, Refused), found
    return found


def test_the_stored_model_is_what_the_trial_wrote(store: ArtifactStore, output: Path) -> None:
    large = os.urandom(3 * 1024 * 1024 + 7)
    write(output, {"model/config.json": b"{}", "model/weights/1.safetensors": large})
    model = collected(output, store).model
    assert (model.files, model.size_bytes) == (2, len(large) + 2)
    checkout = store.checkout(model.digest)
    assert (checkout / "weights/1.safetensors").read_bytes() == large
    listed = store.manifest(model.digest)
    assert listed[1] == ("weights/1.safetensors", 0o644, len(large), sha256(large))
    store.verify(model.digest)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_what_was_sampled_is_kept_apart_from_the_model(store: ArtifactStore, output: Path) -> None:
    write(output, {"model/a": b"1", "rollouts/part-00000.parquet": b"22"})
    found = collected(output, store)
    assert (found.model.size_bytes, found.rollouts.size_bytes) == (1, 2)
    assert [name for name, *_ in store.manifest(found.rollouts.digest)] == ["part-00000.parquet"]


def test_model_and_resume_are_kept_apart(store: ArtifactStore, output: Path) -> None:
    write(output, {"model/w": b"model", "resume/optimizer.pt": b"state", "metrics.json": b"1"})
    found = collected(output, store)
    assert [path for path, *_ in store.manifest(found.model.digest)] == ["w"]
    assert [path for path, *_ in store.manifest(found.resume.digest)] == ["optimizer.pt"]


def test_the_digest_depends_on_names_and_bytes_alone(store: ArtifactStore, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    write(first, {"model/b": b"2", "model/a": b"1"})
    write(second, {"model/a": b"1", "model/b": b"2"})
    (second / "model/a").chmod(0o755)
    os.utime(second / "model/b", (1, 1))
    (second / "model/empty").mkdir()
    assert collected(first, store).model == collected(second, store).model


@pytest.mark.parametrize("left", [(), ("model",), ("model", "resume")])
def test_nothing_left_is_the_empty_tree(
    store: ArtifactStore, output: Path, left: tuple[str, ...]
) -> None:
    for name in left:
        (output / name).mkdir()
    found = collected(output, store)
    assert found.model == found.resume
    assert (found.model.files, found.model.size_bytes) == (0, 0)
    assert store.manifest(found.model.digest) == []


def test_a_missing_output_is_the_empty_tree(store: ArtifactStore, tmp_path: Path) -> None:
    assert collected(tmp_path / "gone", store).model.files == 0


def test_collecting_nothing_costs_next_to_nothing(store: ArtifactStore, output: Path) -> None:
    (output / "model").mkdir()
    collected(output, store)
    took = []
    for _ in range(200):
        start = time.perf_counter()
        collected(output, store)
        took.append(time.perf_counter() - start)
    # 0.2 ms on a quiet machine; ten times that tells an accidental write or fsync all the same.
    assert sorted(took)[100] < 0.002


def test_collecting_again_gives_the_same(store: ArtifactStore, output: Path) -> None:
    write(output, {"model/w": b"model", "resume/s": b"state"})
    assert collected(output, store) == collected(output, store)


def test_files_linked_to_each_other_inside_the_output_are_fine(
    store: ArtifactStore, output: Path
) -> None:
    write(output, {"model/w": b"same", "resume/.keep": b""})
    os.link(output / "model/w", output / "model/twin")
    os.link(output / "model/w", output / "resume/w")
    found = collected(output, store)
    assert (found.model.files, found.resume.files) == (2, 2)


@pytest.mark.parametrize(
    ("limits", "rule"),
    [
        (CollectLimits(total_bytes=9), "past 9 bytes"),
        (CollectLimits(entries=3), "past 3 files"),
        (CollectLimits(depth=0), "nested deeper than 0"),
        (CollectLimits(path_bytes=8), "longer than 8 bytes"),
    ],
)
def test_each_cap_refuses_one_more(
    store: ArtifactStore, output: Path, limits: CollectLimits, rule: str
) -> None:
    write(output, {"model/a": b"12345", "model/d/b": b"12345", "resume/r": b""})
    assert rule in refused(output, store, limits).reason


def test_each_cap_allows_exactly_its_size(store: ArtifactStore, output: Path) -> None:
    write(output, {"model/a": b"12345", "model/d/b": b"12345", "resume/r": b""})
    exact = CollectLimits(total_bytes=10, entries=4, depth=1, path_bytes=9)
    assert collected(output, store, exact).model.files == 2


def test_a_refused_output_costs_no_disk(
    store: ArtifactStore, output: Path, tmp_path: Path
) -> None:
    write(output, {"model/a": b"x" * 1000})
    (output / "model" / "z").symlink_to("a")
    before = sorted(p for p in (tmp_path / "store").rglob("*") if p.is_file())
    refused(output, store)
    assert sorted(p for p in (tmp_path / "store").rglob("*") if p.is_file()) == before
