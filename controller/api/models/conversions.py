"""Conversions of a promoted model on the wire."""

from pydantic import Field, JsonValue

from controller.api.models.wire import DIGEST, ISO, Iso, Number, Out, example
from ledger.states import ConversionState, Reason

_FIGURE: JsonValue = {
    "name": "tokens_per_s",
    "unconverted": 410.0,
    "converted": 655.0,
    "ratio": 1.6,
}


class FigureOut(Out):
    """One figure of the promoted model, before and after, measured in one run."""

    model_config = example(_FIGURE)
    name: str = Field(
        description="first_token_s, token_s, tokens_per_s, load_s, size_bytes, peak_memory_bytes"
        " or own_memory_bytes."
    )
    unconverted: Number
    converted: Number
    ratio: Number = Field(description="converted / unconverted.")


class ConversionOut(Out):
    """What was made of a promoted model, and whether it may be served."""

    model_config = example(
        {
            "conversion": "st-7f3a-v1",
            "study": "st-7f3a",
            "number": 1,
            "candidate": "st-7f3a-c12",
            "model": "tiny-arithmetic",
            "method": "int8",
            "settings": {"method": "int8", "margin": 0.02, "alpha": 0.05, "seeds": 1},
            "state": "servable",
            "servable": True,
            "reason": "not_inferior",
            "detail": "no worse by 0.02 on 512 items (p 0.0004)",
            "unconverted": DIGEST,
            "converted": DIGEST,
            "figures": [_FIGURE],
            "evidence": {"difference": -0.002, "lower": -0.009, "p": 0.0004},
            "actor": "gate",
            "created_at": ISO,
            "ended_at": ISO,
        }
    )
    conversion: str
    study: str
    number: int
    candidate: str
    model: str
    method: str = Field(description="merge, keep, int8, int4, gptq or awq.")
    settings: dict[str, JsonValue]
    state: ConversionState
    servable: bool
    reason: Reason | None
    detail: str
    unconverted: str = Field(description="Tree digest of the promoted model.")
    converted: str | None = Field(description="Of what was made of it.")
    figures: list[FigureOut]
    evidence: dict[str, JsonValue]
    actor: str
    created_at: Iso
    ended_at: Iso | None
