"""`arl serve` and `arl token`: the API with its dashboard, and who may use it."""

import logging
import sys
from enum import StrEnum
from typing import Annotated

import typer

from controller.api.options import ApiOptions
from controller.api.tokens import Scope, give_token_of, revoke_token_of
from controller.cli.log_lines import listen_to_the_worker
from controller.cli.opening import actor, ledger_opened, service_opened
from controller.cli.output import OK, print_json
from controller.cli.source import server_named
from controller.cli.text import plain
from controller.cli.token_list import print_tokens
from controller.documents.times import iso
from controller.settings import read_settings, set_variable
from controller.spec.quantities import parse_duration_s
from ledger import tokens
from ledger.database import open_ledger
from ledger.errors import InvalidInput
from ledger.records import Json

STRICT = ("ARL_HTTP_ALLOW_PRIVATE", "ARL_MODELS_ALLOW_PRIVATE", "ARL_NOTIFY_ALLOW_PRIVATE")
"""What others send names no private address unless the operator said so; the worker that is
started beside the server inherits it."""
LONGEST_S = 10 * 366 * 86400
"""Of a token with an end."""
AsJson = Annotated[bool, typer.Option("--json", help="print one JSON object, and nothing else")]
Host = Annotated[str, typer.Option("--host", help="address to listen on")]
Port = Annotated[int, typer.Option("--port", min=0, max=65535, help="TCP port to listen on")]
Names = Annotated[
    list[str] | None,
    typer.Option("--name", help="a further host name under which clients reach it"),
]
NoWorker = Annotated[bool, typer.Option("--no-worker", help="only answer; workers run elsewhere")]


def serve(
    host: Host = "127.0.0.1",
    port: Port = 8420,
    name: Names = None,
    no_worker: NoWorker = False,
    as_json: AsJson = False,
) -> int:
    """Serve the API and the dashboard, with a worker beside it, until stopped.

    On this machine's own address it needs no token until one was made; on any other it does not
    start without. Stopping it leaves trials running; the next worker adopts them.
    """
    from controller.api.serving import serve as run

    for variable in STRICT:
        set_variable(variable, "0", keep=True)
    options = ApiOptions(
        host=host,
        port=port,
        names=tuple(name or ()),
        allow_local=read_settings().api_allow_local,
    )
    with service_opened(create=True) as service:
        listen_to_the_worker(logging.INFO)
        shown = f"[{host}]" if ":" in host else host
        if as_json:
            print_json({"url": f"http://{shown}:{port}"})
            sys.stdout.flush()
        else:
            print(f"ARL is at http://{shown}:{port} (Ctrl-C stops; trials go on)", flush=True)
        run(service, options, with_worker=not no_worker)
    return OK


class Action(StrEnum):
    CREATE = "create"
    LIST = "list"
    REVOKE = "revoke"


What = Annotated[Action, typer.Argument(metavar="create|list|revoke", help="what to do")]
Subject = Annotated[
    str | None, typer.Argument(metavar="[NAME|ID]", help="a name for the new token, or an id")
]
Scopes = Annotated[
    list[Scope] | None,
    typer.Option("--scope", help="what it may: read (default), submit, promote, admin; repeat"),
]
Expires = Annotated[str | None, typer.Option("--expires", help="from now, like 30d or 12h")]


def token(
    action: What,
    subject: Subject = None,
    scope: Scopes = None,
    expires: Expires = None,
    as_json: AsJson = False,
) -> int:
    """Make, list or revoke access tokens. A token is printed once, when it is made."""
    if action is not Action.LIST and not subject:
        missing = "a name for it" if action is Action.CREATE else "the token's id"
        raise InvalidInput(f"token {action}: say {missing}: `arl token {action} …`")
    if action is Action.CREATE:
        _check_name(subject or "")
    expires_in_s = None if expires is None else _lifetime(expires)
    if server_named():
        from controller.cli.server_verbs import token as token_there

        return token_there(str(action), subject, scope or [], expires_in_s, as_json=as_json)
    if action is Action.LIST:
        return _list(as_json=as_json)
    if action is Action.CREATE:
        return _create(subject or "", scope or [Scope.READ], expires_in_s, as_json=as_json)
    return _revoke(subject or "", as_json=as_json)


def _check_name(name: str) -> None:
    if len(name) > 100 or not name.isprintable():
        raise InvalidInput(f"token create: {plain(name[:60])!r}: at most 100 printable characters")


def _create(name: str, scopes: list[Scope], expires_in_s: float | None, *, as_json: bool) -> int:
    ledger = open_ledger(read_settings().ledger_url, create=True)
    try:
        entry, made = give_token_of(
            ledger, name=name, scopes=scopes, expires_in_s=expires_in_s, actor=actor()
        )
    finally:
        ledger.close()
    if as_json:
        print_json(
            {
                "id": entry.token_id,
                "name": entry.name,
                "scopes": list(entry.scopes),
                "expires_at": iso(entry.expires_at),
                "token": made,
            }
        )
    else:
        print(made)
    return OK


def _lifetime(text: str) -> float:
    try:
        found = parse_duration_s(text)
    except ValueError as error:
        raise InvalidInput(f"--expires: {plain(text)!r}: {error}") from error
    if not 0 < found <= LONGEST_S:
        raise InvalidInput(
            f"--expires: {plain(text)!r}: write a time from now, like 30d, of at most 3660d"
        )
    return found


def _list(*, as_json: bool) -> int:
    with ledger_opened() as ledger, ledger.read() as session:
        found, now = tokens.list_tokens(session), session.now()
    documents: list[Json] = [
        {
            "id": one.id,
            "name": one.name,
            "scopes": list(one.scopes),
            "created_at": iso(one.created_at),
            "expires_at": iso(one.expires_at),
            "revoked_at": iso(one.revoked_at),
            "is_valid": one.is_valid(now),
        }
        for one in found
    ]
    if as_json:
        print_json({"tokens": documents})
    else:
        print_tokens([one for one in documents if isinstance(one, dict)])
    return OK


def _revoke(token_id: str, *, as_json: bool) -> int:
    with ledger_opened() as ledger:
        revoke_token_of(ledger, token_id, actor=actor())
    if as_json:
        print_json({"revoked": token_id})
    else:
        print(f"{plain(token_id)} opens nothing any more")
    return OK
