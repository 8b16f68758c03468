"""`arl doctor`: what works on this machine, and what to do about what does not."""

import os
import platform
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final

import typer

from controller.cli.doctor_places import Check, target_checks, version_of
from controller.cli.output import CHECK_FAILED, OK, print_json
from controller.cli.text import plain, size
from controller.registry.keys import has_libraries
from controller.settings import Settings, read_settings
from controller.witness import check_not_restored
from ledger.errors import ArlError, InvalidInput, LedgerRestored

AsJson = Annotated[bool, typer.Option("--json", help="print one JSON object, and nothing else")]

_TRAINING: Final = ("torch", "transformers", "trl", "peft", "accelerate", "datasets")


TargetName = Annotated[
    str | None,
    typer.Option("--target", metavar="NAME", help="try this target instead, by its promises"),
]
StudyFile = Annotated[
    Path | None,
    typer.Option("--study", metavar="FILE", help="take the target section of a study file"),
]
Image = Annotated[str | None, typer.Option(help="docker, ray: what attempts run in")]
Runtime = Annotated[str | None, typer.Option(help="docker: a runtime the engine knows")]
Url = Annotated[str | None, typer.Option(help="http: where the service is")]
Secret = Annotated[
    str | None, typer.Option(help="http: ARL's environment variable that holds the secret")
]
Address = Annotated[str | None, typer.Option(help="ray: of the cluster")]
Storage = Annotated[str | None, typer.Option(help="ray: what every node reaches")]
SandboxName = Annotated[
    str | None, typer.Option("--sandbox", help="ray: what runs an attempt on its node")
]
PythonName = Annotated[
    str | None, typer.Option("--python", help="the interpreter where attempts run")
]
Only = Annotated[
    list[str] | None,
    typer.Option("--only", metavar="CHECK", help="this check alone; may be given again"),
]


def doctor(
    *,
    target: TargetName = None,
    study: StudyFile = None,
    image: Image = None,
    runtime: Runtime = None,
    url: Url = None,
    secret: Secret = None,
    address: Address = None,
    storage: Storage = None,
    sandbox: SandboxName = None,
    python: PythonName = None,
    only: Only = None,
    as_json: AsJson = False,
) -> int:
    """Look at the ledger, the disk, the supervisor, Python, GPUs, sandboxes and libraries, and
    say which target `auto` is. Exit code 1 when something that ARL needs does not work.

    With --target or --study, try that target: some forty small attempts check that what it
    promises holds (limits, network, files, processes, clock, adoption, what is left). Exit code
    1 when a promise does not hold. What a target does not promise is told in its own words.
    """
    given = {
        "image": image,
        "runtime": runtime,
        "url": url,
        "secret": secret,
        "address": address,
        "storage": storage,
        "sandbox": sandbox,
    }
    settings = read_settings()
    if target is not None or study is not None:
        from controller.cli.doctor_target import python_of, try_target
        from controller.cli.target_options import chosen_target

        spec = chosen_target(target, study, given, settings)
        chosen = python_of(python, spec)
        return try_target(spec, settings, python=chosen, only=only or (), as_json=as_json)
    extra = [f"--{name}" for name, value in {**given, "python": python}.items() if value]
    if extra or only:
        raise InvalidInput(f"{(extra or ['--only'])[0]}: only with --target or --study")
    return _look(settings, as_json=as_json)


def _look(settings: Settings, *, as_json: bool) -> int:
    checks = list(_checks(settings))
    failed = [check for check in checks if check.needed and not check.ok]
    if as_json:
        print_json(
            {
                "ok": not failed,
                "checks": [
                    {
                        "name": check.name,
                        "ok": check.ok,
                        "needed": check.needed,
                        "found": check.found,
                        "remedy": check.remedy or None,
                    }
                    for check in checks
                ],
            }
        )
        return CHECK_FAILED if failed else OK
    for check in checks:
        mark = "ok  " if check.ok else ("FAIL" if check.needed else "no  ")
        print(f"{mark} {check.name}: {plain(check.found)}")
        if check.remedy:
            print(f"       {plain(check.remedy)}")
    return CHECK_FAILED if failed else OK


