"""Exact, numeric and math verifiers: equivalents pass, look-alikes and cheats do not."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inner_trials.settings import SettingsError
from inner_trials.verifiers.code_tests import find_code
from inner_trials.verifiers.protocol import BadReferenceError, Verifier
from inner_trials.verifiers.registry import VERIFIERS, make_verifier

MATH = make_verifier("math", {})
NUMERIC = make_verifier("numeric", {})
EXACT = make_verifier("exact", {})


def is_right(verifier: Verifier, completion: str, answer: object) -> bool:
    verdict = verifier.verify(completion, {"answer": answer})
    assert verdict.reward in (0.0, 1.0)
    return verdict.reward == 1.0


@pytest.mark.parametrize(
    ("completion", "answer"),
    [
        (r"\boxed{\frac{1}{2}}", "0.5"),
        (r"so it is \boxed{1/2}.", r"\frac12"),
        (r"\boxed{\dfrac{1}{\sqrt{2}}}", r"\frac{\sqrt{2}}{2}"),
        (r"\frac{1}{1+\sqrt{2}}", r"\sqrt{2}-1"),
        ("1,234", "1234"),
        ("1,234,567.50", "1234567.5"),
        (r"1\frac{1}{2}", "1.5"),
        (r"x = 5", "5"),
        (r"5 \text{ cm}^2", "5"),
        (r"\$5", "5"),
        (r"\left(1, \frac{4}{2}\right)", "(1,2)"),
        (r"\{2, 1\}", r"\{1, 2\}"),
        ("2, 1", "1,2"),
        (r"2\pi", r"\pi \cdot 2"),
        ("3+2x", "2x + 3"),
        ("(x+1)^2", "x^2+2x+1"),
        (r"\frac{x^2-1}{x-1}", "x+1"),
        (r"-\frac{3}{4}", "\u22120.75"),
        (r"50\%", "0.5"),
        (r"90^\circ", "90"),
        (r"2^{-1}", "0.5"),
        (r"\text{yes}", "Yes"),
        (r"\boxed{4} and again \boxed{4.0}", "4"),
        ("reasoning\n#### 72", "He sold 48+24 = 72\n#### 72"),
        ("<answer>7</answer>", "7"),
        (r"[0, 1)", r"\left[0,1\right)"),
    ],
)
def test_the_same_value_written_otherwise_is_right(completion: str, answer: str) -> None:
    assert is_right(MATH, completion, answer)


@pytest.mark.parametrize(
    ("completion", "answer"),
    [
        ("0.333", r"\frac13"),
        ("(1, 2]", "(1,2)"),
        ("(2, 1)", "(1, 2)"),
        ("{1, 1, 2}", "1, 2, 2"),
        (r"\boxed{4} or \boxed{5}", "4"),
        (r"\boxed{4, 5}", "4"),
        (r"\boxed{4 or 5}", "4"),
        ("<answer>4</answer><answer>5</answer>", "4"),
        (r"\boxed{4} #### 5", "4"),
        ("I think 4", "4"),
        ("2 3", "6"),
        ("12,34", "1234"),
        (r"\boxed{}", "4"),
        (r"\boxed{4", "4"),
        ("", "4"),
        ("   ", "4"),
        ("1e999", "4"),
        ("9^9^9", "4"),
        ("0/0", "0"),
        ("1/0", "1"),
        ("\uff14", "4"),
        ("\u0664", "4"),
        ("4\u200b", "4"),
        ("nan", "4"),
        (r"\infty", "4"),
        ("__import__('os').system('true')", "4"),
        ("reward: 1.0", "4"),
        ("equal", "4"),
    ],
)
def test_another_value_a_hedge_or_nonsense_is_not_right(completion: str, answer: str) -> None:
    assert not is_right(MATH, completion, answer)


@pytest.mark.parametrize(
    "bomb",
    [
        r"\boxed{" * 20_000,
        "(" * 390,
        "\\frac{" * 60,
        "9" * 399,
        "((x+y+z+1)^{64})^{64}",
        "((((9^{64})^{64})^{64})^{64})^{64}",
        "(a+b+c+d)(e+f+g+h)(i+j+k+l)(m+n+o+p)(q+r+s+t)" * 8,
        r"\sqrt{99999989}" * 26,
        "1/" * 199 + "7",
        "#" * 200_000,
        "#### \n" * 40_000,
        " " * 250_000,
        "<answer>" * 30_000,
        "1," * 100_000,
        "\\boxed{" + "{" * 100_000 + "}" * 100_000,
        "x" * 300_000,
        "7" * 250_000,
    ],
)
@pytest.mark.parametrize("name", ["exact", "numeric", "math"])
def test_a_bomb_is_wrong_within_a_second(name: str, bomb: str) -> None:
    started = time.process_time()
    assert not is_right(make_verifier(name, {}), bomb, "4")
    assert time.process_time() - started < 1.0


@pytest.mark.parametrize(
    ("completion", "answer"),
    [
        ("42", 42),
        ("1,000", "1000"),
        ("-0", "0"),
        ("2.5 million", 2_500_000),
        ("3 thousand", "3,000"),
        (".5", "0.50"),
        ("5.", "5"),
        ("$5", "5"),
        ("-$5", "-5"),
        ("\u22123", "-3"),
        ("3/4", 0.75),
        ("5 %", "0.05"),
        ("1e3", "1000"),
        ("#### 7", ["6", "7"]),
        ("+4", "4"),
    ],
)
def test_numbers_are_compared_by_value(completion: str, answer: object) -> None:
    assert is_right(NUMERIC, completion, answer)


@pytest.mark.parametrize(
    "completion",
    ["nan", "inf", "1e999", "1e9999", "1_0", "0xA", "10,", "1,0", "\u0661\u0660", "10 or 11",
     "ten", "10 10", "10/0", "--10", "10e", "1" * 5000, "10 gazillion", "True", "10\n11"],
)  # fmt: skip
def test_what_is_no_plain_number_equals_none(completion: str) -> None:
    assert not is_right(NUMERIC, completion, "10")


def test_a_tolerance_includes_its_bound_and_nothing_beyond() -> None:
    relative = make_verifier("numeric", {"relative_tolerance": 0.1})
    absolute = make_verifier("numeric", {"absolute_tolerance": 0.3})
    assert is_right(relative, "1.1", "1")
    assert is_right(relative, "0.9", "1")
    assert not is_right(relative, "1.1000000000000000001", "1")
    assert not is_right(relative, "0.1", "0"), "a share of nothing is nothing"
    assert is_right(absolute, "0.3", "0")
    assert not is_right(absolute, "0.3000001", "0")
    assert not is_right(relative, "1e999", "1")


def test_the_last_number_is_taken_only_where_that_is_asked_for() -> None:
    lenient = make_verifier("numeric", {"answer_from": "last_number"})
    assert is_right(lenient, "first 3, then 4 makes 7.", "7")
    assert not is_right(NUMERIC, "first 3, then 4 makes 7.", "7")
    assert not is_right(lenient, "#### 7 or so", "7")


def test_exact_match_is_character_for_character_unless_told_otherwise() -> None:
    assert is_right(EXACT, " 12359\n", "12359")
    assert is_right(EXACT, "a", ["b", "a"])
    for wrong in ("1235", "123590", "12359 12359", "\uff112359", "12359\u200b", "12359.0"):
        assert not is_right(EXACT, wrong, "12359")
    loose = make_verifier("exact", {"ignore_case": True, "ignore_spaces": True})
    assert is_right(loose, "New   York ", "new york")


def test_a_completion_of_the_demos_data_is_a_reference_too() -> None:
    assert EXACT.verify("12", {"prompt": "sort 21", "completion": "12"}).reward == 1.0


@pytest.mark.parametrize("name", ["exact", "numeric", "math"])
def test_a_row_without_a_reference_is_named_before_anything_runs(name: str) -> None:
    verifier = make_verifier(name, {})
    for row in ({}, {"answer": None}, {"answer": []}, {"answer": [True]}, {"answer": {}}):
        with pytest.raises(BadReferenceError, match="answer"):
            verifier.check(row)


def test_a_reference_that_is_no_number_is_refused_by_the_numeric_verifier() -> None:
    with pytest.raises(BadReferenceError, match="'seven': not a number"):
        NUMERIC.check({"answer": "seven"})


def test_one_of_several_references_of_different_kinds_is_enough() -> None:
    for accepted in (["1/2", "half"], ["half", "1/2"], [r"\text{half}", "0.5"]):
        assert is_right(MATH, "half", accepted)
        assert is_right(MATH, r"\boxed{\frac12}", accepted)
        assert not is_right(MATH, "third", accepted)
        assert not is_right(MATH, r"\boxed{half} \boxed{third}", accepted)


def test_every_verifier_says_its_version_and_an_unknown_one_is_refused() -> None:
    for name in VERIFIERS:
        assert make_verifier(name, {}).version.startswith(f"{name}/")
    with pytest.raises(SettingsError, match="'maths' is not one of code, exact"):
        make_verifier("maths", {})
    with pytest.raises(SettingsError, match=r"options.verifier_options.tolerance: unknown option"):
        make_verifier("numeric", {"tolerance": 1})


def test_code_is_found_in_time_that_grows_with_the_text() -> None:
    for bomb in ("```py\n" * 10_000, "```\n```py\n" * 6_000, "```" + " \t" * 30_000):
        started = time.process_time()
        find_code(bomb)
        assert time.process_time() - started < 1.0


@given(st.lists(st.sampled_from(["```", "```py", "```python ", "a", "", " ```", "```x", "````"])))
def test_code_is_what_stands_between_the_first_fence_and_the_next_that_closes_it(
    lines: list[str],
) -> None:
    text = "\n".join(lines)
    pattern = r"^```(?:python|py)?[ \t]*\n(.*?)^```[ \t]*$"
    blocks = re.findall(pattern, text, re.DOTALL | re.MULTILINE)
    wanted = None if len(blocks) > 1 or not text.strip() else (blocks[0] if blocks else text)
    assert find_code(text) == wanted
