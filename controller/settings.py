"""The service's settings. The only place that reads the environment (prefix ARL_)."""

import ipaddress
import os
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from controller.disk_space import REMEDY, Disk, MinFree, parse_min_free, read_disks
from ledger.errors import InvalidInput


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    home: Path
    """Where artifacts, attempts, the supervisor and (by default) the ledger live."""
    ledger_url: str
    """What open_ledger takes: a path, by default below `home`, or a database URL."""
    host: str
    """This machine's name among workers: local attempts belong to a host."""
    cpus: float
    memory_bytes: int
    gpu_ids: tuple[str, ...]
    lease_s: float
    disk_min_free: MinFree
    """Free space, on the artifacts' disk and the ledger's, below which running studies pause."""
    docker_host: str | None = None
    """Of the engine that target docker uses; None: the usual socket of this machine."""
    own_image: str | None = None
    """The image that this ARL itself runs in, where it is a container; None: it is none."""
    auto_target: str | None = None
    """What target `auto` is here; None: the safest one that works."""
    http_allow_private: str | None = None
    """Which hosts with private addresses target http may reach: 1, 0 or a list. None: this
    machine only, since who runs ARL here may name it."""
    models_allow_private: str | None = None
    """Which model endpoints may have private addresses, see outbound_addresses; None: all may,
    since who runs ARL here named them. `arl serve` lets none through unless it is said."""
    notify_allow_private: str | None = None
    """Which webhooks may have private addresses; None: all may, since who runs ARL here named
    them. `arl serve` lets none through unless it is said."""
    public_url: str | None = None
    """Where people find this ARL's dashboard; webhooks are told a link to the study there."""
    http_trust_sandbox: str = ""
    """Which job services are believed that they sandbox attempts: 1 or a list of hosts."""
    egress_allow_ranges: str = ""
    """Address ranges that are not public and that attempts may reach all the same, where their
    study lists the host: separated by commas."""
    allow_unsandboxed_patches: bool = False
    """Whether code that a model wrote may run where nothing holds it."""
    sign_promotions: bool = True
    """Whether whoever drives a study signs what it promotes."""
    api_secrets: frozenset[str] = frozenset()
    """Which secrets studies that came over HTTP may send where: NAME@HOST each."""
    api_allow_local: bool = False
    """Whether a study that came over HTTP may run without a sandbox: its sender then has a shell
    here."""

    @property
    def ledger_file(self) -> Path | None:
        """The ledger, where it is a file of this machine."""
        from ledger.database import ledger_url  # here: `arl --help` reads settings, too

        url = ledger_url(self.ledger_url)
        return Path(url.database or "") if url.get_backend_name() == "sqlite" else None

    def disks(self) -> list[Disk]:
        """The file systems that ARL writes to, as they are now."""
        return read_disks(self.home, self.ledger_file, self.disk_min_free)

    @property
    def heads_path(self) -> Path:
        """Where the heads of the ledger's chains are remembered, outside the database."""
        return self.home / "heads.jsonl"

    @property
    def columns_folder(self) -> Path:
        """Where the server keeps what it computed of finished trials; may be deleted."""
        return self.home / "columns"


