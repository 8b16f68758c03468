"""Attacks on the sandbox: what lies around a candidate, and running its code there."""

import hashlib
from pathlib import Path

from targets.bubblewrap import BubblewrapTarget
from tests.target_runs import Ended, log_of, python, run

HELD_OUT = "held-out answer 7f3a"


SCORER = """
import json, os
with open(os.environ["ARL_INPUTS"] + "/artifact/answer") as file:
    right = file.read().strip() == "right"
os.write(3, json.dumps({"metrics": {"score": float(right)}}).encode())
"""


def fingerprint_of(*roots: Path) -> str:
    """Of every file's path, mode and content below the roots."""
    digest = hashlib.sha256()
    for root in roots:
        for path in sorted([root, *root.rglob("*")]):
            status = path.lstat()
            digest.update(f"{path} {status.st_mode} {status.st_uid}".encode())
            if path.is_file() and not path.is_symlink():
                digest.update(path.read_bytes())
    return digest.hexdigest()


def attack(target: BubblewrapTarget, code: str, outside: dict[str, str], **more: object) -> Ended:
    """Run Python code with BASE, which holds everything outside, and `got_through`."""
    prelude = (
        f"import os, sys\nBASE = {outside['base']!r}\nHELD_OUT = {HELD_OUT!r}\n"
        "def got_through(what): print('ESCAPED', what, flush=True)\n"
    )
    base = Path(outside["base"])
    before = fingerprint_of(base / "artifacts", base / "ledger.db", base / "bundle")
    ended = run(target, python(prelude + code), **more)
    assert fingerprint_of(base / "artifacts", base / "ledger.db", base / "bundle") == before
    said = log_of(target, ended.handle)
    assert "ESCAPED" not in said, said
    assert HELD_OUT not in said
    return ended
