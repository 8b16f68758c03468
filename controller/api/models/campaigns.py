"""Campaigns on the wire: what came in, what was measured, what rang."""

from pydantic import Field, JsonValue

from controller.api.models.wire import DIGEST, ISO, Flagged, Iso, Number, Out, example

_ROW: dict[str, JsonValue] = {
    "campaign": "support-live",
    "model": "support",
    "state": "active",
    "new_records": 120,
    "studies": 3,
    "running": None,
    "alarms": 1,
    "open_alarm": None,
    "began_at": ISO,
    "changed_at": ISO,
}
_EXPERIENCE: dict[str, JsonValue] = {
    "files": 12,
    "training": 2400,
    "held_out": 260,
    "without_consent": 31,
    "invalid": 1,
    "duplicates": 4,
    "problems": ["a.jsonl: line 7: completion is empty"],
}
_STUDY: dict[str, JsonValue] = {
    "study": "s1a2b3c4d5",
    "number": 3,
    "state": "completed",
    "records": 2400,
    "rows": 3400,
    "promotion": 4,
    "submitted_at": ISO,
}
_SLICE: dict[str, JsonValue] = {
    "slice": "basics",
    "served_as": "support@9f86d081884c",
    "value": 0.91,
    "against": DIGEST,
    "comparison": {"drop": 0.01, "low95": -0.01, "high95": 0.03, "items": 200},
    "forgotten": False,
    "at": ISO,
}
_ALARM: dict[str, JsonValue] = {
    "number": 17,
    "alarm": "forgetting",
    "action": "roll_back",
    "detail": "slice basics: it fell by 0.2",
    "promotion": 4,
    "back_to": 3,
    "settled": "number 3 is the incumbent again",
    "pointer": 5,
    "at": ISO,
}


class CampaignOut(Out):
    """A campaign as a row of the list."""

    model_config = example(_ROW)
    campaign: str
    model: str
    state: str = Field(description="active or stopped.")
    new_records: int = Field(description="To train on, since the latest study was submitted.")
    studies: int = Field(description="How many it started.")
    running: str | None = Field(description="The study that is under way.")
    alarms: int
    open_alarm: int | None = Field(description="Number of the one that is not settled.")
    began_at: Iso
    changed_at: Iso


class CampaignsOut(Out):
    """Every campaign, by name."""

    model_config = example({"items": [_ROW]})
    items: list[CampaignOut]


class ExperienceOut(Out):
    """What came in since the campaign began. What had no consent was only counted."""

    model_config = example(_EXPERIENCE)
    files: int
    training: int
    held_out: int
    without_consent: int
    invalid: int
    duplicates: int
    problems: list[str] = Field(description="Of the latest files.")


class CampaignStudyOut(Out):
    """The latest study of a campaign."""

    model_config = example(_STUDY)
    study: str
    number: int
    state: str = Field(description="running, or how it ended.")
    records: int = Field(description="Gathered ones that it trains on.")
    rows: int
    promotion: int | None = Field(description="The position that it promoted to.")
    submitted_at: Iso


class SliceOut(Out):
    """The latest measurement of a fixed slice."""

    model_config = example(_SLICE)
    slice: str
    served_as: str
    value: Number
    against: str | None = Field(description="Artifact that it was compared with.")
    comparison: dict[str, JsonValue] | None = Field(description="A positive drop is worse.")
    forgotten: bool
    at: Iso


class ShiftOut(Out):
    """The latest comparison of incoming prompts with the reference."""

    prompts: int
    reference: int
    statistics: dict[str, JsonValue] = Field(description="psi and p of length and words.")
    shifted: bool


class AlarmOut(Out):
    """An alarm, and what came of it."""

    model_config = example(_ALARM)
    number: int
    alarm: str = Field(description="gate, forgetting or shift.")
    action: str = Field(description="roll_back or tell.")
    detail: str
    promotion: int | None
    back_to: int | None
    settled: str | None = Field(description="Null: it is open, or only tells.")
    pointer: int | None = Field(description="The position that the way back made.")
    at: Iso


class StepFailedOut(Out):
    """What the last cycle could not do; the next one tries again."""

    step: str
    detail: str


class CampaignEventOut(Out):
    """One entry of a campaign."""

    number: int
    kind: str
    at: Iso
    facts: dict[str, JsonValue]


class CampaignDetail(CampaignOut, Flagged):
    """One campaign with its latest measurements, alarms and events."""

    model_config = example(
        {
            **_ROW,
            "file": {"name": "support-live", "model": "support"},
            "evaluator": DIGEST,
            "experience": _EXPERIENCE,
            "study": _STUDY,
            "slices": [_SLICE],
            "shift": None,
            "alarm_list": [_ALARM],
            "failed": None,
            "events": [],
            "non_finite": [],
        }
    )
    file: dict[str, JsonValue] = Field(description="The campaign file with every default.")
    evaluator: str | None = Field(description="Bundle digest of what measures the slices.")
    experience: ExperienceOut
    study: CampaignStudyOut | None
    slices: list[SliceOut]
    shift: ShiftOut | None
    alarm_list: list[AlarmOut] = Field(description="The newest first.")
    failed: StepFailedOut | None
    events: list[CampaignEventOut] = Field(description="The newest 50, the newest first.")
