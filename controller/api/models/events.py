"""Events, entries and chains on the wire."""

from pydantic import Field, JsonValue

from controller.api.models.study_parts import HeadOut
from controller.api.models.wire import DIGEST, ISO, Flagged, Iso, Out, example


class EventOut(Flagged):
    """One thing that happened in a study."""

    model_config = example(
        {
            "seq": 311,
            "kind": "trial_decided",
            "at": ISO,
            "payload": {"trial_id": "st-7f3a-t12", "verdict": "keep", "value": 0.71},
        }
    )
    seq: int
    kind: str
    at: Iso
    payload: dict[str, JsonValue]


class EventsOut(Out):
    """Events in their order, and how long the chain is."""

    model_config = example({"study": "st-7f3a", "items": [], "head_seq": 311, "next_since": 311})
    study: str
    items: list[EventOut]
    head_seq: int
    next_since: int = Field(description="Give it back as `since` for what comes after.")


class EntryOut(Flagged):
    """One link of a chain."""

    model_config = example(
        {
            "chain": "st-7f3a",
            "seq": 311,
            "kind": "trial_decided",
            "at": ISO,
            "payload": {"trial_id": "st-7f3a-t12"},
            "previous": DIGEST,
            "digest": DIGEST,
        }
    )
    chain: str
    seq: int
    kind: str
    at: Iso
    payload: dict[str, JsonValue]
    previous: str
    digest: str


class EntriesOut(Out):
    """Links in the order asked for."""

    model_config = example({"chain": "st-7f3a", "items": [], "head_seq": 311, "next_after": None})
    chain: str
    items: list[EntryOut]
    head_seq: int
    next_after: int | None = Field(description="`after` of the next page; null on the last.")


class LinkOut(Out):
    """A link of a chain as it is stored."""

    model_config = example(
        {"seq": 311, "kind": "trial_decided", "body": '{"at":1.5,"kind":…}', "digest": DIGEST}
    )
    seq: int
    kind: str
    body: str = Field(description="Canonical JSON; not to be written anew before it is hashed.")
    digest: str = Field(description="sha256 of the digest before it and the body, as text.")


class LinksOut(Out):
    """Links in their order, and where the chain's head row says that it ends."""

    model_config = example(
        {
            "chain": "st-7f3a",
            "items": [],
            "head": {"seq": 311, "digest": DIGEST},
            "next_after": None,
        }
    )
    chain: str
    items: list[LinkOut]
    head: HeadOut
    next_after: int | None = Field(description="`after` of the next page; null on the last.")


class ChainOut(Out):
    """Where a chain ends, and how far it was recomputed."""

    model_config = example(
        {
            "chain": "st-7f3a",
            "seq": 311,
            "digest": DIGEST,
            "kinds": ["study_submitted", "trial_decided"],
            "verified_seq": 311,
            "is_whole": True,
            "problem": None,
        }
    )
    chain: str
    seq: int
    digest: str
    kinds: list[str]
    verified_seq: int = Field(
        description="Up to here each digest was recomputed from the stored text; asking again "
        "goes on from there."
    )
    is_whole: bool | None = Field(description="Null: not recomputed to its end yet.")
    problem: str | None = Field(description="The first link that is wrong, and how.")
