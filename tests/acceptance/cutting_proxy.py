"""Stands between ARL and its PostgreSQL server, and cuts connections around their COMMIT.

Like a network that fails just then: before the server heard of it, or after it has committed and
before the client hears that. Whether the transaction happened is then known to nobody but the
server.
"""

import random
import socket
import threading
from collections import Counter
from contextlib import suppress
from pathlib import Path

COMMIT = b"COMMIT\x00"


class CuttingProxy:
    """A server's socket, at one of our own."""

    def __init__(self, server: Path, folder: Path, *, seed: int) -> None:
        self.folder = folder
        self.cuts: Counter[str] = Counter()
        self.one_in = 0
        """How many commits one is cut of; 0: none."""
        self._server = str(server / ".s.PGSQL.5432")
        self._dice = random.Random(seed)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / ".s.PGSQL.5432"))
        self._listener.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        server = socket.socket(socket.AF_UNIX)
        with client, server, suppress(OSError):
            server.connect(self._server)
            deaf = threading.Event()
            answers = threading.Thread(target=_pump, args=(server, client, deaf), daemon=True)
            answers.start()
            while data := client.recv(1 << 16):
                how = self._choose(data)
                if how == "after":  # the server commits, and nobody is told
                    deaf.set()
                    server.sendall(data)
                    answers.join(2.0)
                if how:
                    self.cuts[how] += 1
                    break
                server.sendall(data)
            _shut(server)
            _shut(client)

    def _choose(self, data: bytes) -> str:
        """How to cut, if at all."""
        if not self.one_in or COMMIT not in data or self._dice.randrange(self.one_in):
            return ""
        return self._dice.choice(("before", "after"))


def _pump(source: socket.socket, sink: socket.socket, deaf: threading.Event) -> None:
    """Hand on what the server says; once deaf, wait for one more answer and say nothing."""
    with suppress(OSError):
        while data := source.recv(1 << 16):
            if deaf.is_set():
                return
            sink.sendall(data)
        _shut(sink)


def _shut(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
