"""Looks up what ARL is installed with among known vulnerabilities: pip-audit, then npm audit.

Exit status 1: something is vulnerable, or a package could not be looked up. A finding that does
not concern ARL is named in IGNORED with why.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Mapping
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts.advisories import OSV, missing_advisories

ROOT: Final = Path(__file__).resolve().parent.parent
PLACE: Final = ROOT / ".audit"
PIP_AUDIT: Final = "pip-audit==2.10.1"
IGNORED: Final[Mapping[str, str]] = {}
"""Advisory's id to the reason why it does not concern ARL."""


def audit_python() -> int:
    """Every package of .venv; one that the service does not know is a finding, too."""
    program = PLACE / "bin" / "pip-audit"
    if not program.exists():
        venv.create(PLACE, with_pip=True, clear=True)
        pip = [str(PLACE / "bin" / "python"), "-m", "pip", "install", "--quiet", PIP_AUDIT]
        subprocess.run(pip, check=True)
    installed = ["--path", sysconfig.get_path("purelib"), "--skip-editable"]
    service = ["--vulnerability-service", "osv", "--osv-url", OSV, "--progress-spinner", "off"]
    ignored = [part for found in IGNORED for part in ("--ignore-vuln", found)]
    return subprocess.run([program, *installed, *service, *ignored], check=False).returncode


def audit_dashboard() -> int:
    """What the dashboard is built from, build tools included."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # where make setup puts Node
    npm = shutil.which("npm", path=path)
    if npm is None:
        print("audit: there is no npm: `bash scripts/build_web.sh` installs it", file=sys.stderr)
        return 1
    argv = [npm, "audit", "--prefix", str(ROOT / "web")]
    return subprocess.run(argv, env={**os.environ, "PATH": path}, check=False).returncode


def main() -> int:
    if reason := missing_advisories():
        print(f"audit: {reason}", file=sys.stderr)
        return 1
    return max(audit_python(), audit_dashboard())


if __name__ == "__main__":
    raise SystemExit(main())
