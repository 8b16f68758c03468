"""What candidates and study files say is printed, never obeyed."""

import json
from collections.abc import Iterator

import pytest

from controller.cli.text import clipped, plain
from controller.documents.log_text import LogText
from tests.cli_runs import Arl, arl_in

HOSTILE = (
    "\x1b[2J\x1b]8;;https://evil.example\x1b\\click\x1b]8;;\x1b\\"
    "\x1b]0;title\x07\x9b31m\u202eevil\u2066\u200b\u2028[bold red]markup[/] [link=x]y[/link]"
    "\r\b\x00\x7f"
)
HARMFUL = "\x1b\x07\x08\x00\x7f\x9b\u202e\u2066\u200b\u2028"


def assert_harmless(text: str) -> None:
    assert not [character for character in HARMFUL if character in text]


@pytest.fixture(scope="module")
def arl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arl]:
    """A study whose program says the worst in its log, its reports and its parameters."""
    report = json.dumps({"step": 1, "metric": "[red]loss[/]", "value": 0.5})
    not_finite = '{"step": 2, "metric": "norm", "value": NaN}'
    with arl_in(tmp_path_factory.mktemp("hostile") / "place") as made:
        (made.place / "tiny-program").mkdir(parents=True)
        (made.place / "tiny-program" / "said").write_text(HOSTILE + "\n")
        (made.place / "tiny-program" / "reported").write_text(f"{report}\n{not_finite}\n")
        body = 'cat said; cat said >&2; cat reported >>"$ARL_REPORTS"'
        space = {
            "x": {"type": "float", "low": 0.0, "high": 1.0},
            "style": {"type": "categorical", "choices": ["[bold]a[/bold]", "[link=x]b"]},
        }
        made.ok("run", made.study(body=body, space=space))
        yield made


def test_logs_show_control_characters_instead_of_obeying_them(arl: Arl) -> None:
    words = arl.ok("logs", "last/0").out
    assert_harmless(words)
    assert "\\x1b[2J" in words
    assert "\\u202eevil" in words
    assert "[bold red]markup[/]" in words


def test_no_view_obeys_what_a_candidate_said(arl: Arl) -> None:
    number = arl.show()["best"]["number"]
    candidate = arl.show(f"last/{number}")["candidate"]
    views = (("show",), ("show", f"last/{number}"), ("show", candidate), ("lineage", candidate))
    for view in (*views, ("studies",)):
        assert_harmless(arl.ok(*view).out)
    assert_harmless(arl.ok("show", candidate, "--json").out)
    shown = arl.ok("show", "last").out
    assert "[bold]a[/bold]" in shown or "[link=x]b" in shown, "markup is text"
    assert "[red]loss[/]" in arl.ok("show", f"last/{number}").out


def test_a_value_that_is_not_finite_is_null_and_flagged(arl: Arl) -> None:
    done = arl.ok("show", "last/0", "--json")
    document = done.json()
    (place,) = [i for i, v in enumerate(document["latest"]) if v["metric"] == "norm"]
    assert document["latest"][place] == {"metric": "norm", "step": 2, "value": None}
    assert {"path": f"latest/{place}/value", "value": "nan"} in document["non_finite"]


def test_hostile_names_in_arguments_are_told_harmlessly(arl: Arl) -> None:
    hostile = HOSTILE.replace("\x00", "")
    for arguments in (
        (hostile,),
        ("show", hostile),
        ("show", f"last/{hostile}"),
        ("run", hostile),
    ):
        done = arl.run(*arguments)
        assert done.code in (2, 3)
        assert_harmless(done.err)
        assert_harmless(done.out)


def test_plain_leaves_ordinary_text_alone() -> None:
    assert plain("naïve 数 🙂 a-b_c") == "naïve 数 🙂 a-b_c"
    assert plain("a\nb\tc", keep="\n\t") == "a\nb\tc"
    assert plain("a\nb") == "a\\x0ab"
    assert plain("\ud800\U000e0041") == "\\ud800\\U000e0041"
    assert clipped("x" * 50, 10) == "x" * 9 + "…"


def test_a_character_cut_in_two_by_a_chunk_is_whole_again() -> None:
    text = LogText()
    data = "ü\r\nstep 1\rstep 2\n".encode()
    assert text.add(data[:1]) + text.add(data[1:]) == "ü\nstep 1\nstep 2\n"
    assert LogText().add(b"\xff\xfe") == "\ufffd\ufffd"
