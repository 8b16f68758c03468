"""The rules of the `target` section: the field, the value, and what to write instead."""

import pytest

from controller.spec.errors import StudyRefused
from controller.spec.loading import parse_study
from tests.unit.controller.study_documents import COMMAND, changed

TARGETS: list[tuple[dict[str, object], str]] = [
    (
        changed(COMMAND, target__name="dockr"),
        'target.name: "dockr": no such value; write docker instead',
    ),
    (
        changed(COMMAND, target={"name": "local", "image": "python:3.11"}),
        'target.image: "python:3.11": target local does not read it; '
        "remove it, or write target.name: docker or ray",
    ),
    (
        changed(COMMAND, target={"name": "bubblewrap", "runtime": "runsc"}),
        'target.runtime: "runsc": target bubblewrap does not read it; '
        "remove it, or write target.name: docker",
    ),
    (
        changed(COMMAND, target={"name": "http", "url": "https://gpus.example.org"}),
        "target.secret: target http needs it; "
        "name ARL's environment variable that holds it, like ARL_SECRET_GPUS",
    ),
    (
        changed(COMMAND, target={"name": "ray", "storage": "file:///mnt/x"}),
        "target.address: target ray needs it; write the cluster's, like ray://head:10001, or auto",
    ),
    (
        changed(COMMAND, target={"name": "docker", "resources": {"tpu": 1.0}}),
        'target.resources: {"tpu": 1.0}: target docker does not read it; '
        "remove it, or write target.name: ray",
    ),
    (
        changed(COMMAND, evaluator__target="ray"),
        'evaluator.target: "ray": only the target that trials run on may be a remote one; '
        "write target.name: ray too, or docker, bubblewrap or local here",
    ),
    (
        changed(COMMAND, evaluator__target="local", evaluator__image="python:3.11"),
        'evaluator.image: "python:3.11": target local runs no images; '
        "remove it, or write evaluator.target: docker",
    ),
]


HTTP = {"name": "http", "url": "https://h", "secret": "ARL_SECRET_H"}
RAY = {"name": "ray", "address": "auto", "storage": "file:///mnt/x"}
KEY = "sk-live-0f3a9b"


@pytest.mark.parametrize(
    ("field", "target"),
    [
        ("target.secret", {**HTTP, "secret": KEY}),
        ("target.secret", {"name": "local", "secret": KEY}),
        ("target.url", {**HTTP, "url": f"https://u:{KEY}@h"}),
        ("target.url", {**HTTP, "url": f"https://h/?api_key={KEY}"}),
        ("target.url", {**HTTP, "url": f"https://h:{KEY}"}),
        ("target.address", {**RAY, "address": f"ray://u:{KEY}@head:10001"}),
        ("target.storage", {**RAY, "storage": f"s3://id:{KEY}@bucket/arl"}),
        ("target.storage", {**RAY, "storage": f"s3://bucket/arl?secret_key={KEY}&x=1"}),
    ],
)
def test_a_key_where_its_name_belongs_is_refused_and_not_repeated(
    field: str, target: dict[str, object]
) -> None:
    with pytest.raises(StudyRefused) as refused:
        parse_study(changed(COMMAND, target=target))
    assert field in [found.field for found in refused.value.problems]
    assert KEY not in str(refused.value)


@pytest.mark.parametrize(
    "storage", ["s3://bucket/arl", "s3://bucket/arl?region=eu", "file:///mnt/shared/a@b"]
)
def test_an_address_that_holds_no_key_is_taken(storage: str) -> None:
    spec = parse_study(changed(COMMAND, target={**RAY, "storage": storage}))
    assert spec.target.storage == storage


@pytest.mark.parametrize(("document", "problem"), TARGETS)
def test_a_target_is_given_what_it_reads_and_nothing_else(
    document: dict[str, object], problem: str
) -> None:
    with pytest.raises(StudyRefused) as refused:
        parse_study(document)
    assert [str(found) for found in refused.value.problems] == [problem]


@pytest.mark.parametrize(
    "target",
    [
        {"name": "docker", "image": "python:3.11", "runtime": "runsc"},
        {"name": "http", "url": "https://gpus.example.org", "secret": "ARL_SECRET_GPUS"},
        {"name": "ray", "address": "auto", "storage": "file:///mnt/x", "resources": {"tpu": 1}},
    ],
)
def test_what_a_target_needs_is_enough(target: dict[str, object]) -> None:
    spec = parse_study(changed(COMMAND, target=target))
    assert spec.target.name == target["name"]
