"""Which links of a lineage apply, and what is said of those that are missing."""

import pytest

from controller.decisions.lineage import (
    LINKS,
    PARTS,
    LineageNeeds,
    missing_links,
    scores_with_interval,
)
from ledger.records import Json

WHOLE: dict[str, Json] = dict.fromkeys(LINKS, "known")


def needs(kind: str = "command", *, reported: bool = False, image: bool = False) -> LineageNeeds:
    return LineageNeeds(kind=kind, reported=reported, has_image=image)


def applying(**what: object) -> set[str]:
    wanted = needs(**what)  # type: ignore[arg-type]  # keywords of the function above
    return {name for name, (_, applies) in LINKS.items() if applies(wanted)}


def test_a_whole_lineage_lacks_nothing_whatever_the_program() -> None:
    for kind in ("command", "sft", "dpo", "grpo", "ppo", "reward_model", "rejection_sampling"):
        assert missing_links(needs(kind, image=True), WHOLE) == ()


@pytest.mark.parametrize("name", sorted(LINKS))
def test_each_missing_link_is_named_where_it_applies(name: str) -> None:
    lacking = {**WHOLE, name: None}
    assert missing_links(needs("grpo", image=True), lacking) == (LINKS[name][0],)


def test_a_command_needs_no_training_links() -> None:
    assert not applying() & {"base", "tokenizer", "optimizer", "sampling", "libraries", "image"}
    assert {"program", "runtime", "seeds", "hardware", "cost", "holdout"} <= applying()


def test_only_programs_that_sample_need_a_reward_and_policies() -> None:
    sampled = {"reward", "sampling", "policy_versions", "sync"}
    assert not sampled & applying(kind="dpo")
    assert all(sampled <= applying(kind=kind) for kind in ("grpo", "ppo", "rejection_sampling"))


def test_nothing_is_held_out_where_the_program_reports_its_own_score() -> None:
    assert not {"holdout", "evaluator"} & applying(reported=True)
    assert "search" in applying(reported=True)


def test_having_none_of_something_is_not_missing_it() -> None:
    assert missing_links(needs(), {**WHOLE, "data": {}}) == ()
    assert missing_links(needs("sft"), {**WHOLE, "chat_template": "none"}) == ()
    assert missing_links(needs(), {}) != ()


SAMPLING: dict[str, Json] = {**dict.fromkeys(PARTS["sampling"], 1), "sampler": "transformers"}


@pytest.mark.parametrize("name", sorted(PARTS))
def test_a_link_that_says_too_little_is_missing_and_what_it_lacks_is_named(name: str) -> None:
    *said, lacking = PARTS[name]
    some: dict[str, Json] = {**WHOLE, name: {**dict.fromkeys(said, 0), lacking: None}}
    assert missing_links(needs("grpo"), some) == (f"{LINKS[name][0]} ({lacking})",)
    assert missing_links(needs("command"), some) == (), "its program is its own"


def test_a_vllm_that_sampled_is_known_by_its_version() -> None:
    by_vllm: dict[str, Json] = {**SAMPLING, "sampler": "vllm_adapters"}
    lacking: dict[str, Json] = {**WHOLE, "sampling": by_vllm}
    said = "the sampling settings (the version of vllm)"
    assert missing_links(needs("grpo"), lacking) == (said,)
    assert missing_links(needs("grpo"), {**WHOLE, "sampling": {**by_vllm, "vllm": "0.32"}}) == ()
    beside: dict[str, Json] = {**dict.fromkeys(PARTS["libraries"], "1"), "vllm": "0.32"}
    assert missing_links(needs("grpo"), {**lacking, "libraries": beside}) == ()
    assert missing_links(needs("grpo"), {**WHOLE, "sampling": SAMPLING}) == ()


def test_repeated_runs_have_an_interval_and_one_run_has_none() -> None:
    several = scores_with_interval([0.5, 0.7])
    assert several is not None
    assert several["mean"] == pytest.approx(0.6)
    low, high = several["low"], several["high"]
    assert isinstance(low, float)
    assert isinstance(high, float)
    assert low < 0.6 < high
    once = scores_with_interval([0.5])
    assert once is not None
    assert (once["mean"], once["low"], once["high"]) == (0.5, None, None)
    assert scores_with_interval([]) is None
