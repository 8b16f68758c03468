"""deploy/compose.yaml on a private engine, which has no registry: ARL's image is built over this
machine's files and local wheels, and PostgreSQL is this machine's own."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.egress_certificate import CERTIFICATE, KEY
from tests.egress_network import PUBLIC, RANGE
from tests.machine_image import import_machine_image
from tests.postgres_server import find_binaries
from tests.private_engine import Engine
from tests.target_runs import wait_until

ROOT: Final = Path(__file__).resolve().parents[1]
USER: Final = 65532
IMAGE: Final = "arl-test:compose"
BASE: Final = "arl-test-base"
LIBRARIES: Final = (
    *("libgcc_s.so.1", "libstdc++.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1"),
    *("libutil.so.1", "libresolv.so.2", "libm.so.6"),
)
"""Those of a Debian without anything else that wheels from the index are linked with."""
EXTRAS: Final = "server,postgres,docker"
POSTGRES: Final = """\
set -eu
cd "$PGDATA"
if [ ! -e PG_VERSION ]; then
  initdb -D . -U "$POSTGRES_USER" -E UTF8 --locale=C --auth-local=trust --auth-host=scram-sha-256 \
    --pwfile="$POSTGRES_PASSWORD_FILE" $POSTGRES_INITDB_ARGS
  echo 'host all all all scram-sha-256' >>pg_hba.conf
  echo "CREATE DATABASE $POSTGRES_DB" | postgres --single -D . postgres
fi
exec postgres -D . -c listen_addresses='*' -c unix_socket_directories=/tmp
"""
"""What the image postgres does with the same variables."""


def compose_command() -> list[str]:
    """Skips where there is none; as root or in CI that is a failure."""
    done = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False)
    if done.returncode == 0:
        return ["docker", "compose"]
    if shutil.which("docker-compose"):
        return ["docker-compose"]
    must = os.geteuid() == 0 or os.environ.get("CI") == "true"
    (pytest.fail if must else pytest.skip)("docker-compose is missing: scripts/services.sh slow")


SITE: Final = """
import ssl, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Answer(BaseHTTPRequestHandler):
    def do_GET(self):
        print(self.client_address[0], self.server.server_port, self.headers["Host"], flush=True)
        self.send_response(200)
        self.send_header("Content-Length", "9")
        self.end_headers()
        self.wfile.write(b"site here")

    def log_message(self, *_):
        pass

