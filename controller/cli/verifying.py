"""`arl verify`: whether the ledger, or a promotion, still says what it said."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from controller.cli.opening import heads_path, ledger_opened
from controller.cli.output import CHECK_FAILED, OK, print_json
from controller.cli.source import server_named
from controller.cli.text import plain
from controller.cli.verifying_promotions import verify_promotions
from controller.settings import read_settings
from ledger.artifacts import ArtifactStore
from ledger.errors import InvalidInput
from ledger.verify import Finding, verify_ledger

AsJson = Annotated[bool, typer.Option("--json", help="print one JSON object, and nothing else")]
NoArtifacts = Annotated[
    bool, typer.Option("--no-artifacts", help="leave stored files unread: quicker")
]
Promotions = Annotated[
    list[str] | None,
    typer.Option(
        "--promotion",
        metavar="PROMOTION|DIR|all",
        help="only this one: a model's name, NAME:NUMBER, NAME@ALIAS, or written evidence",
    ),
]
Key = Annotated[
    Path | None, typer.Option("--key", help="the public key that evidence must be signed with")
]


def verify(
    promotion: Promotions = None,
    key: Key = None,
    no_artifacts: NoArtifacts = False,
    as_json: AsJson = False,
) -> int:
    """Recompute every chain, row, budget sum and artifact digest, changing nothing.

    With --promotion: its entry, its study's chain, the scores, the artifact, every signature and
    the model card. A directory of `arl evidence` needs no ledger. Exit code 1 when something is
    wrong; the first wrong row of each chain is named. With --server (and a token with scope
    admin) the chains are recomputed here, the rest there.
    """
    if promotion:
        return verify_promotions(promotion, key, artifacts=not no_artifacts, as_json=as_json)
    if key is not None:
        raise InvalidInput("--key: it is for evidence: write --promotion DIR, too")

    def progress(part: str) -> None:
        if not as_json and sys.stderr.isatty():
            print(f"checking {plain(part)}", file=sys.stderr)

    check = _check_there if server_named() else _check_here
    where, findings = check(artifacts=not no_artifacts, progress=progress)
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


def _check_here(
    *, artifacts: bool, progress: Callable[[str], None]
) -> tuple[str, Sequence[Finding]]:
    settings = read_settings()
    with ledger_opened() as ledger:
        store = ArtifactStore(settings.home / "artifacts") if artifacts else None
        heads = heads_path(settings)
        return ledger.where, verify_ledger(ledger, store, heads_path=heads, progress=progress)


def _check_there(
    *, artifacts: bool, progress: Callable[[str], None]
) -> tuple[str, Sequence[Finding]]:
    """The chains are recomputed here; for rows, sums and files there is the server's word."""
    from controller.client import Client
    from controller.client.verifying import check_chains, check_there

    with Client() as client:
        found = list(check_chains(client.connection, progress))
        told = check_there(client.connection, artifacts=artifacts, progress=progress)
        known = {finding.where for finding in found}
        return client.connection.server, [*found, *(t for t in told if t.where not in known)]
