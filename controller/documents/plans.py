"""What a study file means before anything runs, as a document."""

from controller.decisions.pricing import ProfilePrice, Range, StudyPrice
from controller.decisions.profiles import ERROR_RATES, ErrorRates
from controller.documents.plan_system import System, system_document
from controller.spec.study import StudySpec
from ledger.records import Json


def plan_document(spec: StudySpec, price: StudyPrice, system: System | None) -> dict[str, Json]:
    """As `arl plan --json` prints it."""
    return {
        "name": spec.name,
        "valid": True,
        "parallel": price.parallel,
        "trial_wall_s": price.trial_wall_s,
        "search_trials": price.search_trials,
        "limited_by": None if price.limited_by is None else str(price.limited_by),
        "profiles": [_profile(found) for found in price.profiles],
        **system_document(system),
    }


def _profile(price: ProfilePrice) -> dict[str, Json]:
    rates = ERROR_RATES.get(price.profile or "")
    return {
        "profile": price.profile,
        "baseline_trials": price.baseline_trials,
        "gate_runs": _range(price.gate_runs),
        "trials": _range(price.trials),
        "hours": _range(price.hours),
        "gpu_hours": _range(price.gpu_hours),
        "worst_hours": price.worst_hours,
        "worst_gpu_hours": price.worst_gpu_hours,
        "error_rates": None if rates is None else _rates(rates),
    }


def _rates(rates: ErrorRates) -> dict[str, Json]:
    """Shares, by simulation; the figures' conditions are in docs/decisions.md."""
    return {
        "false_promotion": rates.false_promotion,
        "false_promotion_worst_noise": rates.false_promotion_worst,
        "power_1_sd": rates.power_1_sd,
        "power_2_sd": rates.power_2_sd,
        "power_3_sd": rates.power_3_sd,
    }


def _range(found: Range | None) -> Json:
    if found is None:
        return None
    return {"least": found.least, "typical": found.typical, "most": found.most}
