"""Units, baseline values, and the schema editors read."""

import json
import math
import subprocess
import sys

import pytest

from controller.spec.errors import shown
from controller.spec.loading import json_schema
from controller.spec.quantities import parse_count, parse_duration_s, parse_size_bytes
from controller.spec.space import baseline_params, search_space
from controller.spec.study import StudySpec
from tests.unit.controller.study_documents import SFT, study


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30m", 1800), ("8h", 28800), ("90s", 90), ("1h30m", 5400), ("1.5h", 5400), ("1d", 86400),
     ("250ms", 0.25), (" 1h 30m ", 5400)],
)  # fmt: skip
def test_durations_are_read_as_people_write_them(text: str, seconds: float) -> None:
    assert parse_duration_s(text) == seconds


@pytest.mark.parametrize("text", ["", "m", "1", "1x", "1h30", "-1h", "1 h m", "1e3s", "∞s", "1H"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="90s, 30m, 8h or 1h30m"):
        parse_duration_s(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [("4GiB", 4 * 2**30), ("512MB", 512_000_000), ("16 MiB", 2**24), ("1B", 1), ("1.5kB", 1500)],
)
def test_sizes_are_read_as_people_write_them(text: str, size: int) -> None:
    assert parse_size_bytes(text) == size


@pytest.mark.parametrize("text", ["", "4", "4G", "GiB", "-1MB", "1PB", "1e3MB", f"{'9' * 400}GB"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="512MB, 4GiB or 16MiB"):
        parse_size_bytes(text)


def test_counts_take_a_letter() -> None:
    assert [parse_count(t) for t in ("2M", "500k", "1.5B")] == [2_000_000, 500_000, 1_500_000_000]
    assert study(budget__llm_tokens="2M").budget.llm_tokens == 2_000_000
    for text in ("2 mega", f"{'9' * 400}M"):
        with pytest.raises(ValueError, match="500k or 2M"):
            parse_count(text)


def test_the_baseline_is_the_middle_unless_a_default_is_declared() -> None:
    spec = study(SFT)
    assert baseline_params(spec.space) == {"learning_rate": 1e-5, "batch": 8, "loss": "nll"}
    declared = study(
        SFT,
        space__learning_rate__default=2e-6,
        space__batch__default=16,
        space__loss__default=True,
    )
    assert baseline_params(declared.space) == {
        "learning_rate": 2e-6,
        "batch": 16,
        "loss": True,
    }


def test_as_many_baselines_as_the_profile_needs_are_enough() -> None:
    assert study(SFT, noise__baseline_trials=10).baselines() == 10


def test_every_baseline_value_is_a_point_of_the_space() -> None:
    spec = study(SFT)
    space = search_space(spec.space)
    assert all(space[n].contains(v) for n, v in baseline_params(spec.space).items())


def test_the_schema_speaks_the_files_words_and_describes_them() -> None:
    schema = json_schema()
    text = json.dumps(schema)
    assert '"wall_time"' in text
    assert "wall_time_s" not in text
    assert "memory_bytes" not in text
    assert '"title"' not in text.replace('"title": "ARL study"', "")
    properties = schema["properties"]
    assert isinstance(properties, dict)
    assert set(properties) == set(StudySpec.model_fields)
    definitions = schema["$defs"]
    assert isinstance(definitions, dict)
    for name, definition in definitions.items():
        if name not in ("Direction", "Event"):
            assert definition["additionalProperties"] is False, name
            assert definition["description"], name


def test_a_study_file_is_not_read_on_import_of_anything_heavy() -> None:
    code = (
        "import sys, controller.spec.loading as _\n"
        "print([m for m in ('sqlalchemy','numpy','torch','scipy','fastapi') if m in sys.modules])"
    )
    out = subprocess.run(  # an import graph can only be seen in a fresh interpreter
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert out.stdout.strip() == "[]"


def test_a_shown_value_is_one_short_printable_line() -> None:
    text = shown("a\nb\x1b[31m\u202e" + "x" * 500)
    assert len(text) <= 60
    assert "\x1b" not in text
    assert "\n" not in text
    assert "\u202e" not in text
    assert shown(math.nan) == "NaN"
