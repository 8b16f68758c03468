"""The fact that a section of a study's file was changed after the start, budgets apart."""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from ledger.records import Json


class Setting(StrEnum):
    """A section of the study file, other than its budgets, that may change after the start."""

    PARALLEL = "parallel"
    PRIORITY = "priority"
    STOP = "stop"
    WEIGHT = "weight"


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingChanged:
    """From here on the study's section is `value`, whole. No row holds it: who needs what a study
    goes by reads its file and these."""

    kind: ClassVar[str] = "setting_changed"
    setting: Setting
    value: Json
