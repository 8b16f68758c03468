"""`arl serve-model`: vLLM with stored models, and adapters gated in a running server."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from controller.cli.naming import find_trial_id
from controller.cli.opening import service_opened
from controller.cli.serve_model_start import print_command, start_server
from controller.cli.serve_model_swap import put_back, swap_in
from controller.cli.text import plain
from controller.serving.commands import Adapter, Command, adapter_command, whole_command
from controller.serving.files import (
    Chosen,
    adapter_at,
    base_of,
    checked_out,
    choose_form,
    files_of,
)
from controller.serving.forms import Form
from controller.serving.gate import SplitName
from controller.serving.into import SwapOptions
from controller.serving.server_process import check_python
from controller.serving.subjects import SHORT, find_subject
from controller.settings import Settings
from controller.wiring import Service
from ledger.errors import InvalidInput

Names = Annotated[
    list[str],
    typer.Argument(
        metavar="MODEL|PROMOTION|CANDIDATE… [-- VLLM OPTIONS]",
        help="a model's name (NAME:NUMBER, NAME@ALIAS), STUDY/NUMBER, a candidate's or a "
        "trial's id; after -- comes what is vLLM's",
    ),
]
Into = Annotated[
    str | None,
    typer.Option("--into", help="gate it in this running server, like http://host:8000"),
]
Start = Annotated[bool, typer.Option("--start", help="start the server, instead of printing how")]
Python = Annotated[
    str | None, typer.Option("--python", help="an interpreter that has vLLM, for --start")
]
Host = Annotated[str, typer.Option("--host", help="address the server listens on")]
Port = Annotated[int, typer.Option("--port", min=1, max=65535, help="TCP port it listens on")]
As = Annotated[
    str | None, typer.Option("--as", help="the name to serve it under; default: the model's")
]
FormOption = Annotated[
    Form | None,
    typer.Option(
        "--form",
        help="which of what is stored; default: the merged or quantised model, or with "
        "several names, or --into, the adapter",
    ),
]
Shadow = Annotated[bool, typer.Option("--shadow", help="with --into: gate it, and switch nothing")]
Restore = Annotated[
    bool, typer.Option("--restore", help="with --into: put in again what the record names")
]
Margin = Annotated[
    float,
    typer.Option("--margin", help="how much worse, in the objective's unit, still passes"),
]
Split = Annotated[
    str | None,
    typer.Option("--split", help="search or holdout; default: holdout where it was scored on it"),
]
Parallel = Annotated[
    int, typer.Option("--parallel", min=1, max=32, help="how many items are asked at once")
]
AnswerTimeout = Annotated[
    float, typer.Option("--answer-timeout", min=0.1, help="seconds that one answer may take")
]
Share = Annotated[
    Path | None,
    typer.Option("--share", help="copy the adapter into this directory, which the server sees"),
]
Secret = Annotated[
    str | None,
    typer.Option("--secret", help="variable ARL_SECRET_… with the server's API key"),
]
Patience = Annotated[
    float, typer.Option("--patience", min=1, help="seconds until a started server must be well")
]
AsJson = Annotated[bool, typer.Option("--json", help="print one JSON object, and nothing else")]


def serve_model(
    names: Names,
    *,
    into: Into = None,
    start: Start = False,
    python: Python = None,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    as_name: As = None,
    form: FormOption = None,
    shadow: Shadow = False,
    restore: Restore = False,
    margin: Margin = 0.02,
    split: Split = None,
    parallel: Parallel = 16,
    answer_timeout: AnswerTimeout = 60.0,
    share: Share = None,
    secret: Secret = None,
    patience: Patience = 900.0,
    as_json: AsJson = False,
) -> int:
    """Print, or start, the vLLM command for stored models; or gate an adapter in a running server.

    Every byte is checked before. --into loads an adapter beside what is served, has the study's
    evaluator ask both, and keeps it under the name or takes it out. Exit code 1: it did not pass,
    or a stored file changed; 5: the server is gone or of no use, and the incumbent stays.
    """
    words, extra = _divided(names)
    _check_options(words, extra, into, start=start, python=python, shadow=shadow, restore=restore)
    if into is None:
        command, served, settings = _planned(words, as_name, form, host, port, extra)
        if python is None or not start:
            return print_command(command, python, served, as_json=as_json)
        where = command, python, served, settings
        return start_server(*where, patience_s=patience, say=_say, as_json=as_json)
    options = SwapOptions(
        url=into,
        shadow=shadow,
        margin=_checked_margin(margin),
        split=_checked_split(split),
        parallel=parallel,
        answer_timeout_s=answer_timeout,
        share=share,
        secret=secret,
    )
    with service_opened() as service:
        if restore:
            return put_back(service, words[0], options, _say, as_json=as_json)
        (one,) = _chosen(service, words, as_name, form, usual=Form.ADAPTER)
        return swap_in(service, one, options, _say, as_json=as_json)


def _divided(given: list[str]) -> tuple[list[str], list[str]]:
    """Names of models, and what is vLLM's: its options begin with a dash, which no name does."""
    at = next((i for i, word in enumerate(given) if word.startswith("-")), len(given))
    return given[:at], given[at:]


