"""Facts of the service chain, which belong to no one study: pointers, aliases, signatures,
tokens, requests, campaigns."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from ledger.campaign_entries import CampaignEntry
from ledger.records import Json, Split


@dataclass(frozen=True, slots=True, kw_only=True)
class IncumbentSet:
    """A model's pointer moved (promotion or roll back)."""

    kind: ClassVar[str] = "incumbent_set"
    model: str
    seq: int
    candidate_id: str
    study_id: str
    family_id: str | None
    comparison: str
    approver: str
    note: str
    rolled_back_to: int | None = None
    """The earlier position whose candidate has the pointer again; None for a promotion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AliasSet:
    """An alias of a model names another of its promotions now, or none any more."""

    kind: ClassVar[str] = "alias_set"
    model: str
    alias: str
    revision: int
    promotion: int | None
    """Position in the history of the model's pointer; None: the alias is taken away."""
    actor: str
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PromotionNoted:
    """Somebody wrote down what they know of a promotion; nothing else changes by it."""

    kind: ClassVar[str] = "promotion_noted"
    model: str
    seq: int
    note: str
    actor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningKeyMade:
    """A key that promotions are signed with. The private half is written nowhere here."""

    kind: ClassVar[str] = "signing_key_made"
    key_id: str
    """sha256 of `public_key`."""
    public_key: str
    """PEM."""
    actor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PromotionSigned:
    """Evidence of a promotion was made and signed, and is in the artifact store."""

    kind: ClassVar[str] = "promotion_signed"
    model: str
    seq: int
    number: int
    """Counts the signings of one promotion from 1."""
    tree: str
    key_id: str
    actor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCreated:
    """An access token was given out. The token itself is written nowhere."""

    kind: ClassVar[str] = "token_created"
    token_id: str
    name: str
    digest: str
    """sha256 of the token."""
    scopes: tuple[str, ...]
    expires_at: float | None
    actor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRevoked:
    kind: ClassVar[str] = "token_revoked"
    token_id: str
    actor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestMade:
    """A request through the API changed something: who asked for what, and the answer."""

    kind: ClassVar[str] = "request_made"
    method: str
    route: str
    """The route's template below /api/v1, like `/studies/{study}/pause`."""
    subject: str
    """What the route's parameters named, like `study=s1a2b3c4d5`; empty without any."""
    body_digest: str
    """sha256 of the body as it came; empty without one."""
    status: int
    actor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingJudged:
    """A served model was asked a frozen evaluator's items, and compared."""

    kind: ClassVar[str] = "serving_judged"
    name: str
    """Under which it is, or would be, served."""
    served_as: str
    """Its own name on the server: the public one and the beginning of its digest."""
    endpoint: str
    candidate_id: str
    study_id: str
    artifact_digest: str
    form: str
    """`adapter`, `full` or `quantised`."""
    bundle_digest: str
    splits: tuple[Split, ...]
    margin: float
    """How much worse, in the objective's unit, it may be and still pass."""
    shadow: bool
    """Whether it was only looked at: whatever the verdict, nothing is switched."""
    passed: bool
    value: float
    """Of the objective, over all items of the splits."""
    scores: Mapping[str, float]
    items: int
    comparisons: tuple[Mapping[str, Json], ...]
    """Each with against, difference, low95, items and holds; larger differences are better."""
    measured: Mapping[str, Mapping[str, float]]
    """Of `candidate` and, where there is one, `incumbent`: latencies and tokens a second."""
    answers_digest: str
    """Tree with every answer that was scored."""
    actor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingSet:
    """What is served under a name is another one now (or the same on another server)."""

    kind: ClassVar[str] = "serving_set"
    name: str
    seq: int
    """Counts from 1 for each name."""
    served_as: str
    endpoint: str
    candidate_id: str
    study_id: str
    artifact_digest: str
    judged: int | None
    """Number, in the service chain, of the gate that it passed; None: it was put back."""
    actor: str
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingFailed:
    """Something went wrong on the way; what is served under the name stayed as it was recorded."""

    kind: ClassVar[str] = "serving_failed"
    name: str
    served_as: str
    endpoint: str
    stage: str
    """`load`, `gate` or `switch`."""
    detail: str
    actor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreAccepted:
    """An operator goes on with an older copy of the ledger: what came after it is given up."""

    kind: ClassVar[str] = "restore_accepted"
    held: int
    """Entries of all chains that the older copy had."""
    witnessed: int
    """Entries that there had been."""
    lost: int
    heads: tuple[Mapping[str, Json], ...]
    """Recorded ends of chains that are not reached any more, each with chain, seq and digest."""
    actor: str
    note: str


RegistryEntry: TypeAlias = (
    IncumbentSet | AliasSet | PromotionNoted | SigningKeyMade | PromotionSigned
)
ServiceEntry: TypeAlias = (
    RegistryEntry
    | TokenCreated
    | TokenRevoked
    | RequestMade
    | ServingJudged
    | ServingSet
    | ServingFailed
    | RestoreAccepted
    | CampaignEntry
)
