"""`arl evidence` and `arl keys`: signed evidence of promotions, and the key it is signed with."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from controller.cli.opening import actor, service_opened
from controller.cli.output import OK, console, print_json, table
from controller.cli.source import server_named
from controller.cli.text import plain
from controller.documents.times import iso
from controller.drafts import check_new, new_directory
from controller.registry.keys import PrivateKey, find_key, key_path, make_key
from controller.registry.making import latest_signature, make_evidence, sealed_of
from controller.registry.names import find_promotion
from controller.registry.statement import MODEL_FOLDER
from ledger.errors import Conflict, InvalidInput, NotFound
from ledger.records import Json
from ledger.registry_reads import list_keys

if TYPE_CHECKING:
    from controller.wiring import Service

CopyModel = Callable[[Path], None]
Promotion = Annotated[
    str,
    typer.Argument(metavar="PROMOTION", help="a model's name, NAME:NUMBER or NAME@ALIAS"),
]
Output = Annotated[Path | None, typer.Option("-o", "--output", help="a directory to make")]
Again = Annotated[bool, typer.Option("--again", help="sign it although it is signed")]
NoModel = Annotated[bool, typer.Option("--no-model", help="leave the model's own files out")]
AsJson = Annotated[bool, typer.Option("--json", help="print one JSON object, and nothing else")]


def evidence(
    promotion: Promotion,
    output: Output = None,
    again: Again = False,
    no_model: NoModel = False,
    as_json: AsJson = False,
) -> int:
    """Sign a promotion, unless it is signed, and write its evidence to a directory.

    An in-toto statement with SLSA provenance, the OpenSSF signature of the model, the model card
    and the ledger's entry, with the model's files beside them. `arl verify --promotion DIR` checks
    all of it anywhere, without a ledger.
    """
    if output is not None:
        check_new(output, "--output")
    if server_named():
        from controller.cli.server_evidence import fetch_evidence

        return fetch_evidence(promotion, output, again=again, no_model=no_model, as_json=as_json)
    with service_opened() as service:
        with service.ledger.read() as session:
            pointer = find_promotion(session, promotion)
            found = latest_signature(session, pointer)
            artifact = sealed_of(session, pointer).entry.artifact_digest
        if found is None or again:
            home = service.settings.home
            found = make_evidence(service.ledger, service.store, home, pointer, actor())
        if output is not None:
            files = _files(service, found.tree)
            write_directory(
                output, files, lambda to: _copy(service, artifact, to, no_model=no_model)
            )
    document: dict[str, Json] = {
        "promotion": f"{pointer.model}:{pointer.seq}",
        "artifact": artifact,
        "key": found.key_id,
        "signing": found.number,
        "tree": found.tree,
        "directory": None if output is None else str(output),
    }
    return tell_evidence(document, as_json=as_json)


def tell_evidence(document: Mapping[str, Json], *, as_json: bool) -> int:
    if as_json:
        print_json(document)
        return OK
    print(f"{plain(str(document['promotion']))} is signed with key {str(document['key'])[:16]}…")
    if document["directory"] is not None:
        where = plain(str(document["directory"]))
        print(f"wrote {where}; `arl verify --promotion {where}` checks it")
    return OK


def _files(service: "Service", tree: str) -> dict[str, bytes]:
    return {
        path: service.store.read_bytes(digest)
        for path, _, _, digest in service.store.manifest(tree)
    }


def _copy(service: "Service", artifact: str, to: Path, *, no_model: bool) -> None:
    if not no_model:
        service.store.copy_tree(artifact, to)


def write_directory(directory: Path, files: Mapping[str, bytes], copy_model: CopyModel) -> None:
    """Whole or not at all. `copy_model` fills the model's folder."""
    with new_directory(directory) as draft:
        for name, content in files.items():
            (draft / name).write_bytes(content)
        copy_model(draft / MODEL_FOLDER)


class Action(StrEnum):
    LIST = "list"
    NEW = "new"
    EXPORT = "export"


What = Annotated[
    Action, typer.Argument(metavar="[list|new|export]", help="what to do; default: list")
]
File = Annotated[Path | None, typer.Argument(metavar="[FILE]", help="export: where to write it")]


def keys(action: What = Action.LIST, file: File = None, as_json: AsJson = False) -> int:
    """List the keys that promotions were signed with, make another, export the public one.

    The private key is made with the first signature, below ARL_HOME, and readable by its owner
    alone. After `arl keys new` the one before is gone; what it signed still verifies.
    """
    if file is not None and action is not Action.EXPORT:
        raise InvalidInput(f"keys {action}: takes no file; `arl keys export FILE` writes one")
    with service_opened(create=action is Action.NEW) as service:
        home = service.settings.home
        if action is Action.NEW:
            made = make_key(service.ledger, home, actor())
            document: dict[str, Json] = {"key": made.id, "path": str(made.path)}
            text = f"key {made.id} signs from now on; keep a copy of {plain(str(made.path))}"
        elif action is Action.EXPORT:
            return _export(home, file, as_json=as_json)
        else:
            return _list(service, as_json=as_json)
    print_json(document) if as_json else print(text)
    return OK


def _export(home: Path, file: Path | None, *, as_json: bool) -> int:
    found = find_key(home)
    if found is None:
        raise NotFound(
            f"there is no key at {plain(str(key_path(home)))}: `arl evidence` makes one with the "
            "first signature, `arl keys new` at once"
        )
    if file is not None:
        try:
            with file.open("x", encoding="ascii") as stream:
                stream.write(found.public_pem)
        except FileExistsError as error:
            raise Conflict(f"{plain(str(file))} exists already: name a new file") from error
        except OSError as error:
            raise InvalidInput(f"{plain(str(file))}: {error.strerror}") from error
    if as_json:
        print_json({"key": found.id, "public_key": found.public_pem})
    elif file is None:
        print(found.public_pem, end="")
    else:
        print(f"public key {found.id[:16]}… is in {plain(str(file))}")
    return OK


def _list(service: "Service", *, as_json: bool) -> int:
    here = find_key(service.settings.home)
    with service.ledger.read() as session:
        known = list_keys(session)
    listed: list[Json] = [
        {
            "key": key.id,
            "made_at": iso(key.created_at),
            "actor": key.actor,
            "is_here": here is not None and here.id == key.id,
            "public_key": key.public_key,
        }
        for key in known
    ]
    if as_json:
        print_json({"keys": listed, "path": str(key_path(service.settings.home))})
    elif not known:
        print("no keys yet: `arl evidence` makes one with the first signature")
    else:
        rows = [
            (k.id[:16], (iso(k.created_at) or "")[:19], plain(k.actor), _place(here, k.id))
            for k in known
        ]
        console().print(table("key", "made (UTC)", "by", "private key", rows=rows))
    return OK


def _place(here: PrivateKey | None, key: str) -> str:
    return "here" if here is not None and here.id == key else "not here"
