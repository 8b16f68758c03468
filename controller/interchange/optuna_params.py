"""Parameters between Optuna's distributions and ARL's, both ways."""

import json
import math
import warnings
from functools import lru_cache

from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
    json_to_distribution,
)

from controller.interchange.observed_space import Parameter
from controller.interchange.spool import is_storable
from ledger.records import ParamValue
from proposers.search_space import Categorical, Distribution, Float

# --- from Optuna ---


@lru_cache(maxsize=4096)
def read_distribution(text: str) -> BaseDistribution:
    with warnings.catch_warnings():
        # It warns of choices that are lists; they come over as JSON.
        warnings.simplefilter("ignore")
        return json_to_distribution(text)


def choice_index(distribution: CategoricalDistribution, stored: float) -> int:
    if stored != int(stored) or not 0 <= stored < len(distribution.choices):
        raise ValueError(f"{stored!r} is no choice's number")
    return int(stored)


def number_value(distribution: BaseDistribution, stored: float) -> int | float:
    value: int | float = distribution.to_external_repr(stored)
    if isinstance(value, bool) or not math.isfinite(value):
        raise ValueError(f"{value!r} is no parameter's value")
    return value


def choice_value(choice: object) -> ParamValue:
    """As it is where ARL has such values; else as JSON, which Optuna stores it as."""
    if isinstance(choice, str) and is_storable(choice):
        return choice
    if isinstance(choice, bool | int) or (isinstance(choice, float) and math.isfinite(choice)):
        return choice
    return json.dumps(choice)


def wider(known: Parameter | None, distribution: BaseDistribution) -> Parameter:
    """The parameter of a study file that holds all that Optuna drew from."""
    found = _parameter(distribution)
    if known is None or known == found:
        return found
    if known["type"] != found["type"]:
        return known
    if found["type"] == "categorical":
        old, new = _listed(known["choices"]), _listed(found["choices"])
        return {**known, "choices": [*old, *(c for c in new if not _holds(old, c))]}
    low, high = (
        pick(_real(known[end]), _real(found[end])) for end, pick in (("low", min), ("high", max))
    )
    merged: Parameter = {**known, "low": low, "high": high}
    if known.get("log") != found.get("log"):
        merged["log"] = False
    if known.get("step") != found.get("step") or known["low"] != found["low"]:
        merged.pop("step", None)
    return merged


def _parameter(distribution: BaseDistribution) -> Parameter:
    if isinstance(distribution, CategoricalDistribution):
        return {"type": "categorical", "choices": [choice_value(c) for c in distribution.choices]}
    if isinstance(distribution, IntDistribution):
        parameter: Parameter = {"type": "int", "low": distribution.low, "high": distribution.high}
    elif isinstance(distribution, FloatDistribution):
        parameter = {"type": "float", "low": distribution.low, "high": distribution.high}
    else:
        raise TypeError(f"{type(distribution).__name__} is a distribution that ARL does not know")
    if distribution.log:
        parameter["log"] = True
    if distribution.step is not None and (distribution.step != 1 or parameter["type"] == "float"):
        parameter["step"] = distribution.step
    return parameter


def _listed(value: object) -> list[ParamValue]:
    return list(value) if isinstance(value, list) else []


def _holds(choices: list[ParamValue], choice: ParamValue) -> bool:
    return any(type(c) is type(choice) and c == choice for c in choices)


def _real(value: object) -> int | float:
    if isinstance(value, int | float):
        return value
    raise TypeError(f"{value!r} is no number")


# --- to Optuna ---


def optuna_distribution(
    distribution: Distribution,
) -> CategoricalDistribution | FloatDistribution | IntDistribution:
    """As Optuna has it. It knows no steps in a logarithm: those are left out there."""
    if isinstance(distribution, Categorical):
        return CategoricalDistribution(distribution.choices)
    low, high, log = distribution.low, distribution.high, distribution.log
    step = None if log else distribution.step
    if isinstance(distribution, Float):
        return FloatDistribution(low, _last(distribution, step), log=log, step=step)
    last = int(high) if log else int(_last(distribution, step))
    return IntDistribution(int(low), last, log=log, step=int(step or 1))


def _last(distribution: Distribution, step: float | None) -> float:
    """The largest value that there is: Optuna warns of an end between two steps."""
    if isinstance(distribution, Categorical):
        raise TypeError("choices have no end")
    size = distribution.size
    return distribution.high if step is None or size is None else distribution.at(size - 1)


def index_of(distribution: Categorical, value: ParamValue) -> float:
    same = [i for i, c in enumerate(distribution.choices) if type(c) is type(value) and c == value]
    equal = [i for i, choice in enumerate(distribution.choices) if choice == value]
    return float([*same, *equal][0])