def _check_options(
    words: list[str],
    extra: list[str],
    into: str | None,
    *,
    start: bool,
    python: str | None,
    shadow: bool,
    restore: bool,
) -> None:
    if not words:
        raise InvalidInput("write what to serve: a model's name, a candidate's id or STUDY/NUMBER")
    is_asked = into is not None
    wrong = {
        "--start and --into exclude each other": start and is_asked,
        "--start needs --python, the interpreter that has vLLM": start and python is None,
        "--shadow and --restore are about a running server: add --into URL": not is_asked
        and (shadow or restore),
        "--shadow and --restore exclude each other": shadow and restore,
        "--into takes one model at a time": is_asked and len(words) > 1,
        "what follows -- is for a server that is started: leave it out with --into": is_asked
        and bool(extra),
    }
    for rule, broken in wrong.items():
        if broken:
            raise InvalidInput(rule)
    if start and python is not None:
        check_python(python)  # before every byte of the models is read


def _checked_margin(margin: float) -> float:
    if not 0 < margin < float("inf"):
        raise InvalidInput(f"--margin {margin}: write a number above 0, like 0.02")
    return margin


def _checked_split(split: str | None) -> SplitName | None:
    if split is None or split == "search":
        return None if split is None else "search"
    if split == "holdout":
        return "holdout"
    raise InvalidInput(f"--split {plain(split)}: write search or holdout")


def _chosen(
    service: Service,
    words: list[str],
    name: str | None,
    form: Form | None,
    usual: Form | None = None,
) -> list[Chosen]:
    """What the words mean, each in the form it is to be served in."""
    if name is not None and len(words) > 1:
        raise InvalidInput(f"--as {plain(name)}: is for one model; these are {len(words)}")
    usual = usual or (Form.ADAPTER if len(words) > 1 else Form.FULL)
    with service.ledger.read() as session:
        ids = [find_trial_id(session, word) if "/" in word else word for word in words]
        subjects = [find_subject(session, word, name) for word in ids]
    found = []
    for subject in subjects:
        files = files_of(service.store, subject)
        found.append(Chosen(subject, files, choose_form(files, form, subject, usual)))
    return found


def _planned(
    words: list[str],
    name: str | None,
    form: Form | None,
    host: str,
    port: int,
    extra: list[str],
) -> tuple[Command, list[Chosen], Settings]:
    with service_opened() as service:
        chosen = _chosen(service, words, name, form)
        return _command(service, chosen, host, port, extra), chosen, service.settings


def _command(
    service: Service, chosen: list[Chosen], host: str, port: int, extra: list[str]
) -> Command:
    """Raises InvalidInput, ArtifactCorrupt, NotFound."""
    store = service.store
    if len(chosen) == 1 and chosen[0].form is not Form.ADAPTER:
        subject = chosen[0].subject
        what = f"artifact {subject.artifact[:SHORT]} of {subject.name}"
        model = checked_out(store, subject.artifact, what, _say)
        names = (subject.name, subject.own_name)
        whole = chosen[0].files.whole
        return whole_command(model, names, host=host, port=port, extra=extra, whole=whole)
    public = [one.subject.name for one in chosen]
    # A name that two have would be that of neither.
    shared = {name for name in public if public.count(name) > 1}
    found = [_adapter(service, one, is_shared=one.subject.name in shared) for one in chosen]
    bases = {base: one.subject.name for (base, _), one in zip(found, chosen, strict=True)}
    if len(bases) > 1:
        told = ", ".join(f"{name} on {base[:SHORT]}" for base, name in bases.items())
        raise InvalidInput(f"one server has one base, and these have several: {told}")
    base = found[0][0]
    model = checked_out(store, base, f"base {base[:SHORT]}", _say)
    adapters = [adapter for _, adapter in found]
    return adapter_command(model, base, adapters, host=host, port=port, extra=extra)


def _adapter(service: Service, one: Chosen, *, is_shared: bool) -> tuple[str, Adapter]:
    """With the tree digest of its base."""
    subject, files = one.subject, one.files.adapter
    if files is None or one.form is not Form.ADAPTER:
        raise InvalidInput(
            f"{subject.name}: several models are served as adapters of one base, and this is "
            f"{one.form}"
        )
    own = (subject.own_name,)
    return base_of(service.store, subject, files, _say), Adapter(
        names=own if is_shared else (subject.name, *own),
        path=adapter_at(service.store, subject, files, None, _say),
        rank=files.rank,
    )


def _say(text: str) -> None:
    print(plain(text), file=sys.stderr, flush=True)
