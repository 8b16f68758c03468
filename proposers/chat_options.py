"""The options of proposers that ask language models."""

from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator

from proposers.options import Options

MOST_ENDPOINTS: Final = 8
OWN_KEYS: Final = frozenset(
    {"model", "messages", "max_tokens", "max_completion_tokens", "response_format", "stream", "n"}
)
"""Keys of a request that ARL writes itself."""


class TokenPrice(BaseModel):
    """What an endpoint charges, in US dollars per million tokens."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    prompt_usd_per_million: float = Field(default=0.0, ge=0, le=1e6, allow_inf_nan=False)
    completion_usd_per_million: float = Field(default=0.0, ge=0, le=1e6, allow_inf_nan=False)


class Endpoint(BaseModel):
    """One OpenAI-compatible server and a model that it serves."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    url: str = Field(max_length=1000)
    """Its base, like http://localhost:8000/v1."""
    model: str = Field(min_length=1, max_length=200)
    secret: str | None = Field(default=None, pattern=r"^ARL_SECRET_[A-Z0-9_]+$")
    """Name of the variable in ARL's environment that holds its key; none: no key is sent."""
    price: TokenPrice = TokenPrice()
    """What budget.llm_cost_usd counts; nothing where nothing is said."""
    token_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """What the server calls the longest answer."""
    extra: dict[str, object] = Field(default_factory=dict)
    """Further keys of each request, like reasoning_effort or chat_template_kwargs."""

    @field_validator("url")
    @classmethod
    def _check_url(cls, url: str) -> str:
        try:
            parts = urlsplit(url)
            good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            good = False
        else:
            good = good and not (parts.username or parts.password or parts.query or parts.fragment)
        if not good or not url.isascii() or any(c.isspace() for c in url):
            raise ValueError("write it like https://host/v1, and a key as secret: ARL_SECRET_NAME")
        return url.rstrip("/")

    @field_validator("extra")
    @classmethod
    def _check_extra(cls, extra: dict[str, object]) -> dict[str, object]:
        taken = sorted(OWN_KEYS & extra.keys())
        if taken:
            raise ValueError(f"{', '.join(taken)}: ARL writes that itself")
        return extra


class ModelOptions(Options):
    """Of every proposer that asks a language model."""

    endpoints: Annotated[tuple[Endpoint, ...], Field(strict=False)]
    """Asked in this order: the next one only where the one before does not answer."""
    max_tokens: int = Field(default=4096, ge=16, le=200_000)
    """Of one answer."""
    temperature: float | None = Field(default=None, ge=0, le=2)
    """Default: the server's."""
    prompt_tokens: int = Field(default=32_000, ge=2000, le=1_000_000)
    """A prompt that could have more is shortened: the oldest trials are left out first."""
    corrections: int = Field(default=2, ge=0, le=2)
    """How often a model is told what was wrong with its answer, and asked again."""
    tries: int = Field(default=3, ge=1, le=10)
    """Requests to one endpoint before the next one is asked."""
    connect_s: float = Field(default=10.0, gt=0, le=600)
    read_s: float = Field(default=300.0, gt=0, le=3600)
    """The longest silence: answers come whole, so a model thinks in it."""
    write_s: float = Field(default=30.0, gt=0, le=600)
    total_s: float = Field(default=300.0, gt=0, le=3600)
    """Of one request, from resolving the name to the last byte of the answer."""
    first_wait_s: float = Field(default=0.5, gt=0, le=60)
    """Before the second try; it doubles with each one, and is jittered."""
    longest_wait_s: float = Field(default=10.0, gt=0, le=600)
    """A server that asks for more (Retry-After) is left alone until then."""
    first_rest_s: float = Field(default=15.0, gt=0, le=600)
    """An endpoint whose tries all failed is not asked for so long; it doubles each time."""
    longest_rest_s: float = Field(default=300.0, gt=0, le=3600)
    answer_bytes: int = Field(default=4 * 1024 * 1024, ge=1024, le=64 * 1024 * 1024)
    """A larger answer is refused while it comes."""

    @field_validator("endpoints")
    @classmethod
    def _check_number(cls, endpoints: tuple[Endpoint, ...]) -> tuple[Endpoint, ...]:
        if not 1 <= len(endpoints) <= MOST_ENDPOINTS:
            raise ValueError(f"name one endpoint at least, and at most {MOST_ENDPOINTS}")
        return endpoints


class LLMOptions(ModelOptions):
    """Of `llm`."""

    fallback: str = Field(default="random", min_length=1)
    """What proposes where the model gives nothing valid: random, another proposer without options
    and models, or none."""
    when_unreachable: Literal["wait", "fallback"] = "wait"
    """What happens while no endpoint answers."""


class LLMDiffOptions(ModelOptions):
    """Of `llm_diff`."""

    max_tokens: int = Field(default=8192, ge=16, le=200_000)
    parents: Literal["best", "tournament", "islands"] = "islands"
    """Which candidate is changed next: the best so far, the best of a few drawn ones, or that of
    separate lines of descent which meet now and then."""
    tournament_size: int = Field(default=3, ge=1, le=100)
    islands: int = Field(default=4, ge=1, le=100)
    migrate_every: int = Field(default=5, ge=1, le=1000)
    """islands: after so many turns each island takes the best candidate of all."""
