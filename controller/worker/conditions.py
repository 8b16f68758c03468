"""Conditions that hold a study by themselves until they clear."""

from dataclasses import dataclass

from ledger.states import Reason


@dataclass(frozen=True, slots=True)
class Condition:
    """Why the study is held."""

    reason: Reason
    detail: str


def low_disk(free_bytes: int, watermark_bytes: int) -> Condition:
    detail = f"{free_bytes} bytes are free and {watermark_bytes} are wanted; waiting for space"
    return Condition(Reason.DISK_FULL, detail)
