"""How an evaluator's items are divided."""

import json
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.splits import Item, check_disjoint, halves, joined, read_items
from ledger.errors import InvalidInput


def items(*values: object) -> list[Item]:
    lines = [json.dumps(v).encode() for v in values]
    return [Item(i, line, line.decode()) for i, line in enumerate(lines, start=1)]


def written(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "split.jsonl"
    path.write_bytes(data)
    return path


def test_blank_lines_are_skipped_and_lines_counted_from_one(tmp_path: Path) -> None:
    found = read_items(written(tmp_path, b'\n{"q": 1}\r\n\n{"q": 2}'), "search")
    assert [(i.line, i.text) for i in found] == [(2, b'{"q": 1}'), (4, b'{"q": 2}')]


def test_an_item_is_the_same_however_it_is_written(tmp_path: Path) -> None:
    a, b = read_items(written(tmp_path, b'{"q":1,"a":2}\n{ "a": 2, "q": 1 }\n'), "search")
    assert a.key == b.key


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b'{"q": 1}\nnot json\n', "search line 2 is not JSON"),
        (b'{"q": NaN}\n', "search line 1 is not JSON"),
        (b"\xff\n", "search line 1 is not JSON"),
        (b"[" * 100_000, "search line 1 is nested too deeply"),
        (b"\n\n", "has no items"),
    ],
)
def test_a_wrong_split_is_refused_with_its_line(tmp_path: Path, data: bytes, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        read_items(written(tmp_path, data), "search")


@given(st.lists(st.integers(0, 30), min_size=2, max_size=60), st.randoms(use_true_random=False))
def test_halves_divide_every_holdout_the_same_way_in_any_order(
    values: list[int], rng: random.Random
) -> None:
    whole = items(*values)
    if len(set(values)) < 2:
        return
    a, b = halves(whole)
    assert sorted(joined([*a, *b]).split()) == sorted(joined(whole).split())
    assert not {i.key for i in a} & {i.key for i in b}
    assert a
    assert b
    shuffled = list(whole)
    rng.shuffle(shuffled)
    again_a, again_b = halves(shuffled)
    assert ({i.key for i in again_a}, {i.key for i in again_b}) == (
        {i.key for i in a},
        {i.key for i in b},
    )
    assert [i.line for i in a] == sorted(i.line for i in a)


def test_halves_of_different_items_are_equally_large() -> None:
    a, b = halves(items(*range(1025)))
    assert (len(a), len(b)) == (513, 512)


def test_halves_are_no_plain_alternation() -> None:
    """Files are often sorted by difficulty or alternate between two kinds of items."""
    a, _ = halves(items(*range(100)))
    assert 10 < sum(i.line % 2 for i in a) < 40


def test_a_holdout_of_one_distinct_item_cannot_be_divided() -> None:
    with pytest.raises(InvalidInput, match="one distinct item"):
        halves(items(1, 1, 1))


def test_shared_items_are_counted_and_located() -> None:
    with pytest.raises(InvalidInput, match=r"2 of 4 holdout items .* first on line 3"):
        check_disjoint(items(7, 8), items(1, 2, 8, 7))
    check_disjoint(items(7, 8), items(1, 2))