def _checks(settings: Settings) -> Iterator[Check]:
    yield _python()
    yield _ledger(settings)
    yield from disk_checks(settings)
    yield _supervisor(settings)
    yield _training()
    yield _signing()
    yield _postgres()
    yield _gpus(settings)
    yield from target_checks(settings)
    yield Check(
        "resources",
        True,
        f"{settings.cpus:g} processors and {size(settings.memory_bytes)} for trials "
        "(ARL_CPUS and ARL_MEMORY_BYTES change that)",
    )


def _python() -> Check:
    found = f"{platform.python_implementation()} {platform.python_version()} at {sys.executable}"
    return Check("python", sys.version_info >= (3, 11), found, needed=True)


def _ledger(settings: Settings) -> Check:
    from ledger.database import ledger_url, open_ledger

    url = ledger_url(settings.ledger_url)
    if url.get_backend_name() == "sqlite" and not Path(url.database or "").exists():
        return Check("ledger", True, f"none yet at {url.database}: the first `arl run` makes it")
    try:
        ledger = open_ledger(settings.ledger_url, create=False)
    except ArlError as error:
        return Check("ledger", False, str(error), "`arl db check` and `arl db upgrade` help", True)
    try:
        check_not_restored(ledger, settings)
    except LedgerRestored as error:
        return Check("ledger", False, str(error), needed=True)
    finally:
        ledger.close()
    return Check("ledger", True, f"{ledger.where}, {ledger.id}", needed=True)


def disk_checks(settings: Settings) -> Iterator[Check]:
    """The artifacts' disk, and the ledger's where it is another one."""
    for number, disk in enumerate(settings.disks()):
        name = "disk" if number == 0 else "disk of the ledger"
        writable = os.access(disk.place, os.W_OK)
        found = f"{size(disk.free_bytes)} free at {disk.place}"
        if not writable:
            remedy = "set ARL_HOME to a directory you may write"
            yield Check(name, False, f"{found}, which is not writable", remedy, True)
            continue
        found += f"; studies pause below {size(disk.min_free_bytes)} (ARL_DISK_MIN_FREE)"
        remedy = "free some space: `arl gc --dry-run` says what could go" if disk.is_low else ""
        yield Check(name, not disk.is_low, found, remedy, True)


def _supervisor(settings: Settings) -> Check:
    """Start one where attempts would run, or in a temporary place where there is no ledger."""
    from ledger.artifacts import ArtifactStore
    from targets.local_process import LocalProcessTarget
    from targets.supervisor_link import connect

    with tempfile.TemporaryDirectory(prefix="arl-doctor-") as spare:
        root = settings.home / "local"
        root = root if root.is_dir() else Path(spare)
        try:
            store = ArtifactStore(root.parent / "artifacts" if root.name == "local" else root)
            LocalProcessTarget(root, store, host=settings.host).close()  # makes its directories
            connection = connect(str(root))
        except (ArlError, OSError) as error:
            return Check("supervisor", False, str(error), "trials cannot run without it", True)
        pid = int(connection.hello["pid"])
        connection.close()
        if root == Path(spare):  # nobody will need this one
            os.kill(pid, signal.SIGTERM)
    return Check("supervisor", True, f"starts and answers (pid {pid})", needed=True)


def _training() -> Check:
    found = {name: version_of(name) for name in _TRAINING}
    missing = [name for name, version in found.items() if version is None]
    told = ", ".join(f"{name} {version or 'missing'}" for name, version in found.items())
    remedy = "program kind sft needs them: pip install 'arl[train]'" if missing else ""
    return Check("training libraries", not missing, told, remedy)


def _signing() -> Check:
    version = version_of("model-signing")
    if has_libraries():
        return Check("signing", True, f"model-signing {version}")
    remedy = "without them promotions stay unsigned: pip install 'arl[evidence]'"
    return Check("signing", False, "its libraries are missing", remedy)


def _postgres() -> Check:
    version = version_of("psycopg")
    if version is not None:
        return Check("postgresql driver", True, f"psycopg {version}")
    remedy = "only a PostgreSQL ledger needs it: pip install 'arl[postgres]'"
    return Check("postgresql driver", False, "missing", remedy)


def _gpus(settings: Settings) -> Check:
    if settings.gpu_ids:
        return Check("gpus", True, f"for trials: {', '.join(settings.gpu_ids)}")
    return Check("gpus", False, "none; trials run on processors")
