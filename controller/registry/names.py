"""What a user calls a promotion: NAME, NAME:NUMBER, NAME@NUMBER or NAME@ALIAS."""

import re
from collections.abc import Mapping
from typing import Final

from controller.documents.plain_text import plain
from ledger import reads
from ledger.database import ReadSession
from ledger.errors import InvalidInput, NotFound
from ledger.records import Incumbent
from ledger.registry_reads import get_pointer, list_aliases

ALIAS: Final = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,63}")
LARGEST: Final = 2**31 - 1
LONGEST_NOTE: Final = 2000


def is_promotion_name(word: str) -> bool:
    """Whether it can be nothing but a promotion's: no id and no study's name has these."""
    return "/" not in word and ("@" in word or ":" in word)


def find_promotion(session: ReadSession, name: str) -> Incumbent:
    """One position of a model's pointer: the present one of a bare name. Raises NotFound."""
    if "\0" in name:
        raise NotFound("nothing is named with a zero byte")
    model, mark, place = parted(name)
    latest = reads.latest_incumbent(session, model)
    if latest is None:
        raise NotFound(
            f"nothing was promoted as {plain(model)} yet: `arl models` lists the models"
        )
    if not mark:
        return latest
    if mark == "@" and not place[:1].isdigit():
        aliases = list_aliases(session, model)
        return get_pointer(
            session, model, aliased(model, place, {a.alias: a.promotion for a in aliases})
        )
    number = read_number(place, "promotion")
    if number > latest.seq:
        raise no_such_number(model, number, latest.seq)
    return get_pointer(session, model, number)


def parted(name: str) -> tuple[str, str, str]:
    """A model's name, `@`, `:` or nothing, and the alias or number behind it."""
    for mark in "@:":
        if mark in name:
            return name.partition(mark)
    return name, "", ""


def aliased(model: str, alias: str, aliases: Mapping[str, int | None]) -> int:
    """The promotion that an alias names, of those that there are. Raises NotFound."""
    found = aliases.get(alias)
    if found is None:
        known = ", ".join(sorted(plain(one) for one, at in aliases.items() if at is not None))
        raise NotFound(
            f"model {plain(model)} has no alias {plain(alias)!r}; it has {known or 'none'} (`arl "
            f"models show {plain(model)}`)"
        )
    return found


def no_such_number(model: str, number: int, latest: int) -> NotFound:
    return NotFound(
        f"model {plain(model)} has no promotion number {number}; it has promotions 1 to {latest}"
    )


def read_number(text: str, what: str) -> int:
    """A position in a model's history, from 1. Raises InvalidInput."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= len(str(LARGEST))
    if not is_number or not 0 < int(text) <= LARGEST:
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


def check_new_note(note: str) -> str:
    """One that is a change of its own has to say something. Raises InvalidInput."""
    if not note.strip():
        raise InvalidInput("note: it is empty: write what is to be remembered of the promotion")
    return check_note(note)


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