def read_settings(environment: Mapping[str, str] | None = None) -> Settings:
    """Settings from ARL_HOME, ARL_LEDGER, ARL_HOST, ARL_CPUS, ARL_MEMORY_BYTES, ARL_GPUS,
    ARL_LEASE_S, ARL_DISK_MIN_FREE, ARL_TARGET, ARL_DOCKER_HOST (or DOCKER_HOST), ARL_IMAGE,
    ARL_HTTP_ALLOW_PRIVATE, ARL_MODELS_ALLOW_PRIVATE, ARL_NOTIFY_ALLOW_PRIVATE, ARL_PUBLIC_URL,
    ARL_HTTP_TRUST_SANDBOX, ARL_EGRESS_ALLOW_RANGES, ARL_ALLOW_UNSANDBOXED_PATCHES,
    ARL_SIGN, ARL_API_SECRETS and ARL_API_ALLOW_LOCAL. Raises InvalidInput naming the variable."""
    env = os.environ if environment is None else environment
    log_format(env)  # refused before anything is done, not when the first line is written
    log_level(env)
    home = Path(env.get("ARL_HOME") or ".arl").absolute()
    gpus = env.get("ARL_GPUS")
    return Settings(
        home=home,
        # A path: in a URL some characters of one (?, %) mean something else.
        ledger_url=env.get("ARL_LEDGER") or str(home / "ledger.db"),
        host=env.get("ARL_HOST") or platform.node() or "localhost",
        cpus=_number(env, "ARL_CPUS", float(len(os.sched_getaffinity(0)))),
        memory_bytes=int(_number(env, "ARL_MEMORY_BYTES", float(_physical_memory()))),
        gpu_ids=_gpus_here() if gpus is None else _gpu_ids(gpus),
        lease_s=_number(env, "ARL_LEASE_S", 30.0),
        disk_min_free=_min_free(env),
        own_image=env.get("ARL_IMAGE") or None,
        auto_target=env.get("ARL_TARGET") or None,
        docker_host=env.get("ARL_DOCKER_HOST") or env.get("DOCKER_HOST") or None,
        http_allow_private=env.get("ARL_HTTP_ALLOW_PRIVATE") or None,
        models_allow_private=env.get("ARL_MODELS_ALLOW_PRIVATE") or None,
        notify_allow_private=env.get("ARL_NOTIFY_ALLOW_PRIVATE") or None,
        public_url=_address(env, "ARL_PUBLIC_URL"),
        http_trust_sandbox=env.get("ARL_HTTP_TRUST_SANDBOX", ""),
        egress_allow_ranges=_ranges(env, "ARL_EGRESS_ALLOW_RANGES"),
        allow_unsandboxed_patches=_flag(env, "ARL_ALLOW_UNSANDBOXED_PATCHES"),
        sign_promotions=env.get("ARL_SIGN") in (None, "") or _flag(env, "ARL_SIGN"),
        api_secrets=_secret_hosts(env.get("ARL_API_SECRETS", "")),
        api_allow_local=_flag(env, "ARL_API_ALLOW_LOCAL"),
    )


def server_address() -> str | None:
    """The server that ARL_SERVER names; None: the ledger here is meant."""
    return os.environ.get("ARL_SERVER") or None


def server_token() -> str | None:
    """The token for that server, from ARL_TOKEN."""
    return os.environ.get("ARL_TOKEN") or None


def set_variable(name: str, value: str, *, keep: bool = False) -> None:
    """Set a variable of this process and of those that it starts; with `keep` only where it is
    not set. For the command line, before anything read it."""
    if not (keep and name in os.environ):
        os.environ[name] = value


