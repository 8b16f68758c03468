"""Finds on a server what `naming` finds in the ledger here: promotions and candidates by name."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from controller.cli.text import plain
from controller.registry.checking import Checked
from controller.registry.names import (
    aliased,
    is_promotion_name,
    no_such_number,
    parted,
    read_number,
)
from ledger.chain_check import Finding
from ledger.errors import NotFound

if TYPE_CHECKING:
    from controller.client import Client


def find_position(client: "Client", name: str) -> tuple[str, int]:
    """A model and the number of one of its promotions. Raises NotFound."""
    model, mark, place = parted(name)
    found = client.model(model)
    if found.incumbent is None:
        raise NotFound(f"nothing was promoted as {plain(model)} yet")
    if not mark:
        return model, found.incumbent.seq
    if mark == "@" and not place[:1].isdigit():
        return model, aliased(model, place, {a.alias: a.promotion for a in found.aliases})
    number = read_number(place, "promotion")
    if number > found.incumbent.seq:
        raise no_such_number(model, number, found.incumbent.seq)
    return model, number


def find_candidate_id(client: "Client", name: str) -> str:
    """By id, that of a trial named by id or as STUDY/NUMBER, or what a promotion's name means.
    Raises NotFound."""
    if "/" in name:
        from controller.cli.server_source import ServerSource

        found = client.connection.get(ServerSource(client).trial_path(name))
        return str(found["candidate"])
    if is_promotion_name(name):
        return _promoted(client, name)
    for find in (_candidate, _promoted, _of_trial):
        try:
            return find(client, name)
        except NotFound:
            continue
    raise NotFound(
        f"no candidate, trial or promotion is called {plain(name)}: write a candidate's id, "
        "STUDY/NUMBER of one of its trials, or a model's name (NAME:NUMBER, NAME@ALIAS)"
    )


def checked_there(name: str, *, everything: bool) -> Iterator[Checked]:
    """What the server finds of a promotion, or of every one, when it reads all of it again."""
    from controller.client import Client

    with Client() as client:
        if everything:
            models = [found.model for found in client.models() if found.incumbent is not None]
            places = [(model, one.seq) for model in models for one in client.incumbents(model)]
        else:
            places = [find_position(client, name)]
        for place in places:
            found = client.check(*place)
            findings = [Finding(one.where, one.problem) for one in found.findings]
            signed = (found.signatures, found.key, found.key_is_known)
            yield Checked(found.promotion, findings, *signed)


def _candidate(client: "Client", name: str) -> str:
    return client.candidate(name).candidate


def _promoted(client: "Client", name: str) -> str:
    return client.incumbent(*find_position(client, name)).candidate


def _of_trial(client: "Client", name: str) -> str:
    return client.trial(name).candidate
