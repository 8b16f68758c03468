"""What travels through the shared store: inputs, outputs however hostile, journals and logs."""

import fcntl
import os
import stat
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from evaluator.collector import Collected, CollectLimits, Refused, collect
from ledger.artifacts import ArtifactStore
from ledger.records import IntermediateValue
from targets import program_log
from targets.program_log import LogWriter
from targets.protocol import (
    Exit,
    ExitCause,
    LogChunk,
    NetworkRequest,
    Observation,
    Program,
)
from targets.ray_job.ended import Ended, put_here
from targets.ray_job.outputs import OutputSurvey, fetch_output, send_output
from targets.ray_job.place import NodeCache, NoSandbox, choose_sandbox
from targets.ray_job.records import Record, journal_lines, log_path, read_journal
from targets.ray_job.storage import open_store
from targets.ray_job.trees import BIG_BYTES, TREE_AGE_S, Damaged, send_tree, sweep_trees
from targets.shared_store import SharedStore


@pytest.fixture
def shared(tmp_path: Path) -> SharedStore:
    store = open_store(f"file://{tmp_path}/shared")
    store.prepare()
    return store


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(tmp_path / "store")


@pytest.fixture
def tree(store: ArtifactStore, tmp_path: Path) -> str:
    """With a large file, an executable one and an odd name."""
    source = tmp_path / "source"
    (source / "deep" / "er").mkdir(parents=True)
    (source / "deep" / "er" / "ünïcode name").write_text("text")
    (source / "run").write_text("#!/bin/sh\n")
    (source / "run").chmod(0o755)
    (source / "weights").write_bytes(b"w" * (BIG_BYTES + 1))
    return store.put_tree(source)


# --- inputs -----------------------------------------------------------------------------------


def test_an_input_arrives_as_it_is_and_is_sent_once(
    shared: SharedStore, store: ArtifactStore, tree: str, tmp_path: Path
) -> None:
    send_tree(shared, tree, store)
    cache = NodeCache(str(tmp_path / "node"), shared)
    arrived = cache.checkout(tree)
    again = ArtifactStore(tmp_path / "again")
    assert again.put_tree(arrived) == tree
    assert len(shared.names("blobs")) == 1, "what is large is kept apart, by its own digest"
    path = tmp_path / "shared" / "trees" / tree
    written = path.stat().st_mtime_ns
    send_tree(shared, tree, store)
    assert path.stat().st_mtime_ns == written
    assert cache.read_bytes(tree) == store.read_bytes(tree)
    copy = tmp_path / "copy"
    copy.mkdir()
    cache.copy_tree(tree, copy)
    (copy / "deep" / "er" / "ünïcode name").write_text("may be changed")
    assert os.access(copy / "run", os.X_OK)
    cache.close()


def test_a_cached_input_that_was_changed_is_fetched_again(
    shared: SharedStore, store: ArtifactStore, tree: str, tmp_path: Path
) -> None:
    send_tree(shared, tree, store)
    cache = NodeCache(str(tmp_path / "node"), shared)
    changed = cache.checkout(tree) / "run"
    changed.chmod(0o755)
    changed.write_text("#!/bin/no\n")
    assert (NodeCache(str(tmp_path / "node"), shared).checkout(tree) / "run").read_text() == (
        "#!/bin/sh\n"
    )


@pytest.mark.parametrize("part", ["list", "content", "cut", "blob", "gone"])
def test_an_input_damaged_on_its_way_is_refused_and_deleted(
    shared: SharedStore, store: ArtifactStore, tree: str, tmp_path: Path, part: str
) -> None:
    send_tree(shared, tree, store)
    path = tmp_path / "shared" / "trees" / tree
    if part == "blob":
        path = tmp_path / "shared" / "blobs" / shared.names("blobs")[0]
    data = path.read_bytes()
    damaged = {
        "list": data.replace(b"deep/er", b"../peer"),
        "content": data.replace(b"#!/bin/sh", b"#!/bin/no"),
        "cut": data[:-5],
        "blob": b"v" + data[1:],
        "gone": b"",
    }[part]
    assert damaged != data
    path.write_bytes(damaged)
    if part == "gone":
        path.unlink()
    cache = NodeCache(str(tmp_path / "node"), shared)
    with pytest.raises(Damaged):
        cache.checkout(tree)
    assert os.listdir(tmp_path / "node" / "cache" / "trees") == []
    send_tree(shared, tree, store)
    assert (cache.checkout(tree) / "run").exists(), "sent anew"
    cache.close()


def test_inputs_that_nothing_asked_for_lately_are_deleted(
    shared: SharedStore, store: ArtifactStore, tree: str, tmp_path: Path
) -> None:
    send_tree(shared, tree, store)
    sweep_trees(shared)
    assert shared.names("trees") == [tree]
    for folder in ("trees", "blobs"):
        for name in shared.names(folder):
            path = tmp_path / "shared" / folder / name
            os.utime(path, (path.stat().st_mtime - TREE_AGE_S - 10,) * 2)
    sweep_trees(shared)
    assert shared.names("trees") == shared.names("blobs") == []


