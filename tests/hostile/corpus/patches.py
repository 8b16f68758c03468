"""Attacks by a patch's paths and modes: they wait for the part that applies patches.

Until then no patch is applied, so none of these can be tried; docs/hostile.md lists them.
"""

from typing import Final

WAITING: Final = {
    "patch-edits-the-bundle": "edits, deletes or renames a file of the evaluator",
    "patch-dot-dot": "a path with .. that leaves the source",
    "patch-absolute": "an absolute path",
    "patch-quoted": "a quoted path with escapes that other tools read differently",
    "patch-rename": "a rename of a mutable file over a frozen one",
    "patch-mode": "a change of mode, a link, a submodule, a binary",
    "patch-git-directory": "a path below .git, whose hooks somebody would run",
    "patch-invisible": "bidirectional, zero-width and control characters",
    "patch-without-required-calls": "a change that drops the calls which must survive",
    "patch-fuzz": "hunks with wrong counts and contexts that fit elsewhere",
}
