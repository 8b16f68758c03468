"""What the log says of a study, for people and for programs."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from controller.cli.log_lines import JsonLine, OneLine, listen_to_the_worker
from controller.settings import log_format, log_level, read_settings
from controller.worker.telling import about_study, log, tell
from ledger import entries as e
from ledger.errors import InvalidInput
from ledger.records import TrialKind
from ledger.states import Reason, TrialState

ENDED = e.TrialEnded(
    trial_id="s1-4",
    candidate_id="s1-c9",
    trial_kind=TrialKind.SEARCH,
    current=TrialState.RUNNING,
    new=TrialState.FAILED,
    reason=Reason.EXIT_NONZERO,
    detail="said\n\x1b[31mred\u202e",
    finish_seq=3,
)


def told(caplog: pytest.LogCaptureFixture, *entries: e.Entry) -> list[logging.LogRecord]:
    with caplog.at_level(logging.INFO, logger=log.name):
        tell("s1", entries)
    return caplog.records


def test_a_line_of_json_names_the_study_the_trial_and_why(
    caplog: pytest.LogCaptureFixture,
) -> None:
    (record,) = told(caplog, ENDED)
    line = json.loads(JsonLine().format(record))
    assert line["event"] == "trial_ended"
    assert (line["study"], line["trial"], line["candidate"]) == ("s1", "s1-4", "s1-c9")
    assert "non_finite" not in line, "a field is absent where it says nothing"
    assert line["said"]["reason"] == "exit_nonzero"
    assert line["level"] == "info"
    assert line["time"].endswith("+00:00")


def test_what_a_program_said_stays_on_its_line(caplog: pytest.LogCaptureFixture) -> None:
    (record,) = told(caplog, ENDED)
    for formatter in (OneLine(), JsonLine()):
        text = formatter.format(record)
        assert text.isprintable()
        assert "\\x1b" in text or "\\u001b" in text


def test_a_number_that_is_none_is_valid_json_and_flagged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    served = e.TrialServed(trial_id="s1-5", of_trial="s1-4", value=float("nan"), finish_seq=4)
    (record,) = told(caplog, served)
    line = json.loads(JsonLine().format(record), parse_constant=pytest.fail)
    assert line["said"]["value"] is None
    assert line["non_finite"] == [{"path": "said/value", "value": "nan"}]


def test_steps_on_the_way_are_told_only_when_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    claimed = e.WorkerClaimed(owner="host/1", fence=2)
    assert told(caplog, claimed) == []
    with caplog.at_level(logging.DEBUG, logger=log.name):
        tell("s1", [claimed])
    assert [record.levelname for record in caplog.records] == ["DEBUG"]


def test_a_warning_within_a_study_is_about_that_study(caplog: pytest.LogCaptureFixture) -> None:
    with about_study("s7"):
        logging.getLogger("arl.worker").warning("target local does not answer")
        (record,) = caplog.records
        assert json.loads(JsonLine().format(record))["study"] == "s7"
    assert "study" not in json.loads(JsonLine().format(record))


def test_an_error_has_its_type_and_words(caplog: pytest.LogCaptureFixture) -> None:
    try:
        raise ValueError("no\nsuch thing")
    except ValueError:
        logging.getLogger("arl.worker").exception("study s1: unexpected error")
    (record,) = caplog.records
    assert json.loads(JsonLine().format(record))["error"] == {
        "type": "ValueError",
        "detail": "no\nsuch thing",
    }


class Gone(io.StringIO):
    """A standard error whose reader went away."""

    asked = False

    def write(self, _: str) -> int:
        self.asked = True
        raise BrokenPipeError


@pytest.fixture
def listening(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The log as `arl worker` has it, at level DEBUG."""
    root, ours = logging.getLogger(), logging.getLogger("arl")
    before = root.level, root.handlers[:], ours.level
    root.handlers.clear()
    monkeypatch.setenv("ARL_LOG_LEVEL", "debug")
    listen_to_the_worker(logging.INFO)
    yield
    root.handlers[:] = before[1]
    root.setLevel(before[0])
    ours.setLevel(before[2])


def test_a_reader_of_the_log_who_went_away_stops_nothing(
    listening: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = Gone()
    monkeypatch.setattr("sys.stderr", gone)
    tell("s1", [ENDED])
    assert gone.asked


def test_only_arls_own_steps_are_told_at_level_debug(
    listening: None, capsys: pytest.CaptureFixture[str]
) -> None:
    logging.getLogger("httpcore.connection").debug("a key in an address")
    logging.getLogger("arl.worker").debug("a step")
    assert capsys.readouterr().err == "arl: debug: a step\n"


def test_a_wrong_setting_of_the_log_is_refused_before_anything_is_done() -> None:
    with pytest.raises(InvalidInput, match="ARL_LOG_FORMAT: 'xml': write text or json"):
        read_settings({"ARL_LOG_FORMAT": "xml"})


@pytest.mark.parametrize(
    ("variable", "read"), [("ARL_LOG_FORMAT", log_format), ("ARL_LOG_LEVEL", log_level)]
)
def test_a_wrong_setting_is_named_with_what_to_write(variable: str, read: object) -> None:
    assert callable(read)
    with pytest.raises(InvalidInput, match=rf"{variable}: 'loud': write \w+ or"):
        read({variable: "loud"})
    assert read({}) in ("text", None)