plain, secure = (ThreadingHTTPServer(("", port), Answer) for port in (80, 443))
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("/site.pem")
secure.socket = context.wrap_socket(
    secure.socket, server_side=True, do_handshake_on_connect=False
)
threading.Thread(target=plain.serve_forever, daemon=True).start()
secure.serve_forever()
"""
"""The hosts of a network that has nobody else in it; it says who asked it."""


class Deployed:
    """The services of deploy/compose.yaml, prepared and not yet started."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self.engine = engine
        self.place = folder / "deploy"
        self.home = folder / "data"
        self._command = compose_command()
        self._environment = {**os.environ, "DOCKER_HOST": engine.host}

    def prepare(self) -> None:
        """As docs/operations.md says, but for the images and for who runs it."""
        skip = shutil.ignore_patterns("secrets", ".env")
        shutil.copytree(ROOT / "deploy", self.place, ignore=skip)
        self._run([str(self.place / "prepare.sh"), str(self.home)])
        said = (self.place / ".env").read_text()
        for name, value in (("UID", USER), ("GID", USER), ("IMAGE", IMAGE), ("HOST", "machine")):
            said = "".join(
                f"ARL_{name}={value}\n" if line.startswith(f"ARL_{name}=") else line
                for line in said.splitlines(keepends=True)
            )
        (self.place / ".env").write_text(said)
        database = self.place / "database"
        database.mkdir()
        (self.place / "postgres.sh").write_text(POSTGRES)
        (self.place / "site.pem").write_text(CERTIFICATE + KEY)
        with (self.place / "secrets" / "arl.env").open("a") as settings:
            settings.write(f"ARL_EGRESS_ALLOW_RANGES={RANGE}\n")
        for owned in (self.home, database, self.place / "secrets"):
            for path in (owned, *owned.rglob("*")):
                os.chown(path, USER, USER)
        (self.place / "override.yaml").write_text(yaml.safe_dump(_override(database)))

    def run(self, *argv: str, given: str = "") -> str:
        """Of docker compose; what it says on standard output."""
        files = ["-f", str(self.place / "compose.yaml"), "-f", str(self.place / "override.yaml")]
        return self._run([*self._command, *files, "-p", "arltest", *argv], given)

    def start(self) -> None:
        """All of it, until the server is well."""
        try:
            self.run("up", "-d")
            wait_until(self._is_well, "the server is well", 180.0)
        except AssertionError as error:
            error.add_note(self.run("logs", "--no-color", "--tail", "60"))
            raise

    def _is_well(self) -> bool:
        found = self.containers(**{"com.docker.compose.service": "server"})
        return bool(found) and "(healthy)" in found[0]["Status"]

    def arl(self, *argv: str) -> Any:
        """The command line against the server, as a person on that machine has it."""
        token = (self.place / "secrets" / "admin_token").read_text()
        program = [sys.executable, "-m", "controller.cli", *argv, "--json"]
        there = ["--server", "http://127.0.0.1:8420", "--token", token]
        return json.loads(self._run(self._inside([*program, *there])))

    def metrics(self) -> str:
        """As Prometheus reads them."""
        token = (self.place / "secrets" / "prometheus_token").read_text()
        return self._read("http://127.0.0.1:8420/metrics", token)

    def asked_of_prometheus(self, path: str) -> Any:
        """What it answers, for whom it is in the network of its container."""
        (found,) = self.containers(**{"com.docker.compose.service": "prometheus"})
        address = found["NetworkSettings"]["Networks"]["arltest_default"]["IPAddress"]
        return json.loads(self._read(f"http://{address}:9090/api/v1/{path}"))["data"]

    def _read(self, url: str, token: str = "") -> str:
        code = (
            "import sys, urllib.request as u; r = u.Request(sys.argv[1], "
            "headers={'Authorization': f'Bearer {sys.argv[2]}'}); "
            "print(u.build_opener(u.ProxyHandler({})).open(r).read().decode())"
        )
        return self._run(self._inside([sys.executable, "-c", code, url, token]))

    def containers(self, **labels: str) -> list[dict[str, Any]]:
        """Everything that the engine has with these labels, ended ones too."""
        filters = {"label": [f"{name}={value}" for name, value in labels.items()]}
        found: list[dict[str, Any]] = self.engine.client().api.containers(
            all=True, filters=filters
        )
        return found

    def _inside(self, argv: list[str]) -> list[str]:
        return ["nsenter", f"--net=/run/netns/{self.engine.namespace}", *argv]

    def _run(self, argv: list[str], given: str = "") -> str:
        done = subprocess.run(
            argv,
            cwd=ROOT,
            env=self._environment,
            input=given,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{argv}: {done.stdout[-4000:]}{done.stderr[-4000:]}"
        return done.stdout


def _override(database: Path) -> dict[str, Any]:
    """What a machine without a registry has in the place of an image of PostgreSQL, and hosts
    that trials may reach."""
    binaries = find_binaries()
    assert binaries is not None
    postgres = {
        "image": IMAGE,
        "user": f"{USER}:{USER}",
        "entrypoint": ["/bin/sh", "/postgres.sh"],
        "environment": {
            "PATH": f"{binaries}:/usr/bin",
            "PGDATA": "/var/lib/postgresql/data",
            "PGHOST": "/tmp",
        },
        "volumes": [
            "/usr:/usr:ro",
            f"{database.parent}/postgres.sh:/postgres.sh:ro",
            f"{database}:/var/lib/postgresql/data",
        ],
    }
    site = {
        "image": IMAGE,
        "entrypoint": ["python3", "-c", SITE.replace("$", "$$")],
        "volumes": [f"{database.parent}/site.pem:/site.pem:ro"],
        "networks": {"internet": {"ipv4_address": PUBLIC, "aliases": ["good.test", "other.test"]}},
    }
    prometheus = {
        "image": IMAGE,
        "user": "0:0",
        "entrypoint": ["/usr/bin/prometheus"],
        "volumes": ["/usr:/usr:ro"],
    }
    return {
        "version": "3.8",
        "services": {
            "postgres": postgres,
            "prometheus": prometheus,
            "site": site,
            "worker": {"networks": {"default": {}, "internet": {}}},
        },
        "networks": {"internet": {"ipam": {"config": [{"subnet": RANGE}]}}},
    }


def build_image(engine: Engine, context: Path) -> None:
    """deploy/Dockerfile by deploy/image.sh, without an index and without apt."""
    environment = {**os.environ, "DOCKER_HOST": engine.host, "ARL_IMAGE_CONTEXT": str(context)}
    import_machine_image(BASE, host=engine.host, libraries=LIBRARIES, with_squid=True)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "-c", "constraints/cpu.txt"]
    subprocess.run([*pip, "-w", context / "wheels", f".[{EXTRAS}]"], cwd=ROOT, check=True)
    for own in (context / "wheels").glob("arl-*.whl"):
        own.unlink()
    arguments = {
        "BASE_IMAGE": BASE,
        "PACKAGES": "",
        "EXTRAS": EXTRAS,
        "PIP_OPTIONS": "--no-index --find-links=/opt/arl/wheels",
    }
    built = [part for k, v in arguments.items() for part in ("--build-arg", f"{k}={v}")]
    subprocess.run(
        [ROOT / "deploy" / "image.sh", IMAGE, "--quiet", "--network=none", *built],
        env=environment,
        check=True,
    )


@contextmanager
def deployed(engine: Engine) -> Iterator[Deployed]:
    """Prepared; gone with its containers and files afterwards."""
    with tempfile.TemporaryDirectory(prefix="arl-compose-") as folder:
        os.chmod(folder, 0o755)
        made = Deployed(engine, Path(folder))
        made.prepare()
        try:
            yield made
        finally:
            made.run("down", "--volumes", "--timeout", "5")
            _remove_attempts(made)


def _remove_attempts(made: Deployed) -> None:
    def left() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = made.engine.client().api.containers(
            all=True, filters={"label": "arl.owner"}
        )
        return found

    for container in left():
        made.engine.client().api.remove_container(container["Id"], force=True)
    wait_until(lambda: not left(), "no attempt is left", 30.0)
