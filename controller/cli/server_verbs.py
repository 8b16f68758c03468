"""Verbs that are more on a server than one question: `run`, `resume`, `export`, `token`."""

import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from controller.api.models.studies import StudyOut
from controller.cli.endings import ending_lines
from controller.cli.output import OK, STUDY_FAILED, print_json
from controller.cli.server_source import ServerSource
from controller.cli.text import plain
from controller.cli.token_list import print_tokens
from controller.client import Client
from controller.drafts import new_file
from ledger.export import ExportFormat
from ledger.records import Json

LOOK_EVERY_S: Final = 0.5
_ONLY_SHOWN: Final = (
    *("bundle", "families", "incumbents", "pending_commands"),
    *("model_use", "revisions", "prepare"),
)
"""Of a study's document: `run` here prints it without."""


def run(study: Path, *, new: bool, as_json: bool) -> int:
    """Send a study and follow it to its end. Ctrl-C is safe: the server goes on."""
    with Client() as client:
        made = client.submit(study, new=new)
        if not as_json:
            print(f"study {plain(made.name)} is {made.study} on {client.connection.server}")
            print("Ctrl-C stops following it; it goes on there", flush=True)
        found = client.wait(made.study, every_s=LOOK_EVERY_S, on_look=_Line(quiet=as_json))
        document = ServerSource(client).study(made.study)
    if as_json:
        whole = {key: value for key, value in document.items() if key not in _ONLY_SHOWN}
        print_json({**whole, "recovered": None})
    else:
        for line in ending_lines(document):
            print(line)
    return OK if str(found.state) == "completed" else STUDY_FAILED


class _Line:
    """Prints a line whenever something countable changed."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._last = ""

    def __call__(self, study: StudyOut) -> None:
        best = "" if study.best is None else f", best {study.best.value:g}"
        line = f"{study.state}: {study.counts.get('total', 0)} trials{best}"
        if line != self._last and not self._quiet:
            print(line, file=sys.stderr, flush=True)
        self._last = line


def resume(names: Sequence[str], *, as_json: bool) -> int:
    """Ask paused studies to go on; those that are not paused a worker of the server drives."""
    with Client() as client:
        source = ServerSource(client)
        wanted = [source.study_id(name) for name in names]
        if not wanted:
            wanted = [str(study.study) for study in client.studies(state=["paused"])]
        answers: list[Json] = [client.resume(study).model_dump(mode="json") for study in wanted]
    if as_json:
        print_json({"studies": answers})
    elif not answers:
        print("nothing to resume: no study of the server is paused")
    for answer in answers if not as_json else ():
        if isinstance(answer, dict):
            print(f"resume: {answer['answer']}; study {answer['study']} is {answer['state']}")
    return OK


def export(study: str, form: ExportFormat, output: Path | None, *, as_json: bool) -> int:
    """A study's trials as one file, whole or not at all."""
    with Client() as client:
        source = ServerSource(client)
        path, asked = f"/studies/{source.study_id(study)}/export", {"format": str(form)}
        if output is None:
            with tempfile.TemporaryFile() as whole:
                client.connection.save(path, asked, whole)
                whole.seek(0)
                shutil.copyfileobj(whole, sys.stdout.buffer)
            sys.stdout.buffer.flush()
            return OK
        with new_file(output) as draft, draft.open("wb") as whole:
            headers = client.connection.save(path, asked, whole)
    found, count = headers["study"], int(headers["trials"])
    if as_json:
        print_json({"study": found, "trials": count, "file": str(output), "format": str(form)})
    else:
        print(f"{count} trials of {plain(study)} in {plain(str(output))}")
    return OK


def token(
    action: str,
    subject: str | None,
    scopes: Sequence[str],
    expires_in_s: float | None,
    *,
    as_json: bool,
) -> int:
    """Make, list or revoke tokens of the server; needs one with scope admin."""
    with Client() as client:
        if action == "list":
            return _list_tokens(client, as_json=as_json)
        if action == "revoke":
            client.connection.send("DELETE", f"/tokens/{subject}")
            if as_json:
                print_json({"revoked": subject})
            else:
                print(f"{plain(str(subject))} opens nothing any more")
            return OK
        body = {
            "name": subject,
            "scopes": [str(scope) for scope in scopes] or ["read"],
            "expires_in_s": expires_in_s,
        }
        made = client.connection.post("/tokens", body).json()
    print_json(made) if as_json else print(made["token"])
    return OK


def _list_tokens(client: Client, *, as_json: bool) -> int:
    found = client.connection.get("/tokens")["items"]
    if as_json:
        print_json({"tokens": found})
        return OK
    print_tokens(found)
    return OK
