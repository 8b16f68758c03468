"""The `notify` section of a study file: what is accepted, and what is said of the rest."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.spec.errors import StudyRefused
from controller.spec.loading import json_schema, load_study, parse_study, resolved
from controller.spec.notify import DEFAULT_EVENTS, MOST_WEBHOOKS, Event, read_notify
from tests.acceptance.shell_study import document, write_evaluator

URL = "https://example.org/hooks/arl"


def problems(notify: Any) -> list[str]:
    with pytest.raises(StudyRefused) as refused:
        parse_study(document(notify=notify))
    return [str(problem) for problem in refused.value.problems]


def test_a_webhook_needs_an_address_only() -> None:
    (one,) = parse_study(document(notify=[{"webhook": URL}])).notify
    assert (one.webhook, one.on, one.secret) == (URL, DEFAULT_EVENTS, None)
    assert parse_study(document()).notify == ()


def test_on_is_a_word_in_a_file_and_not_true(tmp_path: Path) -> None:
    write_evaluator(tmp_path)
    file = tmp_path / "study.yaml"
    told = f"notify:\n- webhook: {URL}\n  on: [trial_failed]\n"
    file.write_text(yaml.safe_dump(document()) + told)
    assert load_study(file).notify[0].on == (Event.TRIAL_FAILED,)


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost:8000",
        "http://127.0.0.1:1/x",
        "http://[::1]:65535/",
        "https://a-b.example.org/x/y.z/%20/@me/~a;b=c",
    ],
)
def test_an_address_may_be_anything_that_every_reader_reads_alike(url: str) -> None:
    assert parse_study(document(notify=[{"webhook": url}])).notify[0].webhook == url


def test_what_was_accepted_is_read_back_from_the_ledger_alone() -> None:
    notify = [{"webhook": URL, "on": ["trial_failed"], "secret": "ARL_SECRET_HOOKS"}]
    spec = parse_study(document(notify=notify))
    assert read_notify({"notify": resolved(spec)["notify"]}) == spec.notify
    assert read_notify({"name": "older"}) == ()


@pytest.mark.parametrize(
    ("url", "rule"),
    [
        ("", "it must not be empty"),
        ("example.org/x", "a webhook is asked over http or https"),
        ("ftp://example.org/x", "a webhook is asked over http or https"),
        ("file:///etc/passwd", "a webhook is asked over http or https"),
        ("https://", "it names no host"),
        ("https:///x", "it names no host"),
        ("https://example.org:0/", "a port from 1 to 65535"),
        ("https://example.org:65536/", "it is no address"),
        ("https://[::1/", "it is no address"),
        ("https://exa mple.org/", "an address has letters"),
        ("https://ex\u00e4mple.org/", "an address has letters"),
        ("https://example.org/\u202ex", "an address has letters"),
        ("https://example.org/a b", "an address has letters"),
        ("https://example.org/a\nb", "an address has letters"),
        ("https://example.org/a\\b", "an address has letters"),
        ("https://example.org/" + "a" * 2000, "the text is too long"),
        (7, "it must be text"),
        (None, "it must be text"),
        (["x"], "it must be text"),
    ],
)
def test_a_wrong_address_is_named_with_the_rule_it_breaks(url: Any, rule: str) -> None:
    (problem,) = problems([{"webhook": url}])
    assert problem.startswith("notify[0].webhook: ")
    assert rule in problem


@pytest.mark.parametrize(
    "url",
    [
        "https://me:t0p@example.org/",
        "https://t0p@example.org/",
        "https://good.example.org\\@evil.example.org/?t0p",
        "https://example.org/?key=t0p",
        "https://example.org/x#t0p",
    ],
)
def test_a_key_in_an_address_is_refused_and_not_repeated(url: str) -> None:
    (problem,) = problems([{"webhook": url}])
    assert "would be stored" in problem
    assert "t0p" not in problem


@pytest.mark.parametrize(
    "secret",
    ["whsec_bm90IGEgbmFtZQ==", "hunter2", "HOME", "arl_secret_x", "ARL_SECRET_", "ARL_SECRET_a"],
)
def test_what_stands_for_a_secret_is_never_repeated(secret: str) -> None:
    (problem,) = problems([{"webhook": URL, "secret": secret}])
    assert problem.startswith("notify[0].secret: it is the name of an environment variable")
    assert secret not in problem.replace("ARL_SECRET_HOOKS", "")


@pytest.mark.parametrize(
    ("notify", "said"),
    [
        ({"webhook": URL}, "notify: {"),
        ("x", 'notify: "x": it must be a list'),
        ([URL], 'notify[0]: "https://example.org/hooks/arl": this section is a mapping'),
        ([{}], "notify[0].webhook: this key is needed; add it"),
        (
            [{"webhook": URL, "no": []}],
            "notify[0].no: []: no such key; write one of webhook, on, secret",
        ),
        ([{"webhook": URL, "on": []}], "notify[0].on: []: it is told of nothing"),
        ([{"webhook": URL, "on": "trial_failed"}], 'notify[0].on: "trial_failed": it must be a'),
        (
            [{"webhook": URL, "on": ["study_complete"]}],
            'notify[0].on[0]: "study_complete": no such value; write study_completed instead',
        ),
        ([{"webhook": URL, "on": ["trial_failed"] * 2}], 'notify[0].on[1]: "trial_failed": it is'),
        (
            [{"webhook": URL}, {"webhook": URL}],
            f'notify[1].webhook: "{URL}": it is listed already',
        ),
        (
            [{"webhook": f"{URL}/{i}"} for i in range(MOST_WEBHOOKS + 1)],
            f"notify: {MOST_WEBHOOKS + 1} of them: a study has at most {MOST_WEBHOOKS} webhooks",
        ),
    ],
)
def test_a_wrong_section_is_said_in_one_sentence(notify: Any, said: str) -> None:
    found = problems(notify)
    assert found[0].startswith(said)
    assert len(found) == 1


def test_the_schema_lists_the_events_for_editors() -> None:
    definitions: Any = json_schema()["$defs"]
    assert definitions["Event"]["enum"] == [str(event) for event in Event]
