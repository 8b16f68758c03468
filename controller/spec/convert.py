"""The `convert` section of a study file: what is made of a promoted model, and its margin."""

from typing import Final, Literal, TypeAlias

from pydantic import Field

from controller.spec.strict import Strict
from controller.spec.target import NonEmpty

Quantization: TypeAlias = Literal["int8", "int4", "gptq", "awq"]

DEFAULT_GROUP: Final = 32
DEFAULT_CALIBRATION_ROWS: Final = 128
DEFAULT_MARGIN_SHARE: Final = 0.02
"""Of the objective's declared range: two points of an exact match between 0 and 1."""
CALIBRATED: Final = ("gptq", "awq")


class ConvertSpec(Strict):
    """One conversion of the promoted model. Exactly one of merge and quantize is given."""

    merge: bool | None = None
    """true: merge the adapter into the base; false: keep it beside the base, as it is served
    by a server that loads adapters."""
    quantize: Quantization | None = None
    """int8, int4: weight-only, by torchao; gptq, awq: 4 bits with calibration, by llm-compressor.
    Works on the merged weights."""
    group_size: int | None = Field(default=None, ge=1, le=4096)
    """int4, gptq, awq: weights that share a scale; default 32."""
    calibration_rows: int | None = Field(default=None, ge=1, le=100_000)
    """gptq, awq: rows of the training data that are shown to the model; default 128."""
    margin: float | None = Field(default=None, gt=0)
    """How much worse on the holdout, in the unit of the per-item scores, still counts as no
    worse; default: 2 % of the objective's declared range."""
    alpha: float = Field(default=0.05, gt=0, lt=0.5)
    """The chance that a model worse by the margin passes."""
    seeds: int = Field(default=1, ge=1, le=100)
    """How many of the winner's confirmation runs are converted and judged together."""
    python: NonEmpty | None = None
    """Interpreter that converts, and in which the result is measured and evaluated; default:
    program.python and evaluator.python. It has torchao, or llm-compressor."""

    @property
    def method(self) -> str:
        """What it is called: merge, keep, int8, int4, gptq or awq."""
        if self.quantize is not None:
            return self.quantize
        return "merge" if self.merge else "keep"