def test_a_nodes_cache_keeps_what_is_in_use_and_drops_the_oldest(
    shared: SharedStore, store: ArtifactStore, tmp_path: Path
) -> None:
    trees = []
    for n in range(3):
        (tmp_path / f"t{n}").mkdir()
        (tmp_path / f"t{n}" / "x").write_bytes(b"%d" % n * 1000)
        trees.append(store.put_tree(tmp_path / f"t{n}"))
        send_tree(shared, trees[-1], store)
    home = str(tmp_path / "node")
    mine, others = NodeCache(home, shared), NodeCache(home, shared)
    for tree in trees:
        others.checkout(tree)
    others.close()
    mine.checkout(trees[0])
    for n, tree in enumerate(trees):
        os.utime(f"{home}/cache/uses/{tree}", (1000 + n, 1000 + n))
    NodeCache(home, shared).trim(1500)
    assert sorted(os.listdir(f"{home}/cache/trees")) == sorted([trees[0]])
    mine.close()


def test_an_input_that_is_trimmed_while_it_is_asked_for_is_fetched_and_held(
    shared: SharedStore, store: ArtifactStore, tree: str, tmp_path: Path
) -> None:
    send_tree(shared, tree, store)
    home = str(tmp_path / "node")
    NodeCache(home, shared).close()
    use = tmp_path / "node" / "cache" / "uses" / tree
    cache = NodeCache(home, shared)
    with open(use, "wb") as trimmer, ThreadPoolExecutor(1) as pool:
        fcntl.flock(trimmer, fcntl.LOCK_EX)
        asking = pool.submit(cache.checkout, tree)
        time.sleep(0.3)
        assert not asking.done(), "it waits"
        use.unlink()
        fcntl.flock(trimmer, fcntl.LOCK_UN)
        assert (asking.result(10) / "run").exists()
    with open(use, "rb") as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    cache.close()


# --- outputs ----------------------------------------------------------------------------------


def travelled(shared: SharedStore, output: Path, base: Path, limit: int | None = None) -> Path:
    survey = OutputSurvey(str(output), limit)
    survey.take()
    digest = send_output(shared, "attempts/a/output", survey)
    fetch_output(shared, "attempts/a/output", digest, str(base / "arrived"))
    return base / "arrived" / "output"


def plain(model: Path) -> None:
    (model / "sub").mkdir()
    (model / "sub" / "weights").write_bytes(os.urandom(300_000))
    (model / "empty").touch()


def links_inside(model: Path) -> None:
    (model / "a").write_text("same")
    os.link(model / "a", model / "b")


def sparse(model: Path) -> None:
    with open(model / "huge", "wb") as file:
        file.truncate(1 << 42)


