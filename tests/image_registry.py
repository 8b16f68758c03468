"""A registry with one image, of which it may send a byte at a time: for an engine's pulls.

Run it as a program in the engine's network: `image_registry.py PORT READY_FILE [drip]`.
"""

import gzip
import hashlib
import io
import json
import sys
import tarfile
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
CONFIG = "application/vnd.docker.container.image.v1+json"
LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"
TAG = "1"


def digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def layer(said: bytes) -> bytes:
    """A root that is empty but for one file."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as archive:
        entry = tarfile.TarInfo("hello")
        entry.size = len(said)
        archive.addfile(entry, io.BytesIO(said))
    return written.getvalue()


def image(said: bytes = b"world\n") -> dict[str, tuple[str, bytes]]:
    """Everything by digest: its type and bytes; the manifest as `manifest` too."""
    plain = layer(said)
    packed = gzip.compress(plain, mtime=0)
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {},
            "rootfs": {"type": "layers", "diff_ids": [digest(plain)]},
        }
    ).encode()
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": {"mediaType": CONFIG, "size": len(config), "digest": digest(config)},
            "layers": [{"mediaType": LAYER, "size": len(packed), "digest": digest(packed)}],
        }
    ).encode()
    blobs = {"manifest": (MANIFEST, manifest), digest(manifest): (MANIFEST, manifest)}
    return {**blobs, digest(config): (CONFIG, config), digest(packed): (LAYER, packed)}


class Handler(BaseHTTPRequestHandler):
    drips = False

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def _answer(self, *, with_body: bool) -> None:
        known = image(b"never pulled before\n") if self.drips else image()
        wanted = self.path.rpartition("/")[2]
        found = known.get("manifest" if wanted == TAG else wanted)
        if self.path in ("/v2/", "/v2"):
            found = ("application/json", b"{}")
        if found is None:
            found = ("application/json", b'{"errors": [{"code": "MANIFEST_UNKNOWN"}]}')
            self.send_response(404)
        else:
            self.send_response(200)
        kind, data = found
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Docker-Content-Digest", digest(data))
        self.end_headers()
        if with_body:
            self._send(data, slowly=self.drips and kind == LAYER)

    def _send(self, data: bytes, *, slowly: bool) -> None:
        for at in range(len(data) if slowly else 0):
            self.wfile.write(data[at : at + 1])
            self.wfile.flush()
            time.sleep(1.0)
        if not slowly:
            self.wfile.write(data)

    def log_message(self, *arguments: object) -> None:
        pass


if __name__ == "__main__":
    Handler.drips = "drip" in sys.argv
    serving = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
    Path(sys.argv[2]).touch()
    serving.serve_forever()
