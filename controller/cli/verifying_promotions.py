"""`arl verify --promotion`: whether a promotion, or evidence of one, still says what it said."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from controller.cli.opening import ledger_opened
from controller.cli.output import CHECK_FAILED, OK, print_json
from controller.cli.source import server_named
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

ALL: Final = "all"


def verify_promotions(
    names: Sequence[str], key: Path | None, *, artifacts: bool, as_json: bool
) -> int:
    """Tell of each; the exit code. Raises InvalidInput for one that is checked elsewhere only."""
    checked = [found for name in names for found in _checked(name, key, artifacts=artifacts)]
    return _tell(checked, as_json=as_json)


def _checked(name: str, key: Path | None, *, artifacts: bool) -> Iterator[Checked]:
    directory = Path(name)
    if (directory / PROMOTION).is_file():
        yield check_directory(directory, _known_keys(), _read_key(key))
        return
    if key is not None:
        raise InvalidInput(f"--key: {plain(name)} is no directory of evidence; leave --key out")
    if server_named():
        from controller.cli.server_promotions import checked_there

        if not artifacts:
            raise InvalidInput("--no-artifacts: a server checks a promotion whole; leave it out")
        yield from checked_there(name, everything=name == ALL)
        return
    settings = read_settings()
    with ledger_opened() as ledger:
        store = ArtifactStore(settings.home / "artifacts") if artifacts else None
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


def _tell(checked: list[Checked], *, as_json: bool) -> int:
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
