"""A campaign file is accepted whole, or everything that is wrong with it is said at once."""

import json
from pathlib import Path
from typing import Any

import pytest

from controller.spec.campaign import CampaignSpec
from controller.spec.campaign_loading import (
    SECTIONS,
    campaign_schema,
    load_campaign,
    resolved_campaign,
)
from controller.spec.errors import StudyRefused
from tests.campaign_runs import change_campaign, write_campaign

URL = "http://127.0.0.1:8000"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    write_campaign(tmp_path, URL)
    return tmp_path


def problems(place: Path, **sections: Any) -> list[str]:
    change_campaign(place, URL, **sections)
    return refused(place / "campaign.yaml")


def refused(file: Path) -> list[str]:
    with pytest.raises(StudyRefused) as found:
        load_campaign(file)
    return [str(problem) for problem in found.value.problems]


def test_a_campaign_is_read_with_every_default(place: Path) -> None:
    found = load_campaign(place / "campaign.yaml")
    assert (found.spec.name, found.study.name) == ("live", "adders")
    assert found.path("inbox") == place / "inbox"
    document = resolved_campaign(found.spec)
    assert CampaignSpec.model_validate_json(json.dumps(document)) == found.spec
    assert document["rollback"] == {
        "gate": "roll_back",
        "forgetting": "roll_back",
        "shift": "tell",
    }


WRONG: list[tuple[dict[str, Any], str]] = [
    (
        {"schedule": {"min_new": 0, "studies": 1}},
        "schedule.min_new: 0: it must be at least 1; write a larger number",
    ),
    ({"schedule": {"min_new": 1}}, "schedule.studies: this key is needed; add it"),
    (
        {"schedule": {"evry": "6h", "studies": 1}},
        'schedule.evry: "6h": no such key; write every instead',
    ),
    (
        {"schedule": {"every": "soon", "studies": 1}},
        'schedule.every: "soon": a duration is a number with a unit; write one like 90s, 30m, 8h '
        "or 1h30m",
    ),
    (
        {"experience": {"inbox": "nowhere"}},
        'experience.inbox: "nowhere": there is no directory PLACE/nowhere; create it or name '
        "another",
    ),
    (
        {"experience": {"inbox": "inbox", "holdout": 1.0}},
        "experience.holdout: 1.0: it must be below 1; write a smaller number",
    ),
    (
        {"slices": {"a": {"file": "basics.jsonl"}}},
        "slices.a.max_drop: this key is needed; add it",
    ),
    (
        {"slices": {"a": {"file": "no.jsonl", "max_drop": 0}}},
        'slices.a.file: "no.jsonl": there is no file PLACE/no.jsonl; create it or name another',
    ),
    (
        {"slices": {"a": {"file": "basics.jsonl", "max_drop": 0, "min": 1}}},
        "slices.a.min: 1: no such key; write one of file, max_drop",
    ),
    (
        {"rollback": {"forgetting": "rollback"}},
        'rollback.forgetting: "rollback": no such value; write roll_back instead',
    ),
    (
        {"shift": {"reference": "basics.jsonl", "window": 30}},
        "shift.least: 50: it must be at most shift.window, 30; write a smaller number, or a "
        "larger window",
    ),
    (
        {"model": "other"},
        "study study.yaml: promotion.model: adder: the campaign is about the model other, and its "
        "studies promote to that; write promotion: {model: other} in the study file",
    ),
    ({"name": "a b"}, 'name: "a b": a name has letters, digits and . _ - only, at most 100; '),
    ({"server": {"url": "host:80"}}, 'server.url: "host:80": '),
    ({"wat": 1}, "wat: 1: no such key; write one of name, model, study"),
]


@pytest.mark.parametrize(("sections", "said"), WRONG)
def test_what_is_wrong_is_named_with_what_to_write(
    place: Path, sections: dict[str, Any], said: str
) -> None:
    found = problems(place, **sections)
    assert any(problem.startswith(said.replace("PLACE", str(place))) for problem in found), found


def test_what_is_wrong_with_the_study_file_is_said_by_its_name(place: Path) -> None:
    study = json.loads((place / "study.yaml").read_text())
    study["budget"] = {}
    study["promotion"] = None
    (place / "study.yaml").write_text(json.dumps(study))
    found = refused(place / "campaign.yaml")
    assert [problem.split(":")[0] for problem in found] == ["study study.yaml"] * len(found)
    assert any("promotion.model" in problem for problem in found)
    assert any("a study that a schedule starts has a bound" in problem for problem in found)
    (place / "study.yaml").write_text("name: [")
    assert "study study.yaml" in refused(place / "campaign.yaml")[0]


@pytest.mark.parametrize("text", ["", "[]", "name: [", "name: a\nname: b\n"])
def test_what_is_no_campaign_is_refused(place: Path, text: str) -> None:
    file = place / "odd.yaml"
    file.write_text(text)
    assert refused(file)
    (absent,) = refused(place / "absent.yaml")
    assert absent.endswith("there is no such file; name a campaign file")


def test_the_schema_knows_every_section_and_says_what_each_field_is() -> None:
    schema = campaign_schema()
    definitions: Any = schema["$defs"]
    for model in SECTIONS.values():
        known = schema if model is CampaignSpec else definitions[model.__name__]
        assert known["properties"]
        assert known["additionalProperties"] is False
        described = [field.get("description") for field in known["properties"].values()]
        assert sum(text is None for text in described) <= 7
