"""The rules of the `convert` section. They hold for a conversion asked for by hand, too."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

from pydantic import ValidationError

from controller.spec.convert import (
    CALIBRATED,
    DEFAULT_CALIBRATION_ROWS,
    DEFAULT_GROUP,
    DEFAULT_MARGIN_SHARE,
    ConvertSpec,
)
from controller.spec.errors import Problem, shown
from controller.spec.plan_section import planned_settings
from controller.spec.study import StudySpec
from controller.spec.translation import problems_of
from ledger.errors import InvalidInput
from ledger.records import Json

CONFIRMATIONS: Final[Mapping[str, int]] = {"quick": 4, "thorough": 10}
"""Runs of the winner that a promotion profile confirms with."""

Rule: TypeAlias = Callable[[StudySpec], Iterator[Problem]]


def _conversions(spec: StudySpec) -> Iterator[Problem]:
    if spec.convert:
        yield from place_problems(spec, "convert")
    for index, wanted in enumerate(spec.convert):
        yield from conversion_problems(spec, wanted, f"convert[{index}]")
        if wanted in spec.convert[:index]:
            yield Problem(f"convert[{index}]", "it is there already", "remove it", wanted.method)


def place_problems(spec: StudySpec, field: str) -> Iterator[Problem]:
    """What a study must have for anything to be converted."""
    if spec.promotion is None:
        yield Problem(
            field, "only a promoted model is converted", "add promotion, or remove this section"
        )
    if spec.evaluator.mode != "weights":
        yield Problem(
            field,
            f"evaluator.mode is {spec.evaluator.mode}: a converted model is judged by an evaluator"
            " that loads it",
            "write evaluator.mode: weights, or remove this section",
        )
    if spec.target.name == "outside":
        yield Problem(
            field,
            "target outside runs nothing but training programs",
            "remove this section, or let another target run the trials",
        )


def conversion_problems(spec: StudySpec, wanted: ConvertSpec, field: str) -> Iterator[Problem]:
    """What is wrong with one conversion of this study's model."""
    if (wanted.merge is None) == (wanted.quantize is None):
        if wanted.merge is None:
            yield Problem(
                field, "it says nothing to do", "write merge: true or quantize: int8, for example"
            )
        else:
            yield Problem(
                f"{field}.merge",
                "quantize works on the merged weights by itself",
                "remove it, or make two conversions of it",
                shown(wanted.merge),
            )
        return
    if wanted.merge is not None:
        yield from _adapter(spec, wanted, field)
    yield from _unused(wanted, field)
    yield from _margin(spec, wanted, field)
    if wanted.quantize in CALIBRATED and "train" not in spec.program.data:
        yield Problem(
            f"{field}.quantize",
            "it is calibrated on program.data.train, which this study lacks",
            "add it, or write int8 or int4",
            shown(wanted.quantize),
        )
    profile = None if spec.promotion is None else spec.promotion.profile
    confirmations = CONFIRMATIONS.get(profile or "", wanted.seeds)
    if wanted.seeds > confirmations:
        yield Problem(
            f"{field}.seeds",
            f"the winner has {confirmations} confirmation runs under this profile",
            f"write {confirmations} or fewer",
            shown(wanted.seeds),
        )


def _adapter(spec: StudySpec, wanted: ConvertSpec, field: str) -> Iterator[Problem]:
    """Merging and keeping need an adapter beside the model, and the base it belongs to."""
    program = spec.program
    if program.base is None:
        yield Problem(
            f"{field}.merge",
            "the base that the adapter belongs to is not known",
            "name it in program.base",
            shown(wanted.merge),
        )
    if program.kind == "command":
        return
    if "adapter" in program.data:
        yield Problem(
            f"{field}.merge",
            "program.data.adapter is merged into the base before training, so that what is kept"
            " beside the model does not stand on program.base alone",
            "name the merged model in program.base in its place, or remove this conversion",
            shown(wanted.merge),
        )
    said = {**planned_settings(spec), **program.options}
    if "parameterization" not in spec.space and said.get("parameterization", "full") == "full":
        yield Problem(
            f"{field}.merge",
            "the program trains all weights: there is no adapter to merge or to keep",
            "write quantize: int8, for example, or train with parameterization: lora",
            shown(wanted.merge),
        )
    elif "keep_adapter" not in spec.space and said.get("keep_adapter") is not True:
        yield Problem(
            f"{field}.merge",
            "the program merges its adapter itself and keeps none beside the model",
            "write program.options.keep_adapter: true, or remove this conversion",
            shown(wanted.merge),
        )


def _unused(wanted: ConvertSpec, field: str) -> Iterator[Problem]:
    if wanted.group_size is not None and wanted.quantize not in ("int4", *CALIBRATED):
        yield Problem(
            f"{field}.group_size",
            f"{wanted.method} has a scale for each row and no groups",
            "remove it",
            shown(wanted.group_size),
        )
    if wanted.calibration_rows is not None and wanted.quantize not in CALIBRATED:
        yield Problem(
            f"{field}.calibration_rows",
            f"{wanted.method} is not calibrated",
            "remove it",
            shown(wanted.calibration_rows),
        )


def _margin(spec: StudySpec, wanted: ConvertSpec, field: str) -> Iterator[Problem]:
    if wanted.margin is None and _default_margin(spec) is None:
        yield Problem(
            f"{field}.margin",
            f"evaluator.metrics.{spec.objective.metric} declares no range to take 2 % of",
            "write how much worse still counts as no worse, or declare low and high",
        )


def _default_margin(spec: StudySpec) -> float | None:
    metric = spec.evaluator.metrics.get(spec.objective.metric)
    if metric is None or metric.low is None or metric.high is None or metric.high <= metric.low:
        return None
    return DEFAULT_MARGIN_SHARE * (metric.high - metric.low)


def resolved_conversion(spec: StudySpec, wanted: ConvertSpec) -> dict[str, Json]:
    """Its settings with every default that applies, as the ledger keeps them."""
    settings: dict[str, Json] = {
        "method": wanted.method,
        "margin": wanted.margin if wanted.margin is not None else _default_margin(spec),
        "alpha": wanted.alpha,
        "seeds": wanted.seeds,
        "python": wanted.python,
    }
    if wanted.quantize in ("int4", *CALIBRATED):
        settings["group_size"] = wanted.group_size or DEFAULT_GROUP
    if wanted.quantize in CALIBRATED:
        settings["calibration_rows"] = wanted.calibration_rows or DEFAULT_CALIBRATION_ROWS
    return settings


def parse_conversion(spec: StudySpec, given: object) -> ConvertSpec:
    """A conversion asked for by hand, held to the study file's rules.

    Raises:
        InvalidInput: naming the field, the value and the rule.
    """
    try:
        wanted = ConvertSpec.model_validate_json(json.dumps(given))
    except ValidationError as error:
        raise InvalidInput("; ".join(map(str, problems_of(error, at=("convert", 0))))) from None
    problems = [*place_problems(spec, "convert"), *conversion_problems(spec, wanted, "convert[0]")]
    if problems:
        raise InvalidInput("; ".join(map(str, problems)))
    return wanted


CONVERT_RULES: Final[tuple[tuple[tuple[str, ...], Rule], ...]] = (
    (
        ("convert", "promotion", "evaluator", "objective", "program", "space", "target"),
        _conversions,
    ),
)
