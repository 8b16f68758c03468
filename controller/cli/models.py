"""`arl models`: who has which model's pointer, what names it, and moving both."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Final

import typer

from controller.cli.model_source import Document, ModelSource, model_source_opened
from controller.cli.output import OK, console, print_json, table
from controller.cli.show_study import listed
from controller.cli.text import clipped, plain
from controller.registry.names import aliased, check_alias, check_new_note, check_note, read_number
from ledger.errors import InvalidInput, NotFound
from ledger.records import Json

NONE: Final = "none"


class Action(StrEnum):
    LIST = "list"
    SHOW = "show"
    ALIAS = "alias"
    ROLLBACK = "rollback"
    NOTE = "note"


_WORDS: Final[Mapping[Action, tuple[int, str]]] = {
    Action.LIST: (0, "arl models"),
    Action.SHOW: (1, "arl models show NAME"),
    Action.ALIAS: (3, "arl models alias NAME ALIAS NUMBER (or @ALIAS, or none)"),
    Action.ROLLBACK: (2, "arl models rollback NAME NUMBER (or @ALIAS)"),
    Action.NOTE: (2, 'arl models note NAME NUMBER (or @ALIAS) --note "what is to be remembered"'),
}

What = Annotated[
    Action,
    typer.Argument(metavar="[list|show|alias|rollback|note]", help="what to do; default: list"),
]
Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[NAME] [ALIAS] [NUMBER|@ALIAS|none]", help="a model, and what it takes"
    ),
]
Expect = Annotated[
    str | None,
    typer.Option("--expect", help="the number it has to have now, or none; default: as found"),
]
Note = Annotated[str, typer.Option("--note", help="why, for those who look later")]
AsJson = Annotated[bool, typer.Option("--json", help="print one JSON object, and nothing else")]


def models(
    action: What = Action.LIST,
    words: Words = None,
    expect: Expect = None,
    note: Note = "",
    as_json: AsJson = False,
) -> int:
    """List models, show one, let an alias name a promotion, roll back, write something down.

    `arl models show NAME`, `arl models alias NAME production 3` (`none` takes it away), `arl
    models rollback NAME 2`, `arl models note NAME 3 --note TEXT`. Of two changes at once one is
    made, and the other is told.
    """
    given = list(words or [])
    count, example = _WORDS[action]
    if len(given) != count:
        raise InvalidInput(f"models {action}: write `{example}`")
    check_note(note)
    with model_source_opened() as source:
        if action is Action.LIST:
            return _list(source, as_json=as_json)
        if action is Action.SHOW:
            return _show(source, given[0], as_json=as_json)
        if action is Action.ALIAS:
            document = _alias(source, given, expect, note)
        elif action is Action.NOTE:
            number = _position(source, given[0], given[1])
            document = source.add_note(given[0], number, check_new_note(note))
        else:
            document = _roll_back(source, given, expect, note)
    _tell(action, given, document, as_json=as_json)
    return OK


def _tell(action: Action, given: Sequence[str], document: Document, *, as_json: bool) -> None:
    if as_json:
        print_json(document)
    elif action is Action.ALIAS:
        what = document["promotion"]
        print(f"{plain(given[0])}@{plain(given[1])}: {'nothing' if what is None else what} now")
    elif action is Action.NOTE:
        print(f"{plain(given[0])}:{document['seq']}: noted")
    else:
        now, candidate = document["seq"], plain(str(document["candidate"]))
        was = document["rolled_back_to"]
        print(
            f"{plain(given[0])}: number {now} is candidate {candidate} again, as number {was} was"
        )


def _alias(source: ModelSource, given: Sequence[str], expect: str | None, note: str) -> Document:
    model, alias, number = given
    check_alias(alias)
    promotion = None if number == NONE else _position(source, model, number)
    expected = None
    if expect is not None:
        expected = _number_or_none(expect, "--expect")
    else:
        for found in listed(source.model(model), "aliases"):
            if found["alias"] == alias and isinstance(found["promotion"], int):
                expected = found["promotion"]
    made = source.set_alias(model, alias, promotion, expected, note)
    return {"model": model, "alias": made["alias"], "promotion": made["promotion"], "note": note}


def _roll_back(
    source: ModelSource, given: Sequence[str], expect: str | None, note: str
) -> Document:
    model, number = given
    to = _position(source, model, number)
    if expect is not None:
        expected: Json = read_number(expect, "--expect")
    else:
        incumbent = source.model(model)["incumbent"]
        expected = incumbent.get("seq") if isinstance(incumbent, Mapping) else None
    if not isinstance(expected, int):
        raise NotFound(f"nothing was promoted as {plain(model)} yet, so there is no way back")
    return source.roll_back(model, to, expected, note)


def _position(source: ModelSource, model: str, word: str) -> int:
    """A promotion of the model by its number, or by `@ALIAS`. Raises InvalidInput, NotFound."""
    if not word.startswith("@"):
        return read_number(word, "NUMBER")
    named: dict[str, int | None] = {}
    for found in listed(source.model(model), "aliases"):
        at = found["promotion"]
        named[str(found["alias"])] = at if isinstance(at, int) else None
    return aliased(model, word[1:], named)


def _number_or_none(text: str, what: str) -> int | None:
    return None if text == NONE else read_number(text, what)


def _list(source: ModelSource, *, as_json: bool) -> int:
    found = source.models()
    if as_json:
        print_json({"models": list(found)})
        return OK
    if not found:
        print("no models yet: `promotion: {model: NAME}` in a study file promotes to one")
        return OK
    rows = [
        (
            plain(str(model["model"])),
            *_held(model["incumbent"]),
            _aliases(model),
            str(model["awaiting"] or ""),
        )
        for model in found
    ]
    columns = ("model", ">number", "candidate", "study", "since", "aliases", ">awaits approval")
    console().print(table(*columns, rows=rows))
    return OK


def _held(incumbent: Json) -> tuple[str, str, str, str]:
    if not isinstance(incumbent, Mapping):
        return "-", "-", "-", "-"
    candidate, study = plain(str(incumbent["candidate"])), plain(str(incumbent["study"]))
    return str(incumbent["seq"]), candidate, study, str(incumbent["at"])[:19]


def _aliases(model: Document) -> str:
    return " ".join(
        f"{plain(str(alias['alias']))}={alias['promotion']}" for alias in listed(model, "aliases")
    )


def _show(source: ModelSource, model: str, *, as_json: bool) -> int:
    document = source.model(model)
    history: list[Json] = list(source.positions(model))
    document["history"] = history
    if as_json:
        print_json(document)
        return OK
    print(f"model {plain(model)}  {_aliases(document) or 'no aliases'}")
    rows = []
    for found in listed(document, "history"):
        back, signed = found["rolled_back_to"], found["signature"]
        key = str(signed["key"])[:12] if isinstance(signed, Mapping) else "not signed"
        row = (
            str(found["seq"]),
            plain(str(found["candidate"])),
            "promoted" if back is None else f"back to {back}",
            clipped(str(found["approver"]), 30),
            str(found["at"])[:19],
            key,
            clipped(str(found["note"]), 40),
        )
        rows.append(row)
    columns = (">number", "candidate", "how", "by", "at (UTC)", "key", "note")
    console().print(table(*columns, rows=rows))
    for found in listed(document, "history"):
        for note in listed(found, "notes"):
            said = clipped(str(note["note"]), 200)
            who, at = plain(str(note["actor"])), str(note["at"])[:19]
            print(f"  {found['seq']}, {at}, {who}: {said}")
    return OK
