"""Reads a campaign file and the study file it names, or says everything that is wrong at once."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ValidationError

from controller.spec.campaign import (
    CampaignSpec,
    ExperienceSpec,
    RollbackSpec,
    ScheduleSpec,
    ServerSpec,
    ShiftSpec,
    SliceSpec,
)
from controller.spec.documents import Plain, read_document
from controller.spec.errors import Problem, StudyRefused, path, shown
from controller.spec.files import resolve
from controller.spec.loading import load_study, schema_of
from controller.spec.study import StudySpec
from controller.spec.translation import Sections, problems_of
from ledger.records import Json

SECTIONS: Final[Sections] = {
    (): CampaignSpec,
    ("server",): ServerSpec,
    ("experience",): ExperienceSpec,
    ("schedule",): ScheduleSpec,
    ("slices", "*"): SliceSpec,
    ("shift",): ShiftSpec,
    ("rollback",): RollbackSpec,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """A campaign that may be run."""

    spec: CampaignSpec
    study: StudySpec
    """The template."""
    base: Path
    """Where the campaign file's paths start."""
    study_base: Path
    """Where the study file's do."""

    def path(self, name: str) -> Path:
        return resolve(self.base, name)


def load_campaign(file: Path) -> Campaign:
    """The campaign a YAML (or, by its name, JSON) file describes; its files are there.

    Raises:
        StudyRefused: with every problem found, each naming the field, the value and the rule.
    """
    document, problems = read_document(file, "campaign file")
    if not isinstance(document, dict):
        what = "the file is empty" if document is None else "a campaign is a mapping"
        given = "" if document is None else shown(document)
        raise StudyRefused([*problems, Problem("", what, "write name, model, study, …", given)])
    told = {problem.field for problem in problems}
    spec = _validated(document, problems, told)
    base = file.parent
    found = resolve(base, spec.study)
    problems += _missing(spec, base)
    try:
        study = load_study(found)
    except StudyRefused as refused:
        problems += [_below(problem, spec.study) for problem in refused.problems]
        raise StudyRefused(problems) from None
    problems += _broken_rules(spec, study)
    if problems:
        raise StudyRefused(problems)
    return Campaign(spec=spec, study=study, base=base, study_base=found.parent)


def campaign_schema() -> dict[str, Json]:
    """The JSON Schema of a campaign file, for editors."""
    return schema_of(CampaignSpec, "ARL campaign")


def resolved_campaign(spec: BaseModel) -> dict[str, Json]:
    """The whole campaign file with every default, in its own words."""
    document: dict[str, Json] = spec.model_dump(mode="json", by_alias=True)
    return document


def _validated(
    document: Mapping[str, Plain], problems: list[Problem], told: set[str]
) -> CampaignSpec:
    try:
        return CampaignSpec.model_validate_json(json.dumps(document), by_alias=True, by_name=False)
    except ValidationError as error:
        found = problems_of(error, sections=SECTIONS)
        problems += [problem for problem in found if problem.field not in told]
        raise StudyRefused(problems) from None


def _below(problem: Problem, file: str) -> Problem:
    """A problem of the study file, by its place in that file."""
    field = f"study {file}" + (f": {problem.field}" if problem.field else "")
    return Problem(field, problem.rule, problem.remedy, problem.value)


def _missing(spec: CampaignSpec, base: Path) -> Iterator[Problem]:
    directories = {"experience.inbox": spec.experience.inbox, "server.share": spec.server.share}
    for field, value in directories.items():
        if value is not None and not resolve(base, value).is_dir():
            rule = f"there is no directory {resolve(base, value)}"
            yield Problem(field, rule, "create it or name another", shown(value))
    files = {path("slices", name, "file"): one.file for name, one in spec.slices.items()}
    if spec.shift is not None:
        files["shift.reference"] = spec.shift.reference
    for field, value in files.items():
        if not resolve(base, value).is_file():
            rule = f"there is no file {resolve(base, value)}"
            yield Problem(field, rule, "create it or name another", shown(value))


def _broken_rules(spec: CampaignSpec, study: StudySpec) -> Iterator[Problem]:
    where = f"study {spec.study}"
    named = None if study.promotion is None else study.promotion.model
    if named != spec.model:
        rule = f"the campaign is about the model {spec.model}, and its studies promote to that"
        remedy = f"write promotion: {{model: {spec.model}}} in the study file"
        yield Problem(f"{where}: promotion.model", rule, remedy, "" if named is None else named)
    if study.evaluator.mode != "weights":
        rule = "what is served is gated by the frozen evaluator, which has to score answers"
        yield Problem(f"{where}: evaluator.mode", rule, "write weights", study.evaluator.mode)
    if study.budget.trials is None and study.budget.wall_time_s is None:
        rule = "a study that a schedule starts has a bound"
        yield Problem(f"{where}: budget", rule, "write budget.trials or budget.wall_time")
    if spec.shift is not None and spec.shift.least > spec.shift.window:
        yield Problem(
            "shift.least",
            f"it must be at most shift.window, {spec.shift.window}",
            "write a smaller number, or a larger window",
            str(spec.shift.least),
        )
