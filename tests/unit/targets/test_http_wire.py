"""What the job protocol's documents keep of an attempt, and what they refuse."""

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from ledger.records import AttemptKind, IntermediateValue
from targets import wire
from targets.http_job import signing
from targets.http_job.documents import AttemptDoc, ObservationDoc, ValueDoc
from targets.http_job.machines import study_of
from targets.http_job.watched import WatchedAttempts
from targets.protocol import AttemptSpec, Exit, ExitCause, Limits, NetworkRequest, Program

NAMES = st.text("abcXYZ019_-.", min_size=1, max_size=20).filter(lambda n: n[0] != ".")
TEXTS = st.text(st.characters(codec="utf-8"), max_size=30)
JSON: Any = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
PROGRAMS = st.builds(
    Program,
    argv=st.lists(TEXTS, max_size=4).map(tuple),
    python=TEXTS,
    image=st.none() | TEXTS,
    environment=st.dictionaries(TEXTS, TEXTS, max_size=3),
    working_input=st.none() | TEXTS,
    run_in=st.none() | TEXTS,
)
DIGESTS = st.text("0123456789abcdef", min_size=64, max_size=64)
LIMITS = st.builds(
    Limits,
    timeout_s=st.floats(0, 1e9),
    stall_s=st.none() | st.floats(0, 1e9),
    grace_s=st.floats(0, 1e6),
    cpus=st.floats(0.001, 1e6),
    memory_bytes=st.none() | st.integers(0, 2**50),
    gpus=st.integers(0, 64),
    output_bytes=st.none() | st.integers(0, 2**50),
)
SPECS = st.builds(
    AttemptSpec,
    name=NAMES,
    owner=NAMES,
    kind=st.sampled_from(AttemptKind),
    program=PROGRAMS,
    inputs=st.dictionaries(NAMES, DIGESTS, max_size=3),
    document=st.dictionaries(TEXTS, JSON, max_size=3),
    limits=LIMITS,
    egress=st.lists(TEXTS, max_size=2).map(tuple),
    options=st.dictionaries(TEXTS, JSON, max_size=2),
    answerer=st.none() | PROGRAMS,
    answerer_inputs=st.dictionaries(NAMES, DIGESTS, max_size=2),
)


@given(SPECS)
def test_an_attempt_is_the_same_after_its_way_over_the_wire(spec: AttemptSpec) -> None:
    sent = wire.attempt_doc(spec).model_dump_json()
    read = AttemptDoc.model_validate_json(sent)
    assert wire.attempt_of(spec.name, read) == spec
    assert wire.canonical(read) == wire.canonical(wire.attempt_doc(spec))


def spec_of(**changes: Any) -> AttemptSpec:
    spec = AttemptSpec(
        name="arl-a",
        owner="o",
        kind=AttemptKind.TRAIN,
        program=Program(argv=("x",), python="python"),
        inputs={"b": "0" * 64, "a": "1" * 64},
        document={"z": 1, "a": [1, {"k": None}]},
        limits=Limits(timeout_s=5.0),
    )
    return replace(spec, **changes)


def test_the_order_of_keys_makes_no_other_body() -> None:
    turned = spec_of(
        inputs={"a": "1" * 64, "b": "0" * 64}, document={"a": [1, {"k": None}], "z": 1}
    )
    assert wire.canonical(wire.attempt_doc(spec_of())) == wire.canonical(wire.attempt_doc(turned))


def test_what_only_means_something_here_is_not_sent() -> None:
    limits = Limits(timeout_s=5.0, gpu_ids=("0", "3"))
    here = wire.attempt_doc(spec_of(limits=limits, launch_by=123.0))
    assert wire.canonical(here) == wire.canonical(wire.attempt_doc(spec_of()))


def test_text_that_utf_8_cannot_hold_is_refused() -> None:
    with pytest.raises(ValueError, match="surrogates"):
        wire.attempt_doc(spec_of(program=Program(argv=("\ud800",), python="python")))


@pytest.mark.parametrize(
    "changes",
    [
        {"unknown": 1},
        {"owner": "../x"},
        {"inputs": {"a": "0" * 63}},
        {"inputs": {"../a": "0" * 64}},
        {"kind": "convert me"},
        {"limits": {"timeout_s": -1}},
        {"limits": {"timeout_s": 1, "cpus": 0}},
    ],
)
def test_a_request_outside_the_protocol_is_refused(changes: dict[str, Any]) -> None:
    good = wire.attempt_doc(spec_of()).model_dump(mode="json")
    AttemptDoc.model_validate(good)
    with pytest.raises(ValidationError):
        AttemptDoc.model_validate({**good, **changes})


@given(st.floats(), st.integers(0, 2**53))
def test_values_keep_what_json_has_no_number_for(value: float, step: int) -> None:
    said = IntermediateValue(step=step, metric="train/loss", value=value)
    doc = ValueDoc.model_validate_json(wire.value_doc(said).model_dump_json())
    observed = ObservationDoc(state="running", cursor="", timeout_s=1.0, grace_s=1.0, values=[doc])
    (read,) = wire.observation_of(observed).values
    assert (read.step, read.metric) == (step, "train/loss")
    assert read.value == value or (math.isnan(read.value) and math.isnan(value))


def test_exits_and_network_requests_come_back_as_they_were() -> None:
    ended = Exit(cause=ExitCause.TOO_MUCH_DATA, code=-9, detail="x", wall_s=1.5, cpu_s=1.0)
    assert wire.exit_of(wire.exit_doc(ended)) == ended
    request = NetworkRequest(
        at="2026-01-01T00:00:00+00:00", method="CONNECT", host="h", port=443, allowed=True
    )
    observed = ObservationDoc(
        state="running",
        cursor="",
        timeout_s=1.0,
        grace_s=1.0,
        requests=[wire.network_request_doc(request)],
    )
    assert wire.observation_of(observed).requests == (request,)


def test_no_two_requests_have_one_signature() -> None:
    key = signing.key_of("k" * 32)
    told = {signing.TIME: "1", signing.NONCE: "2", signing.SESSION: "3"}
    signatures = {
        signing.request_signature(key, method, target, body, {**told, **changes})
        for method, target, body, changes in (
            ("GET", "/v1/a", b"", {}),
            ("PUT", "/v1/a", b"", {}),
            ("GET", "/v1/b", b"", {}),
            ("GET", "/v1/a", b"x", {}),
            ("GET", "/v1/a", b"", {signing.TIME: "12"}),
            ("GET", "/v1/a", b"", {signing.NONCE: "23"}),
            ("GET", "/v1/a", b"", {signing.SESSION: ""}),
        )
    }
    assert len(signatures) == 7
    assert signing.machine_key(key, "a") not in (key, signing.machine_key(key, "b"))


def test_a_study_is_read_from_its_attempts_names() -> None:
    assert study_of("arl-s1a2-0.t-0") == "s1a2"
    assert study_of("arl-s1a2.p-0") == "s1a2"
    assert study_of("arl-x") == "x"


def test_only_running_counts_towards_being_late() -> None:
    watched = WatchedAttempts(late_s=-1.0)
    queued = ObservationDoc(state="queued", cursor="", timeout_s=0.0, grace_s=0.0)
    watched.saw("a", queued)
    assert watched.due(["a", "b"]) == set()
    assert not watched.is_lost("a")
    watched.saw("a", queued.model_copy(update={"state": "running"}))
    assert watched.due(["a", "b"]) == {"a"}
    assert watched.is_lost("a")
    watched.forget("a")
    assert not watched.is_lost("a")
