"""A small image with a real Python, made of this machine's files: tests have no registry."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

PYTHON: Final = "/usr/local/bin/python3"
WHEELS: Final = "/opt/wheels"
MARKER: Final = "arl-image-marker"
"""A package that only images have which were built with requirements that name it."""
MARKER_VERSION: Final = "1.2.3"

_PROGRAMS: Final = (
    *("sh", "cat", "chmod", "chown", "cp", "cut", "dd", "env", "false", "find", "grep", "head"),
    *("id", "kill", "ln", "ls", "mkdir", "mv", "rm", "sed", "sha256sum", "sleep", "sort", "stat"),
    *("tail", "touch", "tr", "true", "uname", "wc", "yes", "setsid", "timeout", "basename"),
)
_LEFT_OUT: Final = (
    *("site-packages", "dist-packages", "test", "__pycache__", "idlelib", "tkinter"),
    *("config-*", "*.a"),
)
_LINKS: Final = {"bin": "usr/bin", "lib": "usr/lib", "lib64": "usr/lib64"}
_FOLDERS: Final = (
    *("usr/bin", "usr/lib", "usr/lib64", "usr/local/bin", "usr/local/lib", "etc", "proc", "sys"),
    *("dev", "run", "sbin", "var/tmp", "home", "opt/wheels"),
)
_LIBRARY: Final = re.compile(r"^\s*(?:\S+ => )?(/\S+) \(0x", re.MULTILINE)


def import_machine_image(
    tag: str,
    packages: Iterable[Path] = (),
    *,
    host: str | None = None,
    libraries: Iterable[str] = (),
    with_squid: bool = False,
) -> str:
    """Make the image `tag` in the engine at `host`, or of DOCKER_HOST, with these files and
    directories among its Python's packages; its id. `libraries`: further ones of this machine,
    by the beginnings of their names."""
    with tempfile.TemporaryDirectory(prefix="arl-image-") as folder:
        root = Path(folder, "root")
        _lay_out(root)
        packages = list(packages)
        _copy_libraries_of(packages, root)
        for name in libraries:
            _copy_library(root, name)
        if with_squid:
            _lay_out_squid(root)
        archive = Path(folder, "root.tar")
        with tarfile.open(archive, "w") as tar:
            tar.add(root, arcname=".", filter=_as_root)
            place = next(root.glob("usr/**/site-packages")).relative_to(root)
            for package in packages:
                tar.add(package, arcname=str(place / package.name), filter=_as_root)
        imported = subprocess.run(
            ["docker", "import", "-c", "ENV PATH=/usr/local/bin:/usr/bin:/bin", archive, tag],
            env={**os.environ, **({} if host is None else {"DOCKER_HOST": host})},
            capture_output=True,
            text=True,
            check=True,
        )
    return imported.stdout.strip()


def _lay_out(root: Path) -> None:
    for folder in _FOLDERS:
        (root / folder).mkdir(parents=True)
    for name, place in _LINKS.items():
        (root / name).symlink_to(place)
    (root / "tmp").mkdir()
    (root / "tmp").chmod(0o1777)
    (root / "etc" / "passwd").write_text("root:x:0:0::/:/bin/sh\n")
    (root / "etc" / "group").write_text("root:x:0:\n")
    wanted = [*map(_found, _PROGRAMS), *_lay_out_python(root)]
    for path in _libraries(wanted):
        # What is not where the loader looks by itself comes where it does.
        place = path if path.startswith(("/lib", "/usr/lib")) else f"/usr/lib/{Path(path).name}"
        _copy(Path(path), root / place.lstrip("/"))
    for name in _PROGRAMS:
        _copy(Path(_found(name)), root / "usr" / "bin" / name)
    _copy(Path(_found("docker-init")), root / "usr" / "bin" / "tini")
    write_wheel(root / WHEELS.lstrip("/"), MARKER, MARKER_VERSION)


def _lay_out_squid(root: Path) -> None:
    """As its package does, with the user that it asks for whoever runs it."""
    squid, unlinkd = _found("squid"), "/usr/lib/squid/unlinkd"
    for path in (*_libraries([squid, unlinkd]), unlinkd):
        _copy(Path(path), root / path.lstrip("/"))
    _copy(Path(squid), root / "usr" / "sbin" / "squid")
    for folder in ("usr/share/squid", "usr/share/squid-langpack", "etc/squid"):
        shutil.copytree(Path("/", folder), root / folder)
    for file, line in (("passwd", "proxy:x:13:13::/:/bin/false"), ("group", "proxy:x:13:")):
        with (root / "etc" / file).open("a") as known:
            known.write(f"{line}\n")


def _copy_library(root: Path, name: str) -> None:
    known = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    found = re.search(rf"^\s*({re.escape(name)}\S*) .*=> (/\S+)$", known, re.MULTILINE)
    assert found is not None, f"this machine has no {name}"
    _copy(Path(found[2]), root / "usr" / "lib" / found[1])


def _lay_out_python(root: Path) -> list[str]:
    """The interpreter, its standard library and pip; the files whose libraries it needs."""
    executable = os.path.realpath(sys.executable)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    prefix = root / ("usr" if sys.base_prefix == "/usr" else "usr/local")
    library = prefix / "lib" / version
    _copy(Path(executable), prefix / "bin" / version)
    if not (root / PYTHON.lstrip("/")).exists():
        (root / PYTHON.lstrip("/")).symlink_to(f"/{(prefix / 'bin' / version).relative_to(root)}")
    ignore = shutil.ignore_patterns(*_LEFT_OUT)
    shutil.copytree(sysconfig.get_path("stdlib"), library, ignore=ignore, symlinks=True)
    (prefix / "lib" / version / "site-packages").mkdir(exist_ok=True)
    packages = Path(sysconfig.get_path("purelib"))
    for found in (packages / "pip", *packages.glob("pip-*.dist-info")):
        shutil.copytree(found, library / found.name, ignore=shutil.ignore_patterns("__pycache__"))
    return [executable, *map(str, (library / "lib-dynload").glob("*.so"))]


def _found(name: str) -> str:
    path = shutil.which(name, path="/usr/bin:/bin:/usr/sbin:/sbin")
    assert path is not None, f"this machine has no {name}"
    return os.path.realpath(path)


def _libraries(files: Iterable[str]) -> set[str]:
    """The shared libraries that they are linked with, the loader included."""
    told = subprocess.run(["ldd", *files], capture_output=True, text=True, check=False).stdout
    return {os.path.normpath(path) for path in _LIBRARY.findall(told)}


def _copy_libraries_of(packages: Iterable[Path], root: Path) -> None:
    """The system's own that their compiled modules are linked with."""
    compiled = [str(p) for package in packages for p in package.rglob("*.so*") if p.is_file()]
    for path in _libraries(compiled):
        if path.startswith(("/lib", "/usr/lib")):
            _copy(Path(path), root / path.lstrip("/"))


def _copy(source: Path, place: Path) -> None:
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(os.path.realpath(source), place)


def _as_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    member.mode |= 0o755 if member.isdir() else 0o444
    return member


def write_wheel(folder: Path, name: str, version: str) -> Path:
    """The smallest wheel that pip installs: one module with one number."""
    module = name.replace("-", "_")
    info = f"{module}-{version}.dist-info"
    path = folder / f"{module}-{version}-py3-none-any.whl"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    tags = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files = {
        f"{module}.py": f"VERSION = {version!r}\n",
        f"{info}/METADATA": metadata,
        f"{info}/WHEEL": tags,
    }
    record = "".join(f"{file},,\n" for file in (*files, f"{info}/RECORD"))
    with zipfile.ZipFile(path, "w") as wheel:
        for file, text in {**files, f"{info}/RECORD": record}.items():
            wheel.writestr(file, text)
    return path
