"""The pruners by name, the reason that each gives, and what each imports."""

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from ledger.states import Reason

WrappedName: TypeAlias = Literal[
    "median", "percentile", "asha", "hyperband", "threshold", "wilcoxon", "power_law"
]
PrunerName: TypeAlias = Literal[
    "none",
    "median",
    "percentile",
    "asha",
    "hyperband",
    "threshold",
    "patient",
    "wilcoxon",
    "power_law",
]

Margin: TypeAlias = Literal["auto", "none"]

REASONS: Final[Mapping[PrunerName, Reason]] = {
    "median": Reason.PRUNED_MEDIAN,
    "percentile": Reason.PRUNED_PERCENTILE,
    "asha": Reason.PRUNED_ASHA,
    "hyperband": Reason.PRUNED_HYPERBAND,
    "threshold": Reason.PRUNED_THRESHOLD,
    "patient": Reason.PRUNED_PATIENT,
    "wilcoxon": Reason.PRUNED_WILCOXON,
    "power_law": Reason.PRUNED_FORECAST,
}
MODULES: Final[Mapping[PrunerName, tuple[str, ...]]] = {
    "asha": ("optuna",),
    "hyperband": ("optuna",),
    "wilcoxon": ("optuna", "scipy"),
}
"""What pruners import that not every installation has; `pip install 'arl[optuna]'` brings it."""
