"""What Ray itself runs on a node, pickled by value: unpacks ARL's code there and hands over to it.

Standard library only at the top, and nothing of ARL's: the node may not have it.
"""

import functools
import io
import json
import os
import sys
import time
import zipfile
from pathlib import Path
from typing import Any, Final

_CHUNK: Final = 64 * 1024
"""Ray keeps smaller arguments inside the call; larger ones would die with the process that made
it, while the attempt waits for room."""
_SHIPPED: Final = {
    "targets": (),
    "ledger": ("__init__", "errors", "records", "states"),
    "inner_trials": ("__init__", "contract"),
}
"""Of these packages these modules, or all."""
_LEAVE_S: Final = 0.1
"""For the answers under way, before the process ends."""


def pack(order: dict[str, Any]) -> list[bytes]:
    """An order and the code that carries it out, in pieces, for `unpack` on a node."""
    text = json.dumps(order).encode()
    data = len(text).to_bytes(8, "big") + text + _zipped()
    return [data[at : at + _CHUNK] for at in range(0, len(data), _CHUNK)]


@functools.cache
def _zipped() -> bytes:
    root = Path(__file__).resolve().parents[2]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for package, modules in _SHIPPED.items():
            for path in sorted((root / package).rglob("*")):
                is_code = path.suffix in (".py", ".json")
                if is_code and (not modules or path.stem in modules):
                    info = zipfile.ZipInfo(str(path.relative_to(root)))  # no dates: same bytes
                    archive.writestr(info, path.read_bytes(), zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def unpack(pieces: tuple[bytes, ...]) -> dict[str, Any]:
    """The order; from now on `import targets` finds the code that came with it."""
    import hashlib
    import tempfile

    data = b"".join(pieces)
    size = int.from_bytes(data[:8], "big")
    code = data[8 + size :]
    home = f"{tempfile.gettempdir()}/arl-ray-{os.getuid()}"
    os.makedirs(home, mode=0o700, exist_ok=True)
    status = os.lstat(home)
    if status.st_uid != os.getuid() or os.path.islink(home):
        raise PermissionError(f"{home} belongs to somebody else on this node")
    place = f"{home}/code-{hashlib.sha256(code).hexdigest()[:16]}"
    if not os.path.isdir(place):
        draft = f"{place}.{os.getpid()}"
        with zipfile.ZipFile(io.BytesIO(code)) as archive:
            archive.extractall(draft)
        try:
            os.rename(draft, place)
        except OSError:
            pass  # another process was faster; what it made is the same
    sys.path.insert(0, place)
    order: dict[str, Any] = json.loads(data[8 : 8 + size])
    return order


class AttemptActor:
    """One per attempt, named after it. Lives as long as the attempt and until its record is in
    the shared store; then it gives its place in the cluster back."""

    def __init__(self, *pieces: bytes) -> None:
        import ray

        order = unpack(pieces)
        from targets.ray_job.node import NodeAttempt

        self._attempt = NodeAttempt(
            order,
            gpu_ids=tuple(str(gpu) for gpu in ray.get_gpu_ids()),
            node=ray.get_runtime_context().get_node_id(),
            leave=self._leave,
        )
        self._attempt.start()

    def news(self, seen_bytes: int, patience_s: float) -> dict[str, Any]:
        return self._attempt.news(seen_bytes, patience_s)

    def read_journal(self, offset: int, limit: int) -> tuple[bytes, bool]:
        return self._attempt.read_journal(offset, limit)

    def read_log(self, offset: int, limit: int) -> tuple[bytes, int, int]:
        return self._attempt.read_log(offset, limit)

    def ask(self, what: str) -> None:
        self._attempt.ask(what)

    def _leave(self) -> None:
        import ray.util

        time.sleep(_LEAVE_S)
        try:
            group = ray.util.get_current_placement_group()
            if group is not None:
                ray.util.remove_placement_group(group)  # ends this process, too
                time.sleep(5.0)
        finally:
            os._exit(0)


def answer_here(*pieces: bytes) -> dict[str, str]:
    """A task: what a controller asks of some node about a program."""
    import ray

    order = unpack(pieces)
    from targets.ray_job.answers import answer

    return answer(order, ray.get_runtime_context().get_node_id())
