"""The options of Optuna's samplers, readable without Optuna."""

from pydantic import Field

from proposers.options import HostedOptions, Options


class TpeOptions(Options):
    startup_trials: int = Field(default=10, ge=0, le=10_000)
    """Points drawn at random before the first that is modelled."""
    candidates: int = Field(default=24, ge=1, le=10_000)
    """How many points are weighed for each proposal."""


class GpOptions(HostedOptions):
    startup_trials: int = Field(default=10, ge=1, le=10_000)
    """Points drawn at random before the first that is modelled."""


class CmaesOptions(Options):
    population: int | None = Field(default=None, ge=2, le=10_000)
    """Points of one generation; default: 4 + 3 ln(number of parameters)."""
    follows: bool = False
    """Whether it starts again around a point of somebody else's that is better than all its own
    and out of its reach. As an arm of a hybrid it does, unless false is written."""


class Nsga2Options(Options):
    population: int = Field(default=50, ge=2, le=10_000)
    """Points of one generation; the first is drawn at random."""
