"""`arl verify`: whether the ledger still says what it said."""

import sys
from typing import Annotated

import typer

from controller.cli.opening import heads_path, ledger_opened
from controller.cli.output import CHECK_FAILED, OK, print_json
from controller.cli.text import plain
from controller.settings import read_settings
from ledger.artifacts import ArtifactStore
from ledger.verify import verify_ledger

AsJson = Annotated[bool, typer.Option("--json", help="print one JSON object, and nothing else")]
NoArtifacts = Annotated[
    bool, typer.Option("--no-artifacts", help="leave stored files unread: quicker")
]


def verify(no_artifacts: NoArtifacts = False, as_json: AsJson = False) -> int:
    """Recompute every chain, row, budget sum and artifact digest, changing nothing.

    Exit code 1 when something is wrong; the first wrong row of each chain is named.
    """
    settings = read_settings()

    def progress(part: str) -> None:
        if not as_json and sys.stderr.isatty():
            print(f"checking {plain(part)}", file=sys.stderr)

    with ledger_opened() as ledger:
        store = None if no_artifacts else ArtifactStore(settings.home / "artifacts")
        findings = verify_ledger(ledger, store, heads_path=heads_path(settings), progress=progress)
        where = ledger.where
    if as_json:
        print_json(
            {
                "ok": not findings,
                "ledger": where,
                "findings": [{"where": f.where, "problem": f.problem} for f in findings],
            }
        )
    elif findings:
        for finding in findings:
            print(f"wrong: {plain(finding.where)}: {plain(finding.problem)}")
    else:
        checked = "chains, rows and sums" if no_artifacts else "chains, rows, sums and artifacts"
        print(f"{plain(where)}: {checked} are as they were written")
    return CHECK_FAILED if findings else OK
