"""The rules of a study file whose proposer asks language models."""

from typing import Any

import pytest

from controller.spec.errors import StudyRefused
from controller.spec.loading import parse_study
from tests.unit.controller.study_documents import COMMAND, changed

ENDPOINTS = [{"url": "http://localhost:8000/v1", "model": "m"}]


def asking(name: str, more: dict[str, Any] | None = None, **changes: Any) -> dict[str, object]:
    chosen = {"name": name, "options": {"endpoints": ENDPOINTS, **(more or {})}}
    return changed(COMMAND, proposer=chosen, **changes)


def problems(document: object) -> list[str]:
    with pytest.raises(StudyRefused) as refused:
        parse_study(document)
    return [str(problem) for problem in refused.value.problems]


def test_a_study_may_ask_a_model_for_parameters() -> None:
    assert parse_study(asking("llm")).proposer.name == "llm"
    assert parse_study(asking("llm", {"fallback": "none", "max_tokens": 100}))


def test_patches_need_files_that_they_may_change() -> None:
    assert problems(asking("llm_diff")) == [
        "program.mutable: proposer llm_diff changes these files, and there are none; "
        "name the files that it may change, like [train.py]"
    ]


def test_parameters_need_a_space() -> None:
    document = asking("llm", space={}, program__source="./p", program__mutable=["a.py"])
    assert (
        "space: proposer llm chooses parameters, and there are none; "
        "add a parameter, or write proposer.name: llm_diff"
    ) in problems(document)


@pytest.mark.parametrize("name", ["llm", "llm_diff", "nobody"])
def test_a_model_or_a_stranger_cannot_step_in_for_a_model(name: str) -> None:
    (found,) = problems(asking("llm", {"fallback": name}))
    assert found.startswith(f'proposer.options.fallback: "{name}": it cannot step in for a model')
    assert "random" in found


def test_a_model_needs_an_endpoint() -> None:
    document = changed(COMMAND, proposer={"name": "llm"})
    assert problems(document) == [
        "proposer.options.endpoints: null: it is needed; correct or remove it"
    ]


def test_an_unknown_key_of_an_endpoint_is_named_where_it_stands() -> None:
    document = asking("llm", {"endpoints": [{**ENDPOINTS[0], "api_key": "sk-1"}]})
    (found,) = problems(document)
    assert found.startswith("proposer.options.endpoints.0.api_key: ")
    assert "there is no such key" in found
