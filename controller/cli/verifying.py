"""`arl verify`: whether the ledger, or a promotion, still says what it said."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Final

import typer

from controller.cli.opening import heads_path, ledger_opened
from controller.cli.output import CHECK_FAILED, OK, print_json
from controller.cli.text import plain
from controller.registry.checking import Checked, check_directory, check_promotions
from controller.registry.making import PROMOTION
from controller.registry.names import find_promotion
from controller.settings import read_settings
from ledger.artifacts import ArtifactStore
from ledger.errors import InvalidInput, LedgerUnavailable
from ledger.reads import list_incumbents
from ledger.records import Json
from ledger.registry_reads import list_keys
from ledger.verify import verify_ledger

ALL: Final = "all"
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
    wrong; the first wrong row of each chain is named.
    """
    if promotion:
        checked = [found for name in promotion for found in _checked(name, key, no_artifacts)]
        return _tell_promotions(checked, as_json=as_json)
    if key is not None:
        raise InvalidInput("--key: it is for evidence: write --promotion DIR, too")
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
        checked_parts = "chains, rows and sums"
        checked_parts = checked_parts if no_artifacts else "chains, rows, sums and artifacts"
        print(f"{plain(where)}: {checked_parts} are as they were written")
    return CHECK_FAILED if findings else OK


def _checked(name: str, key: Path | None, no_artifacts: bool) -> Iterator[Checked]:
    directory = Path(name)
    if (directory / PROMOTION).is_file():
        yield check_directory(directory, _known_keys(), _read_key(key))
        return
    if key is not None:
        raise InvalidInput(f"--key: {plain(name)} is no directory of evidence; leave --key out")
    settings = read_settings()
    with ledger_opened() as ledger:
        store = None if no_artifacts else ArtifactStore(settings.home / "artifacts")
        with ledger.read() as session:
            pointers = list_incumbents(session) if name == ALL else [find_promotion(session, name)]
        yield from check_promotions(ledger, store, pointers)


def _known_keys() -> Mapping[str, str]:
    """Of the ledger here, where there is one."""
    with suppress(LedgerUnavailable), ledger_opened() as ledger, ledger.read() as session:
        return {key.id: key.public_key for key in list_keys(session)}
    return {}


def _read_key(key: Path | None) -> str | None:
    if key is None:
        return None
    try:
        return key.read_text(encoding="ascii")
    except (OSError, ValueError) as error:
        raise InvalidInput(f"--key {plain(str(key))}: cannot be read: {error}") from error


def _tell_promotions(checked: list[Checked], *, as_json: bool) -> int:
    findings = [finding for found in checked for finding in found.findings]
    if as_json:
        told: list[Json] = [
            {
                "promotion": found.name,
                "ok": not found.findings,
                "signatures": found.signatures,
                "key": found.key,
                "key_is_known": found.key_is_known,
            }
            for found in checked
        ]
        wrong: list[Json] = [{"where": f.where, "problem": f.problem} for f in findings]
        print_json({"ok": not findings, "promotions": told, "findings": wrong})
        return CHECK_FAILED if findings else OK
    for finding in findings:
        print(f"wrong: {plain(finding.where)}: {plain(finding.problem)}")
    for found in checked:
        if not found.findings:
            print(f"{plain(found.name)}: as it was promoted and signed{_by_whom(found)}")
    return CHECK_FAILED if findings else OK


def _by_whom(found: Checked) -> str:
    if found.key is None:
        return " (signatures were not read)"
    if found.key_is_known:
        return f" with key {found.key[:16]}…"
    return (
        f", with key {found.key}, which is not known here: ask who promoted it whether it is "
        "theirs (--key FILE)"
    )
