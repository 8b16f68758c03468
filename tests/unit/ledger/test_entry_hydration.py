"""Every kind of entry survives being written to its chain and read back."""

import json
from dataclasses import fields, replace
from enum import StrEnum
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.chain import GENESIS, link
from ledger.entries import Entry, payload
from ledger.errors import InvalidInput
from ledger.hydration import ENTRY_CLASSES, parse_entry
from ledger.records import IntermediateValue
from ledger.sealing import entry_body

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NUMBER = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | NUMBER | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)


def strategy(hint: Any) -> st.SearchStrategy[Any]:
    if hint is IntermediateValue:
        return st.builds(IntermediateValue, step=st.integers(0, 9), metric=TEXT, value=NUMBER)
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return st.sampled_from(list(hint))
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return st.one_of([strategy(arg) for arg in get_args(hint)])
    if origin is tuple:
        return st.lists(strategy(get_args(hint)[0]), max_size=3).map(tuple)
    simple: dict[Any, st.SearchStrategy[Any]] = {
        type(None): st.none(),
        bool: st.booleans(),
        int: st.integers(-(2**53), 2**53),
        float: NUMBER,
        str: TEXT,
        bytes: st.binary(max_size=8),
    }
    if hint in simple:
        return simple[hint]
    return st.dictionaries(TEXT, JSON, max_size=3)  # mappings


def entries(kind: str) -> st.SearchStrategy[Entry]:
    cls = ENTRY_CLASSES[kind]
    hints = get_type_hints(cls)
    return st.builds(cls, **{f.name: strategy(hints[f.name]) for f in fields(cls)})


@pytest.mark.parametrize("kind", sorted(ENTRY_CLASSES))
@given(data=st.data())
def test_an_entry_is_read_back_as_it_was_written(kind: str, data: st.DataObject) -> None:
    entry = data.draw(entries(kind))
    body = json.loads(entry_body(entry, 3, 1.5))
    assert (body["seq"], body["at"], body["kind"]) == (3, 1.5, kind)
    unsealed = {
        f.name: getattr(entry, f.name) for f in fields(entry) if not f.metadata.get("sealed", True)
    }
    assert parse_entry(kind, body["payload"], unsealed) == entry
    assert not set(unsealed) & set(body["payload"])


def test_every_kind_of_entry_is_known() -> None:
    assert set(ENTRY_CLASSES.values()) == set(get_args(Entry))
    assert len(ENTRY_CLASSES) == len(get_args(Entry))


def test_an_unknown_kind_or_field_is_refused() -> None:
    with pytest.raises(InvalidInput, match="no such entry"):
        parse_entry("trial_dreamt", {})
    with pytest.raises(InvalidInput, match="worker_claimed"):
        parse_entry("worker_claimed", {"owner": "w", "fence": 1, "mood": "good"})
    with pytest.raises(InvalidInput, match="study_moved"):
        parse_entry("study_moved", {"current": "running", "new": "dreaming"})


def test_a_body_is_the_same_text_for_the_same_entry() -> None:
    entry = ENTRY_CLASSES["inputs_frozen"](  # type: ignore[call-arg]  # any of the union
        inputs={"b": "2", "a": "1"}, report={}
    )
    same = replace(entry, inputs={"a": "1", "b": "2"})  # type: ignore[call-arg]  # as above
    assert entry_body(entry, 1, 2.0) == entry_body(same, 1, 2.0)
    assert link(GENESIS, entry_body(entry, 1, 2.0)) != link("1" * 64, entry_body(entry, 1, 2.0))


def test_nan_is_refused_by_name() -> None:
    entry = parse_entry(
        "trial_served", {"trial_id": "t", "of_trial": "o", "value": 1.0, "finish_seq": 1}
    )
    with pytest.raises(InvalidInput, match="trial_served"):
        entry_body(replace(entry, value=float("nan")), 1, 2.0)  # type: ignore[call-arg]  # union
    assert set(payload(entry)) == {"trial_id", "of_trial", "value", "finish_seq"}
