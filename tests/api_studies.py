"""Studies over HTTP: what a client sends, and a worker beside the API."""

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient

from controller.worker.loop import Worker
from ledger import reads
from ledger.digests import canonical_json
from tests.acceptance.shell_study import document, write_evaluator
from tests.api_runs import service_of


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def send_tree(client: TestClient, root: Path, headers: dict[str, str] | None = None) -> str:
    """Send every file below a directory and the directory itself; its digest."""
    files = []
    for file in sorted(path for path in root.rglob("*") if path.is_file()):
        data = file.read_bytes()
        sent = client.put(
            f"/api/v1/blobs/{sha256(data)}",
            content=data,
            headers={"Content-Type": "application/octet-stream", **(headers or {})},
        )
        assert sent.json()["is_complete"], sent.text
        files.append((str(file.relative_to(root)), 0o644, len(data), sha256(data)))
    tree = sha256(canonical_json([list(file) for file in files]).encode())
    body = [{"path": p, "size": s, "digest": d} for p, _, s, d in files]
    stored = client.put(f"/api/v1/trees/{tree}", json={"files": body}, headers=headers)
    assert stored.status_code == 200, stored.text
    return tree


def remote_document(client: TestClient, base: Path, **changes: Any) -> dict[str, Any]:
    """The shell study with its evaluator sent."""
    write_evaluator(base)
    made = document(**changes)
    made["evaluator"] = {
        **made["evaluator"],
        "bundle": f"blob:{send_tree(client, base / 'evaluator')}",
    }
    return made


@contextmanager
def working(client: TestClient) -> Iterator[None]:
    """A worker over the same ledger, in a thread."""
    worker = Worker(service_of(client))
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        yield
    finally:
        worker.stop()
        thread.join(30)


def wait_for(client: TestClient, study: str, state: str) -> None:
    service = service_of(client)
    for _ in range(600):
        with service.ledger.read() as session:
            if reads.get_study(session, study).state == state:
                return
        threading.Event().wait(0.05)
    raise AssertionError(f"{study} is not {state}")
