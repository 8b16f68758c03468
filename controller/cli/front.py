"""Runs one verb: its arguments by typer, its errors as one line and an exit code."""

import gc
import importlib
import io
import json
import os
import select
import sys
from collections.abc import Sequence

from controller.cli.output import (
    BAD_INPUT,
    BUG,
    INFRASTRUCTURE,
    INTERRUPTED,
    OK,
    exit_code,
)
from controller.cli.text import plain
from controller.cli.verbs import ON_SERVER, SERVER_OPTIONS, VERBS, Verb, overview
from controller.settings import set_variable, wants_debug
from ledger.errors import ArlError, InvalidInput
from ledger.records import Json


def run(arguments: Sequence[str]) -> int:
    """Do what the command line says and return the exit code."""
    wants_json = "--json" in arguments
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal of another encoding is no error
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _dispatch(arguments)
        sys.stdout.flush()
    except BrokenPipeError as error:
        if not _reader_is_gone():
            return _told(error, wants_json=wants_json)
        # The interpreter must not complain about it at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:  # the edge of the process: every error is told
        if wants_debug():
            raise
        return _told(error, wants_json=wants_json)
    return code


def _dispatch(arguments: Sequence[str]) -> int:
    arguments, asked = _without_server(arguments)
    first = arguments[0] if arguments else "--help"
    if first in ("--help", "-h", "help"):
        print(overview(), end="")
        return OK
    if first == "--version":
        from importlib.metadata import version

        print(f"arl {version('arl')}")
        return OK
    verb = VERBS.get(first)
    if verb is None:
        return _complain(
            "usage", _no_such_verb(first), BAD_INPUT, wants_json="--json" in arguments
        )
    if asked and first not in ON_SERVER:
        why = f"{first} works on this machine's ledger: leave --server out"
        return _complain("usage", why, BAD_INPUT, wants_json="--json" in arguments)
    return _invoke(verb, arguments[1:])


def _without_server(arguments: Sequence[str]) -> tuple[list[str], bool]:
    """The arguments without `--server` and `--token`, which any place may hold and which stand
    for ARL_SERVER and ARL_TOKEN from here on; and whether a server was named so."""
    left, at = [], 0
    said = False
    while at < len(arguments):
        name, equals, value = arguments[at].partition("=")
        variable = SERVER_OPTIONS.get(name)
        if variable is None:
            left.append(arguments[at])
        else:
            if not equals:
                at += 1
                value = arguments[at] if at < len(arguments) else ""
            if not value:
                raise InvalidInput(f"{name}: write its value, like {name} http://HOST:8420")
            set_variable(variable, value)
            said = said or name == "--server"
        at += 1
    return left, said


def _no_such_verb(given: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(given, list(VERBS), n=1)
    hint = f"did you mean `arl {near[0]}`?" if near else "`arl --help` lists them"
    return f"there is no verb {plain(given)!r}: {hint}"


def _invoke(verb: Verb, arguments: Sequence[str]) -> int:
    gc.disable()  # nothing that is imported is garbage: a sixth of the start is saved
    import typer

    function = getattr(importlib.import_module(verb.module), verb.function)
    gc.freeze()
    gc.enable()
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(verb.name, help=function.__doc__)(function)
    command = typer.main.get_command(app)
    try:
        # Not its main(), which ends the process where a reader of ours has gone.
        with command.make_context(f"arl {verb.name}", list(arguments)) as context:
            result = command.invoke(context)
    except typer.Exit as done:
        return done.exit_code
    return result if isinstance(result, int) else OK


def _reader_is_gone() -> bool:
    """Whether it was our own output that nobody reads any more, and no connection elsewhere."""
    looking = select.poll()
    looking.register(sys.stdout.fileno(), 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in looking.poll(0))


def _told(error: Exception, *, wants_json: bool) -> int:
    """Say what went wrong, and return the exit code for it."""
    if isinstance(error, ArlError):
        problems = _problems(error)
        return _complain(
            error.code, str(error), exit_code(error), wants_json=wants_json, problems=problems
        )
    format_message = getattr(error, "format_message", None)
    if format_message is not None:  # a usage error of typer's
        return _complain("usage", format_message(), BAD_INPUT, wants_json=wants_json)
    if isinstance(error, OSError):
        return _complain("system", str(error), INFRASTRUCTURE, wants_json=wants_json)
    what = f"{type(error).__name__}: {error} (a bug; ARL_DEBUG=1 shows where)"
    return _complain("internal", what, BUG, wants_json=wants_json)


def _problems(error: ArlError) -> list[Json]:
    """Of a refused study file: each problem by its parts."""
    found = getattr(error, "problems", ())
    return [
        {"field": p.field, "value": p.value, "rule": p.rule, "remedy": p.remedy} for p in found
    ]


def _complain(
    code: str,
    message: str,
    status: int,
    *,
    wants_json: bool,
    problems: Sequence[Json] = (),
) -> int:
    lines = message.splitlines() if problems else [" ".join(message.split())]
    for line in lines:
        print(f"arl: {code}: {plain(line)}", file=sys.stderr)
    if wants_json:
        document: dict[str, Json] = {"code": code, "message": message, "exit_code": status}
        if problems:
            document["problems"] = list(problems)
        print(json.dumps({"error": document}, indent=2))
        sys.stdout.flush()
    return status
