"""The target that a command line names: by a study file, by options, or as `auto`."""

from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from controller.places import auto_here
from controller.settings import Settings
from controller.spec.loading import load_study
from controller.spec.target import TargetSpec
from controller.spec.target_rules import KEYS, NEEDED
from ledger.errors import InvalidInput


def chosen_target(
    name: str | None, study: Path | None, given: Mapping[str, str | None], settings: Settings
) -> TargetSpec:
    """The section of the study file, with what the options say instead of its own; its name
    settled. Raises InvalidInput naming the option, and StudyRefused."""
    section: dict[str, object] = {}
    if study is not None:
        section = load_study(study).target.model_dump(exclude_defaults=True)
    section.update({key: value for key, value in given.items() if value is not None})
    if name is not None:
        section["name"] = name
    if section.get("name", "auto") == "auto":
        section["name"] = auto_here(settings)[0]
    try:
        spec = TargetSpec.model_validate(section)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        option = "--target" if where == "name" else f"--{where}"
        raise InvalidInput(f"{option} {first['input']!r}: {first['msg']}") from None
    _check_keys(spec)
    return spec


def _check_keys(spec: TargetSpec) -> None:
    for key, readers in KEYS.items():
        if getattr(spec, key) and spec.name not in readers:
            raise InvalidInput(
                f"--{key}: target {spec.name} does not read it; leave it out, or write --target "
                f"{' or '.join(readers)}"
            )
    for key, remedy in NEEDED.get(spec.name, {}).items():
        if not getattr(spec, key):
            raise InvalidInput(f"--{key}: target {spec.name} needs it: {remedy}")
