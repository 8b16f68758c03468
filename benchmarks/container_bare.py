"""Containers and sandboxes without ARL: the same programs, started and waited for by hand."""

import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final

from targets.registry import problem_of

if TYPE_CHECKING:
    from docker import DockerClient

SCRIPTS: Final = (":", "echo score=0.5 >/dev/null")
"""What a training and an evaluation do."""
IMAGE: Final = "arl-benchmark"
MARK: Final = "ARL_BENCHMARK_ENGINE"
"""Set for the run inside of a private engine, which must not ask for another."""
_PATIENCE_S: Final = 60.0
_LIBRARY = re.compile(r"(/\S+) \(0x")


def shell_image(client: "DockerClient") -> str:
    """Make an image of this machine's /bin/sh and what it is linked with, without any registry;
    its id."""
    linked = subprocess.run(["ldd", "/bin/sh"], capture_output=True, text=True, check=True).stdout
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for path in ("/bin/sh", *_LIBRARY.findall(linked)):
            # Under its own name, whatever links lead to it here.
            info = archive.gettarinfo(os.path.realpath(path), arcname=path.lstrip("/"))
            with open(path, "rb") as file:
                archive.addfile(info, file)
        for name in ("tmp", "proc", "sys", "dev", "etc"):
            directory = tarfile.TarInfo(name)
            directory.type, directory.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(directory)
    client.api.import_image_from_data(data.getvalue(), repository=IMAGE, tag="sh")
    found: str = client.images.get(f"{IMAGE}:sh").id
    return found


def container_pair_ms(client: "DockerClient", image: str, network: str) -> float:
    """Two containers, each created, started, waited for and removed."""
    started = time.perf_counter()
    for script in SCRIPTS:
        made = client.api.create_container(
            image,
            ["/bin/sh", "-c", script],
            host_config=client.api.create_host_config(network_mode=network),
        )
        client.api.start(made["Id"])
        status = client.api.wait(made["Id"], timeout=_PATIENCE_S)["StatusCode"]
        client.api.remove_container(made["Id"])
        if status != 0:
            raise RuntimeError(f"a bare container ended with status {status}")
    return (time.perf_counter() - started) * 1e3


def sandbox_pair_ms() -> float:
    """Two sandboxes of bubblewrap with this machine's /usr, no network and a /proc of their
    own."""
    system = [p for p in ("/bin", "/sbin", "/lib", "/lib32", "/lib64") if os.path.exists(p)]
    argv = [shutil.which("bwrap") or "bwrap", "--unshare-all", "--die-with-parent"]
    argv += ["--ro-bind", "/usr", "/usr", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]
    for path in system:
        if os.path.islink(path):
            argv += ["--symlink", os.readlink(path), path]
        else:
            argv += ["--ro-bind", path, path]
    started = time.perf_counter()
    for script in SCRIPTS:
        subprocess.run([*argv, "/bin/sh", "-c", script], check=True)
    return (time.perf_counter() - started) * 1e3


def pairs_per_s(pair: Callable[[], float], *, at_once: int, pairs: int) -> float:
    """Pairs a second with so many under way at once; the first of each is not counted."""
    with ThreadPoolExecutor(at_once) as pool:
        list(pool.map(lambda _: pair(), range(at_once)))
        started = time.perf_counter()
        list(pool.map(lambda _: pair(), range(pairs)))
        return pairs / (time.perf_counter() - started)


def docker_problem(module: str) -> str | None:
    """Why containers cannot be measured here; None when they can. Without DOCKER_HOST this process
    is replaced by `python -m MODULE` with the same arguments in a private engine of its own."""
    host = os.environ.get("DOCKER_HOST")
    if host is not None:
        return engine_problem(host) or problem_of("docker", {"engine": host})
    problem = private_engine_problem()
    if problem is None and MARK not in os.environ:
        argv = [str(engine_script()), sys.executable, "-m", module, *sys.argv[1:]]
        os.environ[MARK] = "1"
        sys.exit(subprocess.run(argv, check=False).returncode)
    return problem


def engine_problem(host: str) -> str | None:
    """Why containers cannot be measured with the engine at `host`; None when they can."""
    try:
        import docker
    except ImportError:
        return "the Python package docker is not installed: pip install 'arl[docker]'"
    try:
        client = docker.DockerClient(base_url=host, timeout=10)
        client.ping()
        client.close()
    except (docker.errors.DockerException, OSError) as error:
        return f"no engine answers at {host}: {error}"
    return None


def private_engine_problem() -> str | None:
    """Why none can be started here; None when one can."""
    if os.geteuid() != 0:
        return "a private engine needs root: run it as root, or set DOCKER_HOST"
    if shutil.which("dockerd") is None:
        return "dockerd is not installed: apt-get install docker.io, or set DOCKER_HOST"
    return None


def engine_script() -> Path:
    return Path(__file__).resolve().parents[1] / "scripts" / "docker_engine.sh"
