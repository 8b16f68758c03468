"""What a user calls a promotion: NAME, NAME:NUMBER or NAME@ALIAS."""

import re
from typing import Final

from controller.documents.plain_text import plain
from ledger import reads
from ledger.database import ReadSession
from ledger.errors import InvalidInput, NotFound
from ledger.records import Incumbent
from ledger.registry_reads import get_pointer, latest_alias

ALIAS: Final = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,63}")
LARGEST: Final = 2**31 - 1
LONGEST_NOTE: Final = 2000


def find_promotion(session: ReadSession, name: str) -> Incumbent:
    """One position of a model's pointer: the present one of a bare name. Raises NotFound."""
    if "\0" in name:
        raise NotFound("nothing is named with a zero byte")
    if "@" in name:
        model, _, alias = name.partition("@")
        found = latest_alias(session, model, alias)
        if found is None or found.promotion is None:
            raise NotFound(
                f"model {plain(model)} has no alias {plain(alias)}: `arl models show "
                f"{plain(model)}` lists them"
            )
        return get_pointer(session, model, found.promotion)
    model, colon, number = name.rpartition(":")
    if colon:
        return get_pointer(session, model, read_number(number, "promotion"))
    latest = reads.latest_incumbent(session, name)
    if latest is None:
        raise NotFound(f"nothing was promoted as {plain(name)} yet: `arl models` lists the models")
    return latest


def read_number(text: str, what: str) -> int:
    """A position in a model's history, from 1. Raises InvalidInput."""
    if not (text.isascii() and text.isdecimal()) or not 0 < int(text[:12]) <= LARGEST:
        raise InvalidInput(f"{what}: {plain(text)!r}: write a promotion's number, from 1")
    return int(text)


def check_alias(alias: str) -> str:
    """Raises InvalidInput."""
    if ALIAS.fullmatch(alias) is None:
        raise InvalidInput(
            f"alias: {plain(alias)!r}: write a letter and up to 63 letters, digits, dots, dashes "
            "or underscores, like production"
        )
    return alias


def check_note(note: str) -> str:
    """Raises InvalidInput."""
    if len(note) > LONGEST_NOTE:
        raise InvalidInput(f"note: {len(note)} characters: write at most {LONGEST_NOTE}")
    if "\0" in note or not _is_text(note):
        raise InvalidInput("note: it holds what no text does: a zero byte or half a character")
    return note


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
