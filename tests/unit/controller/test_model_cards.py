"""Model cards: every number is the entry's, and nothing that others wrote is markup."""

import re
from dataclasses import replace

import pytest

from controller.registry.card import render_card
from controller.registry.statement import (
    byproduct_digests,
    make_statement,
    subject_digests,
)
from ledger.entries import CandidatePromoted

HOSTILE = (
    "</code><script>alert(1)</script>",
    "[click](https://evil.example)",
    "![x](https://evil.example/pixel.png)",
    "` **bold** `",
    "a | b | c",
    "\u202egnp.exe\u200b\x1b[31m",
    "first\n\n# Second heading\n| a | b |",
    "www.evil.example",
)
LINKS = {
    "objective": {"metric": "exact_match", "direction": "maximize"},
    "parameters": {"x": 0.25},
    "program": {"kind": "command", "argv": ["sh"], "source": None, "code": None},
    "data": {"train": "d" * 64},
    "runtime": "CPython 3.11",
    "search": {"values": [0.5, 0.75], "runs": 2, "mean": 0.625, "low": 0.1, "high": 0.9},
    "holdout": {
        "holdout_a": {
            "candidate": {"values": [0.5], "runs": 1, "mean": 0.5, "low": None, "high": None},
            "incumbent": None,
        }
    },
    "cost": {"wall_s": 12.5, "gpu_s": 0.0},
}


def entry(**changes: object) -> CandidatePromoted:
    made = CandidatePromoted(
        model="toy",
        incumbent_seq=2,
        candidate_id="s1-c1",
        previous_id=None,
        family_id="s1-f1",
        comparison="c" * 64,
        artifact_digest="a" * 64,
        approver="gate",
        evidence={"gain": 0.125, "ci95": [0.0625, 0.1875], "p": 0.01, "alpha": 0.05},
        lineage=LINKS,
    )
    return replace(made, **changes)  # type: ignore[arg-type]  # fields of the entry


def card(of: CandidatePromoted) -> str:
    return render_card(of, study="s1", at=0.0, seal="e" * 64)


def test_the_numbers_are_the_entrys() -> None:
    text = card(entry())
    assert "0.125 [0.0625, 0.1875]" in text
    assert "0.625 [0.1, 0.9], 2 runs" in text
    assert "0.5, 1 runs" in text
    assert "| wall_s | 12.5 |" in text
    assert "a" * 64 in text
    assert "d" * 64 in text


def outside_code(text: str) -> str:
    """What a reader's Markdown would interpret."""
    return re.sub(r"`[^`\n]*`", "", text)


@pytest.mark.parametrize("words", HOSTILE)
def test_nothing_that_others_wrote_is_markup(words: str) -> None:
    lines = card(entry()).count("\n")
    changed = entry(
        note=words,
        approver=words,
        candidate_id=words,
        evidence={"guards": {words: {"holds": True}}},
        lineage={
            **LINKS,
            "objective": {"metric": words, "direction": words},
            "parameters": {words: words},
            "program": {"argv": [words]},
            "runtime": words,
        },
    )
    text = card(changed)
    read = outside_code(text.partition("\n---\n")[2])
    for bad in ("script", "evil", "bold", "Second heading", "\x1b", "\u202e", "\u200b"):
        assert bad not in read
    assert "\u202e" not in text
    assert "\x1b" not in text
    # A note, a guard and no other line more.
    assert text.count("\n") - lines in range(-3, 4)
    for line in text.splitlines():
        if line.startswith("| parameters"):
            assert len(re.findall(r"(?<!\\)\|", line)) == 3


def test_a_card_of_an_older_promotion_says_what_is_not_recorded() -> None:
    text = card(entry(lineage={}))
    assert "not recorded" in text


def test_a_statement_names_every_file_and_what_it_was_made_of() -> None:
    made = make_statement(
        entry(),
        study="s1",
        at=0.0,
        ledger="ledger-1",
        version="0.1.0",
        files=[("config.json", 0o644, 2, "b" * 64)],
        byproducts={"card.md": "c" * 64},
    )
    assert subject_digests(made) == {"model": "a" * 64, "model/config.json": "b" * 64}
    assert byproduct_digests(made) == {"card.md": "c" * 64}
    predicate = made["predicate"]
    assert isinstance(predicate, dict)
    dependencies = predicate["buildDefinition"]["resolvedDependencies"]
    assert {"name": "data/train", "digest": {"sha256": "d" * 64}}.items() <= dependencies[
        0
    ].items()


@pytest.mark.parametrize("wrong", [{}, {"_type": "x"}, {"subject": "x"}])
def test_what_is_no_statement_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"statement|lists"):
        subject_digests(wrong)
