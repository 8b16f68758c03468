"""Overlap between training rows and an evaluation split."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from inner_trials import contamination

LONG = "the quick brown fox jumps over the lazy dog near the old river bank"


def overlap(
    directory: Path, items: Iterable[Mapping[str, object]], rows: Iterable[Mapping[str, object]]
) -> contamination.Overlap:
    path = directory / "split.jsonl"
    path.write_text("".join(json.dumps(item) + "\n" for item in items))
    split = contamination.Split(path, ngram=5)
    for row in rows:
        split.see(row)
    return split.overlap()


def test_disjoint_data_has_no_overlap(tmp_path: Path) -> None:
    found = overlap(
        tmp_path, [{"prompt": "sort 12345", "answer": "12345"}], [{"prompt": "sort 54321"}]
    )
    assert (found.same_prompt, found.ngrams, found.share) == (0, 0, 0.0)


def test_the_same_prompt_is_found_whatever_case_spacing_and_format(tmp_path: Path) -> None:
    items = [{"prompt": "Sort  12345", "answer": "12345"}, {"prompt": "sort 1", "answer": "1"}]
    rows = [
        {
            "messages": [
                {"role": "user", "content": "sort 12345\n"},
                {"role": "assistant", "content": "x"},
            ]
        }
    ]
    found = overlap(tmp_path, items, rows)
    assert (found.items, found.same_prompt, found.share) == (2, 1, 0.5)
    assert found.examples == ("split.jsonl, line 1",)


def test_a_prompt_inside_longer_training_text_is_found_by_its_ngrams(tmp_path: Path) -> None:
    rows = [{"prompt": "read this", "completion": f"once upon a time {LONG} and so on"}]
    found = overlap(tmp_path, [{"prompt": LONG, "answer": "x"}], rows)
    assert (found.same_prompt, found.ngrams) == (0, 1)


def test_a_shared_instruction_alone_is_no_contamination(tmp_path: Path) -> None:
    items = [
        {"prompt": f"{LONG}: what colour is the heavy door of the tall house there", "answer": "x"}
    ]
    assert (
        overlap(tmp_path, items, [{"prompt": f"{LONG}: name a bird", "completion": "x"}]).share
        == 0.0
    )


def test_ngrams_gathered_from_several_rows_count_together(tmp_path: Path) -> None:
    words = LONG.split()
    rows = [{"text": " ".join(words[:9])}, {"text": " ".join(words[5:])}]
    assert overlap(tmp_path, [{"prompt": LONG, "answer": "x"}], rows).ngrams == 1


def test_a_prompt_shorter_than_the_ngram_is_compared_as_a_whole_only(tmp_path: Path) -> None:
    items = [{"prompt": "sort 12345", "answer": "x"}]
    assert overlap(tmp_path, items, [{"text": "please sort 12345 now"}]).share == 0.0
