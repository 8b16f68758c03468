"""The client's calls about models: pointers, aliases, roll backs and evidence."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from controller.api.models.registry import (
    AliasOut,
    CheckedOut,
    EvidenceOut,
    ModelDetail,
    ModelOut,
    PositionDetail,
    PositionOut,
)

if TYPE_CHECKING:
    from controller.client.connection import Connection


class ModelCalls:
    """Part of controller.client.Client."""

    connection: "Connection"

    def models(self) -> list[ModelOut]:
        """Every model that a study promotes to."""
        found = self.connection.get("/models")["items"]
        return [ModelOut.model_validate(item) for item in found]

    def model(self, model: str) -> ModelDetail:
        return ModelDetail.model_validate(self.connection.get(f"/models/{model}"))

    def incumbents(self, model: str) -> Iterator[PositionOut]:
        """The history of a model's pointer, the newest first."""
        cursor: str | None = None
        while True:
            page = self.connection.get(f"/models/{model}/incumbents", {"cursor": cursor})
            yield from (PositionOut.model_validate(item) for item in page["items"])
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def incumbent(self, model: str, number: int) -> PositionDetail:
        """One position with its lineage, signatures and model card."""
        path = f"/models/{model}/incumbents/{number}"
        return PositionDetail.model_validate(self.connection.get(path))

    def evidence(self, model: str, number: int) -> EvidenceOut:
        """The newest signed evidence of a promotion."""
        path = f"/models/{model}/incumbents/{number}/evidence"
        return EvidenceOut.model_validate(self.connection.get(path))

    def check(self, model: str, number: int) -> CheckedOut:
        """Whether a promotion is what was promoted and signed; the server reads all of it."""
        path = f"/models/{model}/incumbents/{number}/check"
        return CheckedOut.model_validate(self.connection.get(path, is_slow=True))

    def add_note(self, model: str, number: int, note: str) -> PositionOut:
        """Write down something about a promotion."""
        path = f"/models/{model}/incumbents/{number}/notes"
        return PositionOut.model_validate(self.connection.post(path, {"note": note}).json())

    def roll_back(self, model: str, to: int, *, expected: int, note: str = "") -> PositionOut:
        """Give the pointer to an earlier promotion again. Raises Conflict when it is not at
        `expected` any more, or when what was promoted is not whole any more."""
        body = {"to": to, "expected": expected, "note": note}
        answer = self.connection.post(f"/models/{model}/rollback", body, is_slow=True)
        return PositionOut.model_validate(answer.json())

    def set_alias(
        self,
        model: str,
        alias: str,
        promotion: int | None,
        *,
        expected: int | None,
        note: str = "",
    ) -> AliasOut:
        """Let an alias name a promotion, or none. Raises Conflict when it does not name
        `expected` any more."""
        body = {"alias": alias, "promotion": promotion, "expected": expected, "note": note}
        answer = self.connection.post(f"/models/{model}/aliases", body, is_slow=True)
        return AliasOut.model_validate(answer.json())
