"""The model registry on the wire: models, positions of their pointers, aliases, evidence."""

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from controller.api.models.candidates import INCUMBENT, IncumbentOut
from controller.api.models.wire import DIGEST, ISO, Flagged, Iso, Out, example

_NOTE: JsonValue = {"note": "3 users say it is terser", "actor": "cli:ann", "at": ISO}
_POSITION: dict[str, JsonValue] = {
    **INCUMBENT,
    "aliases": ["production"],
    "signature": None,
    "notes": [_NOTE],
}


class AliasOut(Out):
    """A name for one of a model's promotions."""

    model_config = example(
        {"alias": "production", "promotion": 3, "actor": "cli:ann", "note": "", "at": ISO}
    )
    alias: str
    promotion: int | None = Field(description="Null: it was taken away.")
    actor: str
    note: str
    at: Iso


class SignatureOut(Out):
    """One signing of a promotion's evidence."""

    model_config = example(
        {"number": 1, "key": DIGEST, "tree": DIGEST, "actor": "cli:ann", "at": ISO}
    )
    number: int
    key: str = Field(description="sha256 of the public key's PEM.")
    tree: str = Field(description="Of the evidence in the artifact store.")
    actor: str
    at: Iso


class NoteOut(Out):
    """What somebody wrote of a promotion after it was made."""

    model_config = ConfigDict(json_schema_extra={"examples": [_NOTE]})
    note: str
    actor: str
    at: Iso


class PositionOut(IncumbentOut):
    """One position of a model's pointer, with the aliases that name it."""

    model_config = example(_POSITION)
    aliases: list[str]
    signature: SignatureOut | None = Field(description="The newest; null: it is not signed.")
    notes: list[NoteOut] = Field(description="What was written of it since, the oldest first.")


class ModelOut(Out):
    """A name under which candidates are promoted."""

    model_config = example(
        {
            "model": "tiny-arithmetic",
            "incumbent": None,
            "families": 1,
            "awaiting": 1,
            "aliases": [],
        }
    )
    model: str
    incumbent: IncumbentOut | None
    families: int
    awaiting: int = Field(description="Families that wait for an approval.")
    aliases: list[AliasOut]


class ModelsOut(Out):
    """Every model."""

    model_config = example({"items": []})
    items: list[ModelOut]


class ModelDetail(ModelOut):
    """A model with the latest changes of its aliases."""

    model_config = example(
        {
            "model": "tiny-arithmetic",
            "incumbent": None,
            "families": 1,
            "awaiting": 1,
            "aliases": [],
            "alias_changes": [],
        }
    )
    alias_changes: list[AliasOut] = Field(description="At most 100, the newest first.")


class EntryPlace(Out):
    """Where in the ledger something was sealed."""

    model_config = example({"chain": "st-7f3a", "seq": 412, "digest": DIGEST})
    chain: str
    seq: int
    digest: str


class PositionDetail(PositionOut, Flagged):
    """A position with everything that its promotion was sealed with."""

    model_config = example(
        {
            **_POSITION,
            "artifact": DIGEST,
            "previous": None,
            "evidence": {"gain": 0.06, "ci95": [0.02, 0.1]},
            "lineage": {"base": DIGEST},
            "entry": {"chain": "st-7f3a", "seq": 412, "digest": DIGEST},
            "signatures": [],
            "card": "# Model card",
        }
    )
    artifact: str
    previous: str | None
    evidence: dict[str, JsonValue] = Field(description="What the gate computed.")
    lineage: dict[str, JsonValue] = Field(
        description="Link by link; empty where an older version promoted it."
    )
    entry: EntryPlace
    signatures: list[SignatureOut]
    card: str = Field(description="The model card, in Markdown.")


class EvidenceOut(Out):
    """The newest signed evidence of a promotion."""

    model_config = example(
        {"model": "tiny-arithmetic", "seq": 3, "artifact": DIGEST, "files": {"card.md": "# M"}}
    )
    model: str
    seq: int
    artifact: str
    files: dict[str, str] = Field(description="By name; the artifact itself is read by digest.")


class FindingOut(Out):
    """One thing that is not as it was."""

    model_config = example({"where": "model/params.json", "problem": "its bytes changed"})
    where: str
    problem: str


class CheckedOut(Out):
    """Whether a promotion is still what was promoted and signed."""

    model_config = example(
        {
            "promotion": "tiny-arithmetic:3",
            "ok": True,
            "signatures": 1,
            "key": DIGEST,
            "key_is_known": True,
            "findings": [],
        }
    )
    promotion: str
    ok: bool
    signatures: int = Field(description="How many of its signings verify.")
    key: str | None = Field(description="That signed it last; null: none did.")
    key_is_known: bool = Field(description="Whether it is one of this ledger's.")
    findings: list[FindingOut] = Field(description="What is wrong; empty: nothing.")


def _wanted(value: JsonValue) -> ConfigDict:
    return ConfigDict(extra="forbid", strict=True, json_schema_extra={"examples": [value]})


Number = Field(ge=1, le=2**31 - 1)
Note = Field(default="", max_length=2000, description="Why, for those who look later.")


class RollBackWanted(BaseModel):
    """An earlier promotion that is to be the incumbent again."""

    model_config = _wanted({"to": 2, "expected": 3, "note": "3 answers too long"})
    to: int = Number
    expected: int = Field(
        ge=1,
        le=2**31 - 1,
        description="The position at which the pointer was seen; elsewhere by now: 409.",
    )
    note: str = Note


class AliasWanted(BaseModel):
    """What an alias is to name."""

    model_config = _wanted({"alias": "production", "promotion": 3, "expected": None, "note": ""})
    alias: str = Field(min_length=1, max_length=64)
    promotion: int | None = Field(ge=1, le=2**31 - 1, description="Null takes the alias away.")
    expected: int | None = Field(
        ge=1, le=2**31 - 1, description="What it was seen to name, null for nothing; else: 409."
    )
    note: str = Note


class ApprovalWanted(BaseModel):
    """Why, for those who look later."""

    model_config = _wanted({"note": "looked at fifty answers"})
    note: str = Note


class NoteWanted(BaseModel):
    """What is to be remembered of a promotion."""

    model_config = _wanted({"note": "3 users say it is terser"})
    note: str = Field(min_length=1, max_length=2000)
