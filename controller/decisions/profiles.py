"""The gate's parameter sets and the error rates that simulation measured for each."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Final, Literal, TypeAlias

from ledger.errors import Conflict, InvalidInput
from ledger.records import Json

ProfileName: TypeAlias = Literal["quick", "thorough"]

_FIRST_SHARE: Final = 0.8
"""Of alpha, for a study's first family; the rest is kept for a second try (.04 and .01)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateProfile:
    """How many runs each stage of the gate takes, and what it must show."""

    name: str
    m: int
    """At most so many candidates in a family."""
    k1: int
    """Stage 1: runs of each candidate, on holdout half A."""
    k2: int
    """Stage 2: runs of the best one, on half B; even, since it stops half-way when hopeless."""
    n0: int
    """Runs of the incumbent in the pool, scored on both halves."""
    n_new: int
    """Confirmation: fresh runs of the best candidate, on both halves."""
    n_old: int
    """Confirmation: fresh runs of the incumbent, on both halves."""
    alpha: float = 0.05
    min_effect: float = 0.0
    """The user's cost of change, in the metric's unit; never derived from noise."""

    def __post_init__(self) -> None:
        if self.k2 < 2 or self.k2 % 2:
            raise InvalidInput(f"profile.k2 is {self.k2}, but must be even and at least 2")
        if min(self.m, self.k1) < 1 or min(self.n0, self.n_new, self.n_old) < 2:
            raise InvalidInput("profile: m and k1 must be at least 1; n0, n_new and n_old, 2")
        if not 0.0 < self.alpha < 1.0:
            raise InvalidInput(f"promotion.alpha is {self.alpha}; write a value such as 0.05")
        if not self.min_effect >= 0.0:
            raise InvalidInput(f"promotion.min_effect is {self.min_effect}; write 0 or more")


QUICK: Final = GateProfile(name="quick", m=2, k1=1, k2=4, n0=5, n_new=4, n_old=3)
THOROUGH: Final = GateProfile(name="thorough", m=3, k1=2, k2=6, n0=10, n_new=10, n_old=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorRates:
    """Measured by `python -m benchmarks.decisions`, 2,000 simulated studies each, at alpha .05
    and min_effect 0: 100 screened candidates, 5 of them with an effect in standard deviations
    between runs. `docs/decisions.md` has the conditions and the whole table."""

    false_promotion: float
    """When no candidate is better, under normal noise."""
    false_promotion_worst: float
    """The same under the worst of the eight kinds of noise."""
    power_1_sd: float
    """Share of studies that promote a really better candidate, under normal noise."""
    power_2_sd: float
    power_3_sd: float


ERROR_RATES: Final[Mapping[str, ErrorRates]] = {
    "quick": ErrorRates(
        false_promotion=0.019,
        false_promotion_worst=0.028,
        power_1_sd=0.09,
        power_2_sd=0.68,
        power_3_sd=0.97,
    ),
    "thorough": ErrorRates(
        false_promotion=0.021,
        false_promotion_worst=0.033,
        power_1_sd=0.22,
        power_2_sd=0.90,
        power_3_sd=1.00,
    ),
}

PROFILES: Final[Mapping[str, GateProfile]] = {p.name: p for p in (QUICK, THOROUGH)}


def profile_for(
    name: ProfileName,
    *,
    alpha: float = 0.05,
    min_effect: float = 0.0,
    families_before: int = 0,
    tries: int = 2,
) -> GateProfile:
    """The profile a study's next family is judged by.

    One study has one error budget, alpha. With `tries=2` (the default) its first family gets
    four fifths of it and a second try the rest, whatever happens in between, so that both
    together err at most alpha of the time; `tries=1` gives the first family all of it.

    Args:
        families_before: how many families this study has opened already.

    Raises:
        Conflict: the study's error budget is spent.
    """
    if families_before >= tries:
        raise Conflict(
            f"this study has used its {tries} replay families and with them its error budget"
            f" (alpha {alpha}); start a new study to try again"
        )
    share = 1.0
    if tries == 2:
        share = _FIRST_SHARE if families_before == 0 else 1.0 - _FIRST_SHARE
    elif tries != 1:
        raise InvalidInput(f"tries is {tries}; a study may have 1 or 2 replay families")
    return replace(PROFILES[name], alpha=round(alpha * share, 12), min_effect=min_effect)


def gate_runs_bounds(profile: GateProfile, *, candidates: int | None = None) -> tuple[int, int]:
    """Fewest and most runs a family takes, besides the pool's `n0` baselines."""
    members = profile.m if candidates is None else min(candidates, profile.m)
    first = members * profile.k1
    return first, first + profile.k2 + profile.n_new + profile.n_old


def profile_document(profile: GateProfile) -> dict[str, Json]:
    """As sealed into the ledger with the family."""
    return asdict(profile)


def read_profile(document: Mapping[str, Json]) -> GateProfile:
    """The inverse of `profile_document`."""
    return GateProfile(**document)  # type: ignore[arg-type]  # written by profile_document
