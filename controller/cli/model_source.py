"""Where `arl models` looks and changes things: the ledger of this machine, or a server."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol

from controller.cli.opening import actor, remember_heads, service_opened
from controller.cli.source import server_named
from controller.registry import looking
from controller.registry.pointers import add_note, check_standing, roll_back, set_alias
from ledger import family_pages, registry_reads
from ledger.records import Json

if TYPE_CHECKING:
    from controller.client import Client
    from controller.wiring import Service

Document = dict[str, Json]
PAGE: Final = 500


class ModelSource(Protocol):
    """Every method raises NotFound, Conflict."""

    def models(self) -> list[Document]: ...

    def model(self, model: str) -> Document: ...

    def positions(self, model: str) -> Sequence[Document]:
        """The history of its pointer, the newest first."""
        ...

    def set_alias(
        self, model: str, alias: str, promotion: int | None, expected: int | None, note: str
    ) -> Document: ...

    def roll_back(self, model: str, to: int, expected: int, note: str) -> Document: ...

    def add_note(self, model: str, number: int, note: str) -> Document:
        """The position that it is about."""
        ...


@contextmanager
def model_source_opened() -> Iterator[ModelSource]:
    """The server that ARL_SERVER or --server names, else the ledger here."""
    if server_named():
        from controller.client import Client

        with Client() as client:
            yield ServerModels(client)
    else:
        with service_opened() as service:
            yield LedgerModels(service)


class LedgerModels:
    """ModelSource over the ledger of this machine."""

    def __init__(self, service: "Service") -> None:
        self._service = service

    def models(self) -> list[Document]:
        with self._service.ledger.read() as session:
            return looking.models_listed(session)

    def model(self, model: str) -> Document:
        with self._service.ledger.read() as session:
            return looking.model_detail(session, model)

    def positions(self, model: str) -> Sequence[Document]:
        with self._service.ledger.read() as session:
            found = family_pages.page_of_incumbents(session, model, before=None, limit=PAGE)
            return looking.positions(session, model, found)

    def set_alias(
        self, model: str, alias: str, promotion: int | None, expected: int | None, note: str
    ) -> Document:
        service = self._service
        if promotion is not None:
            with service.ledger.read() as session:
                pointer = registry_reads.get_pointer(session, model, promotion)
            check_standing(service.ledger, service.store, pointer)
        with service.ledger.write() as session:
            made = set_alias(
                session,
                model=model,
                alias=alias,
                promotion=promotion,
                expected=expected,
                actor=actor(),
                note=note,
            )
        return {"alias": made.alias, "promotion": made.promotion, "note": made.note}

    def roll_back(self, model: str, to: int, expected: int, note: str) -> Document:
        service = self._service
        with service.ledger.read() as session:
            target = registry_reads.get_pointer(session, model, to)
        check_standing(service.ledger, service.store, target)
        with service.ledger.write() as session:
            moved = roll_back(session, target, expected=expected, actor=actor(), note=note)
        remember_heads(service)
        with service.ledger.read() as session:
            return looking.position(session, registry_reads.get_pointer(session, model, moved.seq))

    def add_note(self, model: str, number: int, note: str) -> Document:
        with self._service.ledger.write() as session:
            pointer = registry_reads.get_pointer(session, model, number)
            add_note(session, pointer, note=note, actor=actor())
            return looking.position(session, pointer)


class ServerModels:
    """ModelSource over a server's API."""

    def __init__(self, client: "Client") -> None:
        self._client = client

    def models(self) -> list[Document]:
        return [found.model_dump(mode="json") for found in self._client.models()]

    def model(self, model: str) -> Document:
        return self._client.model(model).model_dump(mode="json")

    def positions(self, model: str) -> Sequence[Document]:
        return [found.model_dump(mode="json") for found in self._client.incumbents(model)]

    def set_alias(
        self, model: str, alias: str, promotion: int | None, expected: int | None, note: str
    ) -> Document:
        made = self._client.set_alias(model, alias, promotion, expected=expected, note=note)
        return made.model_dump(mode="json")

    def roll_back(self, model: str, to: int, expected: int, note: str) -> Document:
        moved = self._client.roll_back(model, to, expected=expected, note=note)
        return moved.model_dump(mode="json")

    def add_note(self, model: str, number: int, note: str) -> Document:
        return self._client.add_note(model, number, note).model_dump(mode="json")
