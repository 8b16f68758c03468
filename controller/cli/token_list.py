"""Access tokens for people, from their documents, whoever made them."""

from collections.abc import Mapping, Sequence

from controller.cli.output import console, table
from controller.cli.text import plain
from ledger.records import Json


def print_tokens(tokens: Sequence[Mapping[str, Json]]) -> None:
    if not tokens:
        print("no tokens: `arl token create NAME --scope read` makes one")
        return
    rows = [
        (str(one["id"]), plain(str(one["name"])), _scopes(one["scopes"]), _state(one))
        for one in tokens
    ]
    console().print(table("token", "name", "scopes", "state", rows=rows))


def _scopes(scopes: Json) -> str:
    return " ".join(map(str, scopes)) if isinstance(scopes, Sequence) else ""


def _state(token: Mapping[str, Json]) -> str:
    if token["revoked_at"] is not None:
        return "revoked"
    if not token["is_valid"]:
        return "expired"
    expires = token["expires_at"]
    return "valid" if expires is None else f"valid until {str(expires)[:16]}"
