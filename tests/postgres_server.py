"""A private PostgreSQL cluster in a temporary folder; never the machine's own."""

import os
import pwd
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

START_TIMEOUT_S = 60


def find_binaries() -> Path | None:
    """The folder with the newest initdb and postgres, or None when none are installed."""

    def version(folder: Path) -> tuple[int, ...]:
        return tuple(int(part) for part in folder.parent.name.split(".") if part.isdigit())

    installed = Path("/usr/lib/postgresql").glob("*/bin")
    candidates = sorted(installed, key=version, reverse=True)
    found = shutil.which("initdb")
    if found is not None:
        candidates.append(Path(found).resolve().parent)
    for folder in candidates:
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    return None


class PostgresServer:
    """One running cluster, reachable over a Unix socket only."""

    def __init__(self, binaries: Path, folder: Path) -> None:
        self._binaries = binaries
        self._folder = folder
        self.data = folder / "data"
        self.socket = folder / "socket"
        self.user = _unprivileged_user()

    def create(self) -> None:
        self.socket.mkdir()
        if self.user is not None:
            owner = pwd.getpwnam(self.user)
            self._folder.chmod(0o755)
            os.chown(self.socket, owner.pw_uid, owner.pw_gid)
            self.data.mkdir()
            os.chown(self.data, owner.pw_uid, owner.pw_gid)
        self._run(
            "initdb", "-D", str(self.data), "-U", "arl", "--auth=trust", "-E", "UTF8", "--locale=C"
        )

    def start(self) -> None:
        options = (
            f"-c listen_addresses='' -c unix_socket_directories='{self.socket}' "
            "-c fsync=on -c synchronous_commit=on -c max_connections=100"
        )
        log = self.socket / "server.log"
        self._run(
            "pg_ctl", "-D", str(self.data), "-w", "-t", str(START_TIMEOUT_S),
            "-l", str(log), "-o", options, "start",
        )  # fmt: skip

    def stop(self, mode: str = "immediate") -> None:
        """`fast` lets transactions roll back; `immediate` is a crash."""
        self._run("pg_ctl", "-D", str(self.data), "-w", "-m", mode, "stop")

    def new_ledger_url(self) -> str:
        """The URL of an empty schema of its own: much faster to make than a database."""
        name = f"arl_{uuid.uuid4().hex[:12]}"
        self._execute(f'CREATE SCHEMA "{name}"')
        return f"postgresql://arl@/postgres?host={self.socket}&options=-csearch_path%3D{name}"

    def drop_ledger(self, url: str) -> None:
        """What `new_ledger_url` gave, with all that is in it."""
        name = url.rpartition("%3D")[2]
        self._execute(f'DROP SCHEMA "{name}" CASCADE')

    def _execute(self, statement: str) -> None:
        import psycopg

        address = f"host={self.socket} user=arl dbname=postgres"
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute(statement.encode())

    def _run(self, program: str, *arguments: str) -> None:
        argv = [str(self._binaries / program), *arguments]
        if self.user is not None:
            argv = ["runuser", "-u", self.user, "--", *argv]
        done = subprocess.run(
            argv,
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if program != "pg_ctl" else subprocess.DEVNULL,
            stderr=subprocess.STDOUT if program != "pg_ctl" else subprocess.DEVNULL,
            timeout=START_TIMEOUT_S * 2,
            check=False,
        )
        if done.returncode != 0:
            output = (done.stdout or b"").decode(errors="replace")
            raise RuntimeError(f"{program} failed with {done.returncode}: {output}")


@contextmanager
def private_server(binaries: Path) -> Iterator[PostgresServer]:
    """A running cluster that is gone, with its files, afterwards."""
    with tempfile.TemporaryDirectory(prefix="arl-pg-", ignore_cleanup_errors=True) as folder:
        server = PostgresServer(binaries, Path(folder))
        server.create()
        server.start()
        try:
            yield server
        finally:
            server.stop()


def _unprivileged_user() -> str | None:
    """PostgreSQL refuses to run as root; None when we are not root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            pwd.getpwnam(name)
        except KeyError:
            continue
        return name
    raise RuntimeError("running as root, and there is no user `postgres` or `nobody` to switch to")
