"""The protocol's documents, examples and pages say what the reference service does."""

import json
import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from examples.job_server.openapi import document
from targets.http_job import examples, signing
from targets.http_job.documents import (
    AttemptDoc,
    MachineAsked,
    NewsDoc,
    ObservationDoc,
    OutputsDoc,
    Problem,
)
from targets.wire import attempt_of, observation_of
from tests.http_runs import ROOT

DOCS = ROOT / "docs"


def test_the_openapi_document_is_that_of_the_reference_service() -> None:
    """If this fails: python -m examples.job_server.openapi docs/job-protocol.openapi.json"""
    assert (DOCS / "job-protocol.openapi.json").read_text(encoding="utf-8") == document()


def test_the_openapi_document_names_every_operation_of_the_page_and_no_other() -> None:
    said = json.loads(document())
    assert said["openapi"].startswith("3.1")
    served = {
        f"{method.upper()} {path}" for path, ways in said["paths"].items() for method in ways
    }
    page = (DOCS / "job-protocol.md").read_text(encoding="utf-8")
    written = set(re.findall(r"`((?:GET|HEAD|PUT|POST|DELETE) /v1/[^`?]*)`", page))
    assert served == written


@pytest.mark.parametrize(
    ("model", "example"),
    [
        (AttemptDoc, examples.ATTEMPT),
        (ObservationDoc, examples.OBSERVATION),
        (NewsDoc, examples.NEWS),
        (OutputsDoc, examples.OUTPUTS),
        (MachineAsked, examples.MACHINE),
        (Problem, examples.PROBLEM),
    ],
)
def test_every_example_is_a_document(model: type[BaseModel], example: object) -> None:
    read = model.model_validate_json(json.dumps(example))
    assert model.model_validate_json(read.model_dump_json()) == read


def test_the_examples_are_what_the_targets_mean() -> None:
    spec = attempt_of("arl-x", AttemptDoc.model_validate(examples.ATTEMPT), ("2",))
    assert spec.limits.gpu_ids == ("2",)
    assert spec.program.argv == ("{python}", "train.py")
    seen = observation_of(ObservationDoc.model_validate_json(json.dumps(examples.OBSERVATION)))
    assert seen.exit is not None
    assert seen.values[0].metric == "loss"


def test_the_signatures_of_the_page_are_right() -> None:
    """The page's worked example, for who writes a service in another language."""
    page = Path(DOCS / "job-protocol.md").read_text(encoding="utf-8")
    key = signing.key_of("0123456789abcdef" * 4)
    headers = {
        signing.TIME: "1767225600.000",
        signing.NONCE: "00112233445566778899aabbccddeeff",
        signing.SESSION: "5f1e",
    }
    request = signing.request_signature(key, "GET", "/v1/health", b"", headers)
    told = {"content-type": "application/json"}
    answer = signing.answer_signature(key, headers[signing.NONCE], 200, b"{}", told)
    assert request in page
    assert answer in page
    assert signing.machine_key(key, "arl-m").decode() in page
