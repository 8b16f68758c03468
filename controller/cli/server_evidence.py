"""`arl evidence` of a server: what was signed there, fetched file by file."""

from pathlib import Path
from typing import cast

from controller.cli.evidence import tell_evidence, write_directory
from controller.cli.server_promotions import find_position
from controller.cli.text import plain
from controller.client import Client
from controller.client.connection import Connection, problem
from ledger.errors import ArtifactCorrupt, InvalidInput, NotFound
from ledger.files import hash_file
from ledger.manifests import check_path
from ledger.records import Json


def fetch_evidence(
    promotion: str, output: Path | None, *, again: bool, no_model: bool, as_json: bool
) -> int:
    """The private key stays where it is: signing is the server's own work."""
    if again:
        raise InvalidInput("evidence: --again signs where the key is: run it on the server")
    with Client() as client:
        model, number = find_position(client, promotion)
        detail = client.incumbent(model, number)
        if not detail.signatures:
            raise NotFound(f"{plain(model)}:{number} is not signed: run `arl evidence` there")
        if output is not None:
            found = client.evidence(model, number)
            files = {name: text.encode() for name, text in found.files.items()}
            for name in files:
                check_path(name)

            def copy(to: Path) -> None:
                if not no_model:
                    _fetch_model(client.connection, found.artifact, to)

            write_directory(output, files, copy)
    signed = detail.signatures[0]
    document: dict[str, Json] = {
        "promotion": f"{model}:{number}",
        "artifact": detail.artifact,
        "key": signed.key,
        "signing": signed.number,
        "tree": signed.tree,
        "directory": None if output is None else str(output),
    }
    return tell_evidence(document, as_json=as_json)


def _fetch_model(connection: Connection, tree: str, to: Path) -> None:
    to.mkdir()
    found = connection.get(f"/artifacts/{tree}")
    if not found["is_listed_whole"]:
        raise InvalidInput("evidence: the model has too many files: write --no-model")
    for file in found["listed"]:
        path = cast("str", file["path"])
        check_path(path)
        (to / path).parent.mkdir(parents=True, exist_ok=True)
        with connection.stream(f"/artifacts/{tree}/{path}", {}, {}) as answer:
            if not answer.is_success:
                answer.read()
                raise problem(answer)
            with (to / path).open("xb") as stream:
                for piece in answer.iter_bytes():
                    stream.write(piece)
        if hash_file(to / path, path)[0] != file["digest"]:
            raise ArtifactCorrupt(f"{plain(path)} of artifact {tree}: other bytes came")
