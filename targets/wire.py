"""The job protocol's documents to and from targets.protocol."""

import dataclasses
import json
import math
from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel

from ledger.records import IntermediateValue
from targets.http_job.documents import (
    AttemptDoc,
    ExitDoc,
    LimitsDoc,
    NetworkRequestDoc,
    ObservationDoc,
    ProgramDoc,
    ValueDoc,
)
from targets.layout import one_line
from targets.protocol import (
    AttemptSpec,
    Exit,
    Limits,
    NetworkRequest,
    Observation,
    Program,
)
from targets.reports import parse_report


def program_doc(program: Program) -> ProgramDoc:
    """Raises ValueError for text that UTF-8 cannot hold."""
    doc = ProgramDoc(
        argv=list(program.argv),
        python=program.python,
        image=program.image,
        environment=dict(program.environment),
        working_input=program.working_input,
        run_in=program.run_in,
    )
    doc.model_dump_json()
    return doc


def program_of(doc: ProgramDoc) -> Program:
    return Program(**{**doc.model_dump(), "argv": tuple(doc.argv)})


def attempt_doc(spec: AttemptSpec) -> AttemptDoc:
    """Without the name, and without what only means something on this machine (launch_by and
    gpu_ids). Raises ValueError for what JSON in UTF-8 cannot hold."""
    limits = {name: getattr(spec.limits, name) for name in LimitsDoc.model_fields}
    doc = AttemptDoc(
        owner=spec.owner,
        kind=spec.kind,
        program=program_doc(spec.program),
        inputs=dict(spec.inputs),
        document=json.loads(json.dumps(dict(spec.document))),
        limits=LimitsDoc(**limits),
        egress=list(spec.egress),
        options=json.loads(json.dumps(dict(spec.options))),
        answerer=None if spec.answerer is None else program_doc(spec.answerer),
        answerer_inputs=dict(spec.answerer_inputs),
    )
    doc.model_dump_json()
    return doc


def attempt_of(name: str, doc: AttemptDoc, gpu_ids: tuple[str, ...] = ()) -> AttemptSpec:
    return AttemptSpec(
        name=name,
        owner=doc.owner,
        kind=doc.kind,
        program=program_of(doc.program),
        inputs=doc.inputs,
        document=doc.document,
        limits=Limits(**doc.limits.model_dump(), gpu_ids=gpu_ids),
        egress=tuple(doc.egress),
        options=doc.options,
        answerer=None if doc.answerer is None else program_of(doc.answerer),
        answerer_inputs=doc.answerer_inputs,
    )


def canonical(doc: BaseModel) -> bytes:
    """The document in the one form that two equal ones have."""
    return json.dumps(
        doc.model_dump(mode="json"), sort_keys=True, separators=(",", ":"), allow_nan=False
    ).encode()


def value_doc(value: IntermediateValue) -> ValueDoc:
    number = value.value
    text: float | Literal["NaN", "Infinity", "-Infinity"] = number
    if math.isnan(number):
        text = "NaN"
    elif math.isinf(number):
        text = "Infinity" if number > 0 else "-Infinity"
    return ValueDoc(step=value.step, metric=value.metric, value=text)


def exit_of(doc: ExitDoc) -> Exit:
    return Exit(**{**doc.model_dump(), "detail": one_line(doc.detail)})


def exit_doc(ended: Exit) -> ExitDoc:
    return ExitDoc(
        cause=ended.cause,
        code=ended.code,
        detail=ended.detail[:2000],
        wall_s=ended.wall_s,
        cpu_s=ended.cpu_s,
        max_rss_bytes=ended.max_rss_bytes,
    )


def observation_of(doc: ObservationDoc) -> Observation:
    """The same rules for values as for a local program's: what breaks them is rejected."""
    values = [parse_report(json.dumps(value.model_dump()).encode()) for value in doc.values]
    kept = tuple(value for value in values if value is not None)
    return Observation(
        values=kept,
        cursor=doc.cursor,
        more=doc.more,
        rejected=doc.rejected + len(values) - len(kept),
        requests=tuple(_request_of(request) for request in doc.requests),
        exit=None if doc.exit is None else exit_of(doc.exit),
    )


def _request_of(doc: NetworkRequestDoc) -> NetworkRequest:
    given: Mapping[str, object] = doc.model_dump()
    cleaned = {k: one_line(v) if isinstance(v, str) else v for k, v in given.items()}
    return NetworkRequest(**cleaned)  # type: ignore[arg-type]  # the fields are the same


def network_request_doc(request: NetworkRequest) -> NetworkRequestDoc:
    return NetworkRequestDoc.model_validate(dataclasses.asdict(request))
