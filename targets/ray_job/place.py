"""A node's own part: where it keeps things, which of its targets runs an attempt, its cache."""

import fcntl
import hashlib
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from ledger.errors import TargetUnavailable
from targets.protocol import Program, Target
from targets.ray_job.trees import InputFile, fetch_tree, manifest_bytes, sha_of
from targets.registry import TARGETS, Place, make_target, problem_of
from targets.shared_store import SharedStore
from targets.spares import NOT_EMPTY, remove_tree

CACHE_BYTES: Final = 64 * 1024**3
"""Of inputs that no running attempt uses, kept for the next one."""
_STAMP_NS: Final = 10**9
"""Every cached file has this time; one that was written to since has another."""
_SANDBOXES: Final = ("docker", "bubblewrap")


class NoSandbox(TargetUnavailable):
    """This node cannot run what it was asked to; another may."""


def node_home(storage: str) -> str:
    """This node's directory for attempts of a cluster's store, made if it is missing. It is the
    user's alone. Raises TargetUnavailable when somebody else made it, OSError."""
    label = hashlib.sha256(storage.encode()).hexdigest()[:12]
    home = f"{tempfile.gettempdir()}/arl-ray-{os.getuid()}"
    for path in (home, f"{home}/{label}"):
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            status = os.lstat(path)
            if status.st_uid != os.getuid() or not os.path.isdir(path) or os.path.islink(path):
                raise TargetUnavailable(f"{path} belongs to somebody else on this node") from None
    return f"{home}/{label}"


def choose_sandbox(wanted: str | None, program: Program) -> str:
    """Which target of this node runs an attempt. Raises NoSandbox, with what to do."""
    problems: list[str] = []
    for name in _SANDBOXES if wanted is None else (wanted,):
        if program.image is not None and name != "docker":
            problems.append(f"{name}: it runs no images, and target.image names one")
            continue
        problem = problem_of(name, {}) if name in TARGETS else "this version does not know it"
        if problem is None:
            return name
        problems.append(f"{name}: {problem}")
    raise NoSandbox(
        f"this node cannot run it ({'; '.join(problems)}); see to that on every node, or write "
        "target.sandbox: local for programs you trust"
    )


def node_target(name: str, home: str, store: "NodeCache", node: str) -> Target:
    root = Path(home, name)
    return make_target(name, Place(root=root, store=store, host=node))


class NodeCache:
    """See targets.attempt_files.Store: inputs fetched from the shared store, kept by digest.

    Each is locked while an object that gave it out lives. Thread-safe; shared by the processes
    of the node.
    """

    def __init__(self, home: str, shared: SharedStore) -> None:
        self._shared = shared
        self._trees = f"{home}/cache/trees"
        self._uses = f"{home}/cache/uses"
        for path in (self._trees, self._uses):
            os.makedirs(path, mode=0o700, exist_ok=True)
        self._locks: dict[str, int] = {}

    def checkout(self, tree: str) -> Path:
        """Raises targets.ray_job.trees.Damaged, and what the shared store raises."""
        self._use(tree)
        final = f"{self._trees}/{tree}"
        known = self._manifest(tree)
        if known is not None and all(_is_whole(final, file) for file in known):
            return Path(final)
        draft = f"{self._trees}/.{secrets.token_hex(8)}"
        try:
            files = fetch_tree(self._shared, tree, draft)
            _seal(draft)
            if os.path.lexists(final):
                os.rename(final, f"{draft}.old")
            os.rename(draft, final)
        except OSError as error:
            if error.errno not in NOT_EMPTY:
                raise
            return Path(final)  # another process was faster
        finally:
            remove_tree(draft)
            remove_tree(f"{draft}.old")
        self._remember(tree, files)
        return Path(final)

    def copy_tree(self, tree: str, destination: Path) -> None:
        source = self.checkout(tree)
        shutil.copytree(source, destination, dirs_exist_ok=True, copy_function=_copy_writable)
        for folder, _, _ in os.walk(destination):
            os.chmod(folder, 0o700)

    def read_bytes(self, digest: str) -> bytes:
        """Of a tree: its manifest."""
        self.checkout(digest)
        return manifest_bytes(self._manifest(digest) or [])

    def close(self) -> None:
        for descriptor in self._locks.values():
            os.close(descriptor)
        self._locks.clear()

    def trim(self, limit_bytes: int = CACHE_BYTES) -> None:
        """Delete what was used longest ago and is not in use, down to `limit_bytes`."""
        kept = sorted(Path(self._uses).iterdir(), key=_used_at)
        sizes = {use.name: _size_of(use) for use in kept}
        total = sum(sizes.values())
        for use in kept:
            if total <= limit_bytes:
                return
            with _locked_alone(use) as is_ours:
                if is_ours:
                    remove_tree(f"{self._trees}/{use.name}")
                    use.unlink(missing_ok=True)
                    total -= sizes[use.name]

    def _use(self, tree: str) -> None:
        path = f"{self._uses}/{tree}"
        while tree not in self._locks:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            if os.fstat(descriptor).st_nlink:
                self._locks[tree] = descriptor
            else:  # another process trimmed it meanwhile
                os.close(descriptor)
        os.utime(path)

    def _manifest(self, tree: str) -> list[InputFile] | None:
        try:
            found: Any = json.loads(Path(self._uses, tree).read_bytes())
        except (OSError, ValueError):
            return None
        return [(str(p), int(m), int(n), str(d)) for p, m, n, d in found]

    def _remember(self, tree: str, files: list[InputFile]) -> None:
        Path(self._uses, tree).write_text(json.dumps(files), encoding="ascii")


def _is_whole(root: str, file: InputFile) -> bool:
    """Unchanged by its size and time, or else by its bytes."""
    path, _, size, sha = file
    try:
        status = os.lstat(f"{root}/{path}")
    except OSError:
        return False
    if status.st_size != size:
        return False
    return status.st_mtime_ns == _STAMP_NS or sha_of(f"{root}/{path}") == sha


def _seal(root: str) -> None:
    for folder, _, names in os.walk(root, topdown=False):
        for name in names:
            path = f"{folder}/{name}"
            os.chmod(path, 0o555 if os.lstat(path).st_mode & 0o111 else 0o444)
            os.utime(path, ns=(_STAMP_NS, _STAMP_NS))
        if folder != root:  # a directory that moves has its `..` rewritten
            os.chmod(folder, 0o555)


def _copy_writable(source: str, target: str) -> str:
    shutil.copyfile(source, target)
    os.chmod(target, 0o755 if os.stat(source).st_mode & 0o111 else 0o644)
    return target


def _used_at(use: Path) -> float:
    try:
        return use.stat().st_mtime
    except FileNotFoundError:
        return 0.0  # another process trims, too


def _size_of(use: Path) -> int:
    try:
        return sum(size for _, _, size, _ in json.loads(use.read_bytes()))
    except (OSError, ValueError):
        return 0


@contextmanager
def _locked_alone(use: Path) -> Iterator[bool]:
    try:
        descriptor = os.open(use, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        yield False
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield True
    except BlockingIOError:
        yield False
    finally:
        os.close(descriptor)


def clear_attempt(home: str, sandbox: str, name: str, target: Target) -> None:
    """Delete what is left of an ended attempt on this node, its log included: that is in the
    shared store."""
    target.release(name)
    for path in Path(home, sandbox, "logs").glob(f"{name}.*"):
        path.unlink(missing_ok=True)
    for path in (Path(home, "journals", name), Path(home, "guards", name)):
        path.unlink(missing_ok=True)