HOSTILE: dict[str, Callable[[Path], object]] = {
    "link to a file of the host": lambda m: (m / "x").symlink_to("/etc/passwd"),
    "link to a directory": lambda m: (m / "x").symlink_to("/etc"),
    "fifo": lambda m: os.mkfifo(m / "x"),
    "setuid": lambda m: ((m / "x").write_text("#!"), (m / "x").chmod(0o4755)),
    "hard link to the outside": lambda m: (
        (m.parent.parent / "secret").write_text("s"),
        os.link(m.parent.parent / "secret", m / "x"),
    ),
    "deep": lambda m: os.makedirs(m / "/".join("d" * 60)),
    "long": lambda m: os.makedirs(m / "/".join(["n" * 200] * 12)),
    "many": lambda m: [(m / str(n)).touch() for n in range(10_050)],
    "control characters": lambda m: (m / "a\nb").touch(),
    "not UTF-8": lambda m: (m / os.fsdecode(b"\xff\xfe")).touch(),
    "sparse and huge": sparse,
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_what_the_collector_would_refuse_on_the_node_it_refuses_here(
    shared: SharedStore, store: ArtifactStore, tmp_path: Path, kind: str
) -> None:
    output = tmp_path / "node" / "output"
    (output / "model").mkdir(parents=True)
    HOSTILE[kind](output / "model")
    limits = CollectLimits(total_bytes=1 << 30)
    there = collect(str(output), store, limits=limits)
    arrived = travelled(shared, output, tmp_path, limits.total_bytes)
    here = collect(str(arrived), store, limits=limits)
    assert isinstance(there, Refused)
    assert isinstance(here, Refused)
    assert not any(stat.S_IMODE(p.lstat().st_mode) & 0o6000 for p in arrived.rglob("*"))


@pytest.mark.parametrize("make", [plain, links_inside])
def test_an_honest_output_is_collected_as_on_the_node(
    shared: SharedStore, store: ArtifactStore, tmp_path: Path, make: Callable[[Path], None]
) -> None:
    output = tmp_path / "node" / "output"
    (output / "model").mkdir(parents=True)
    (output / "resume").mkdir()
    (output / "resume" / "state").write_text("s")
    make(output / "model")
    there = collect(str(output), store)
    assert isinstance(there, Collected)
    assert collect(str(travelled(shared, output, tmp_path)), store) == there


def test_what_passes_the_limit_is_said_and_never_half_taken(
    shared: SharedStore, store: ArtifactStore, tmp_path: Path
) -> None:
    output = tmp_path / "node" / "output"
    (output / "model").mkdir(parents=True)
    for name in ("a", "b"):
        (output / "model" / name).write_bytes(b"x" * 600)
    survey = OutputSurvey(str(output), 1000)
    survey.take()
    assert survey.is_too_much
    assert survey.total_bytes == 600
    assert isinstance(collect(str(travelled(shared, output, tmp_path, 1000)), store), Refused)


@pytest.mark.parametrize("where", [b"weights", b"model"])
def test_an_output_damaged_on_its_way_is_refused(
    shared: SharedStore, tmp_path: Path, where: bytes
) -> None:
    output = tmp_path / "node" / "output"
    (output / "model").mkdir(parents=True)
    (output / "model" / "x").write_bytes(b"weights")
    survey = OutputSurvey(str(output), None)
    survey.take()
    digest = send_output(shared, "o", survey)
    shared.write("o", (shared.read("o") or b"").replace(where, b"W" * len(where)))
    with pytest.raises(Damaged):
        fetch_output(shared, "o", digest, str(tmp_path / "arrived"))


# --- records, journals and logs ------------------------------------------------------------------


def test_a_journal_gives_back_what_was_observed_from_every_cursor() -> None:
    request = NetworkRequest(
        at="2026-01-01T00:00:00+00:00",
        method="CONNECT",
        host="h",
        port=443,
        allowed=False,
        detail="not listed",
    )
    values = tuple(
        IntermediateValue(step=n, metric="loss", value=v)
        for n, v in enumerate((0.5, float("inf"), -1e300))
    )
    seen = Observation(values=values, cursor="", rejected=3, requests=(request,))
    journal = journal_lines(seen) + journal_lines(seen)
    whole = read_journal(journal, 0, size=len(journal))
    assert (whole.values, whole.requests) == (values * 2, (request, request))
    assert (whole.rejected, whole.more, whole.cursor) == (6, False, str(len(journal)))
    half = len(journal) // 2
    rest = read_journal(journal[half:], half, size=len(journal))
    assert (rest.values, rest.cursor) == (values, str(len(journal)))
    cut = read_journal(journal[: half + 5], 0, size=None)
    assert (cut.values, cut.cursor, cut.more) == (values, str(half), True)
    assert journal_lines(Observation(values=(), cursor="")) == b""


def test_a_record_is_read_as_it_was_written_and_nothing_else_is() -> None:
    ended = Exit(cause=ExitCause.STALLED, code=-9, detail="x", wall_s=1.5, cpu_s=0.5)
    record = Record(exit=ended, node="n", output="d", output_bytes=5, journal_bytes=7)
    assert Record.parse(record.to_bytes()) == record
    for damaged in (b"", b"[]", b"{}", record.to_bytes().replace(b"stalled", b"fine"), b"{"):
        with pytest.raises(ValueError, match=r"not a record|Expecting|not a valid"):
            Record.parse(damaged)


def test_a_log_with_a_dropped_middle_reads_the_same_from_the_store(
    shared: SharedStore, tmp_path: Path
) -> None:
    writer = LogWriter(str(tmp_path / "log"), 4000)
    for n in range(2000):
        writer.write(b"line %d\n" % n)
    writer.close()
    pieces = program_log.log_files(str(tmp_path / "log"))
    for start, path in pieces:
        data = Path(path).read_bytes()
        shared.write(log_path("a", (start, len(data))), data)
    ended = Ended(str(tmp_path / "ended"), shared, lambda name: None)
    for offset in (0, 1, 1990, 2000, 2500, 9000, writer.total - 10, writer.total, 10**9):
        for limit in (0, 10, 700, 10**6):
            data, start, size = program_log.read_log(str(tmp_path / "log"), offset, limit)
            found = ended.read_log("a", offset, limit)
            assert found.size == size
            if data:
                assert found == LogChunk(data, start, size)


def test_of_two_that_fetch_the_same_the_slower_one_finds_it_there(
    shared: SharedStore, tmp_path: Path
) -> None:
    ended = Ended(str(tmp_path / "ended"), shared, lambda name: None)
    (tmp_path / "ended" / "a" / "output").mkdir(parents=True)
    for draft in ("one", "two"):
        (tmp_path / "ended" / f".{draft}" / "output").mkdir(parents=True)
    put_here(str(tmp_path / "ended" / ".one"), str(tmp_path / "ended" / "a"))
    put_here(str(tmp_path / "ended" / ".two"), str(tmp_path / "ended" / "b"))
    assert sorted(ended.names()) == ["a", "b"]


def test_a_node_chooses_a_sandbox_and_says_why_it_has_none() -> None:
    plain_program = Program(argv=("true",), python="python")
    assert choose_sandbox("local", plain_program) == "local"
    imaged = Program(argv=("true",), python="python", image="x@sha256:" + "0" * 64)
    with pytest.raises(NoSandbox, match="it runs no images"):
        choose_sandbox("bubblewrap", imaged)