def model_server_environment() -> dict[str, str]:
    """What a model server that ARL starts inherits: everything but ARL's own variables, secrets
    above all, and what would give it other libraries than its own."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("ARL_") and name not in ("PYTHONPATH", "PYTHONHOME")
    }


def read_secret(name: str, environment: Mapping[str, str] | None = None) -> str:
    """The secret in the environment variable that a study names. Raises InvalidInput."""
    env = os.environ if environment is None else environment
    if re.fullmatch(r"ARL_SECRET_[A-Z0-9_]+", name) is None:
        # What stands there may be the secret itself: it is not repeated.
        raise InvalidInput(
            "secret: it is the name of a variable of ARL's environment, never the secret itself, "
            "and starts with ARL_SECRET_, so that a study cannot ask for any other: write one "
            "like ARL_SECRET_LLM, of capital letters, digits and _"
        )
    value = env.get(name)
    if not value:
        raise InvalidInput(f"secret {name!r}: ARL's environment has no such variable")
    return value


def _gpu_ids(text: str) -> tuple[str, ...]:
    found = tuple(name.strip() for name in text.split(",") if name.strip())
    twice = next((name for name in found if found.count(name) > 1), None)
    if twice is not None:
        raise InvalidInput(f"ARL_GPUS: {text!r}: {twice} stands there twice; name each GPU once")
    return found


def _address(env: Mapping[str, str], name: str) -> str | None:
    text = env.get(name, "").rstrip("/")
    if text and re.fullmatch(r"https?://[A-Za-z0-9.\[\]:-]+(/[A-Za-z0-9._~/-]*)?", text) is None:
        raise InvalidInput(f"{name}: {text!r}: write one like https://arl.example.org")
    return text or None


def _ranges(env: Mapping[str, str], name: str) -> str:
    text = env.get(name, "")
    for part in text.split(",") if text else ():
        try:
            ipaddress.ip_network(part.strip())
        except ValueError as error:
            raise InvalidInput(
                f"{name}: {error}: write address ranges like 10.20.0.0/16,fd00:1::/32"
            ) from error
    return text


def _secret_hosts(text: str) -> frozenset[str]:
    found = [part.strip() for part in text.split(",") if part.strip()]
    for part in found:
        if re.fullmatch(r"ARL_SECRET_[A-Z0-9_]+@[^@/\s]+", part) is None:
            raise InvalidInput(
                f"ARL_API_SECRETS: {part!r}: write ARL_SECRET_NAME@host, separated by commas"
            )
    return frozenset(found)


def _min_free(env: Mapping[str, str]) -> MinFree:
    if env.get("ARL_DISK_WATERMARK_BYTES"):
        raise InvalidInput(f"ARL_DISK_WATERMARK_BYTES: it is ARL_DISK_MIN_FREE now; {REMEDY}")
    text = env.get("ARL_DISK_MIN_FREE") or "64MiB"
    try:
        return parse_min_free(text)
    except ValueError as error:
        raise InvalidInput(f"ARL_DISK_MIN_FREE: {text!r}: {error}") from None


def _flag(env: Mapping[str, str], name: str) -> bool:
    text = env.get(name, "")
    if text not in ("", "0", "1"):
        raise InvalidInput(f"{name}: {text!r}: write 1 or 0")
    return text == "1"


def _number(env: Mapping[str, str], name: str, default: float) -> float:
    text = env.get(name)
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not value > 0:
        raise InvalidInput(f"{name}: {text!r}: must be a positive number")
    return value


def _physical_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _gpus_here() -> tuple[str, ...]:
    devices = Path("/proc/driver/nvidia/gpus")
    if not devices.is_dir():
        return ()
    return tuple(str(i) for i, _ in enumerate(sorted(devices.iterdir())))


def wants_debug(environment: Mapping[str, str] | None = None) -> bool:
    """Whether ARL_DEBUG asks for tracebacks; readable even when other settings are wrong."""
    env = os.environ if environment is None else environment
    return env.get("ARL_DEBUG", "") not in ("", "0")


def log_format(environment: Mapping[str, str] | None = None) -> str:
    """`text` or `json`, from ARL_LOG_FORMAT. Raises InvalidInput."""
    return _one_of(environment, "ARL_LOG_FORMAT", ("text", "json")) or "text"


LOG_LEVELS: Final[Mapping[str, int]] = {"debug": 10, "info": 20, "warning": 30, "error": 40}


def log_level(environment: Mapping[str, str] | None = None) -> int | None:
    """A level of Python's logging, from ARL_LOG_LEVEL; None: as the command has it.
    Raises InvalidInput."""
    found = _one_of(environment, "ARL_LOG_LEVEL", tuple(LOG_LEVELS))
    return None if found is None else LOG_LEVELS[found]


def _one_of(
    environment: Mapping[str, str] | None, name: str, allowed: Sequence[str]
) -> str | None:
    text = (os.environ if environment is None else environment).get(name) or None
    if text is not None and text.lower() not in allowed:
        raise InvalidInput(f"{name}: {text!r}: write {' or '.join(allowed)}")
    return None if text is None else text.lower()
