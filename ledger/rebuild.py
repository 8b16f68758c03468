"""Rebuilds a study's rows from its chain in a scratch ledger, to compare with the real ones."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import bindparam, insert, select

from ledger.campaign_entries import CampaignEntry
from ledger.campaigns import check_campaigns
from ledger.chain import SERVICE_CHAIN
from ledger.chain_check import Finding
from ledger.curves import parse_values
from ledger.database import ReadSession, WriteSession
from ledger.digests import canonical_json, sha256_hex
from ledger.entries import (
    CandidatePromoted,
    CandidateProposed,
    CommandApplied,
    Entry,
    ModelCalled,
    ProposalsMade,
    StudyMoved,
    StudySubmitted,
    TrialEvaluated,
    ValuesReported,
    WorkerClaimed,
)
from ledger.errors import ArlError, InvalidInput
from ledger.hydration import parse_entry
from ledger.project_service import project_service
from ledger.projection import Projection
from ledger.projections import project
from ledger.records import Resource
from ledger.rows import (
    BATCHES,
    CANDIDATES,
    COMMANDS,
    ENTRIES,
    EVALUATIONS,
    MODEL_CALLS,
    STATES,
    STUDIES,
)
from ledger.service_entries import ServiceEntry, ServingSet
from ledger.serving import check_served
from ledger.statements import Statement
from ledger.writes import create_study

_APPLY_EVERY: Final = 500

_BATCH: Final = Statement(
    select(BATCHES.c.payload).where(
        BATCHES.c.attempt_id == bindparam("attempt_id"),
        BATCHES.c.sequence == bindparam("sequence"),
    )
)
_ITEMS: Final = Statement(
    select(EVALUATIONS.c["items"]).where(
        EVALUATIONS.c.trial_id == bindparam("trial_id"),
        EVALUATIONS.c.split == bindparam("split"),
    )
)
_PATCH: Final = Statement(
    select(CANDIDATES.c.patch).where(CANDIDATES.c.id == bindparam("candidate_id"))
)
_MODEL_CALL: Final = Statement(
    select(MODEL_CALLS.c.request, MODEL_CALLS.c.response).where(
        MODEL_CALLS.c.study_id == bindparam("study_id"),
        MODEL_CALLS.c.number == bindparam("number"),
    )
)
_STATE: Final = Statement(
    select(STATES.c.state).where(
        STATES.c.study_id == bindparam("study_id"), STATES.c.digest == bindparam("digest")
    )
)


@dataclass
class Rebuilt:
    """What is known once a chain was projected again."""

    findings: list[Finding] = field(default_factory=list)
    promoted: list[CandidatePromoted] = field(default_factory=list)


def rebuild_study(real: ReadSession, scratch: WriteSession, study_id: str) -> Rebuilt:
    """Project a study's whole chain, which must be intact, into the scratch ledger."""
    return _Rebuilder(real, scratch, study_id).run()


def rebuild_service(real: ReadSession, scratch: WriteSession) -> None:
    """Project the service chain into the scratch ledger. Raises InvalidInput, Conflict."""
    query = select(ENTRIES).where(ENTRIES.c.chain == SERVICE_CHAIN).order_by(ENTRIES.c.seq)
    served: list[ServingSet] = []
    campaigns: list[CampaignEntry] = []
    for row in real.connection.execute(query.execution_options(yield_per=1000)):
        body = json.loads(row.body)
        entry = parse_entry(row.kind, body["payload"])
        if isinstance(entry, ServiceEntry):
            project_service(scratch, entry, body["at"])
        if isinstance(entry, ServingSet):
            served.append(entry)
        if isinstance(entry, CampaignEntry):
            campaigns.append(entry)
    check_served(served)
    check_campaigns(campaigns)


class _Rebuilder:
    def __init__(self, real: ReadSession, scratch: WriteSession, study_id: str) -> None:
        self._real = real
        self._scratch = scratch
        self._study_id = study_id
        self._projection = Projection(scratch, study_id, 0.0)
        self._fence = 0
        self._state_digest: str | None = None
        self._result = Rebuilt()

    def run(self) -> Rebuilt:
        study = self._real.connection.execute(
            select(STUDIES).where(STUDIES.c.id == self._study_id)
        ).one()
        query = select(ENTRIES).where(ENTRIES.c.chain == self._study_id).order_by(ENTRIES.c.seq)
        for link in self._real.connection.execute(query.execution_options(yield_per=1000)):
            body = json.loads(link.body)
            where = f"entries {self._study_id}/{link.seq}"
            try:
                self._replay(link, body, study)
                if link.seq % _APPLY_EVERY == 0:
                    self._projection.apply()
            except (ArlError, ValueError) as error:
                self._result.findings.append(Finding(where, f"its rows disagree: {error}"))
                if link.seq == 1:
                    return self._result
        if study.active_s:
            self._projection.budgets.set_used(Resource.WALL_S, study.active_s)
        self._projection.finish()
        if study.fence != self._fence:
            self._found("studies", f"fence is {study.fence}, the chain says {self._fence}")
        if self._state_digest and not self._real.fetch(_STATE, self._state_key()):
            self._found("proposer_states", "the state that the chain says is missing")
        return self._result

    def _found(self, table: str, problem: str) -> None:
        self._result.findings.append(Finding(f"{table} {self._study_id}", problem))

    def _replay(self, link: Any, body: Mapping[str, Any], study: Any) -> None:
        self._scratch.set_now(body["at"])
        self._projection.at = body["at"]
        entry = self._hydrate(link.kind, body["payload"])
        if isinstance(entry, StudySubmitted):
            self._create(entry, json.loads(study.spec), study.secret)
        elif isinstance(entry, WorkerClaimed):
            self._fence = entry.fence
        else:
            self._prepare(link, entry)
            project(entry, self._projection)

    def _create(self, entry: StudySubmitted, spec: Mapping[str, Any], secret: str) -> None:
        if sha256_hex(secret.encode()) != entry.secret_digest:
            self._found("studies", "its secret is not the one it was submitted with")
        create_study(
            self._scratch,
            self._study_id,
            spec=spec,
            secret=secret,
            budgets={Resource(name): limit for name, limit in entry.budgets.items()},
            entry=entry,
        )

    def _prepare(self, link: Any, entry: Entry) -> None:
        """Rows that a projection expects and the chain does not create."""
        if isinstance(entry, CommandApplied):
            row = {
                "id": entry.command_id,
                "study_id": self._study_id,
                "verb": str(entry.verb),
                "arguments": canonical_json(dict(entry.arguments)),
                "actor": entry.actor,
                "state": "pending",
                "detail": "",
                "created_at": 0.0,
            }
            self._scratch.connection.execute(insert(COMMANDS).values(row))
        elif isinstance(entry, StudyMoved):
            self._projection.apply()
            copied = {column.name: getattr(link, column.name) for column in ENTRIES.c}
            self._scratch.connection.execute(insert(ENTRIES).values(copied))
        elif isinstance(entry, CandidatePromoted):
            self._result.promoted.append(entry)

    def _hydrate(self, kind: str, payload: Mapping[str, Any]) -> Entry:
        find = _UNSEALED.get(kind)
        return parse_entry(kind, payload, find(self, payload) if find is not None else None)

    def _values(self, payload: Mapping[str, Any]) -> Mapping[str, object]:
        key = {"attempt_id": payload["attempt_id"], "sequence": payload["sequence"]}
        found = self._real.fetch(_BATCH, key)
        if not found:
            raise InvalidInput(f"value_batches {key['attempt_id']}/{key['sequence']} is missing")
        return {"values": tuple(parse_values(found[0][0]))}

    def _items(self, payload: Mapping[str, Any]) -> Mapping[str, object]:
        if payload["items_digest"] is None:
            return {}
        key = {"trial_id": payload["trial_id"], "split": payload["split"]}
        found = self._real.fetch(_ITEMS, key)
        if not found or found[0][0] is None:
            raise InvalidInput(f"evaluations {key['trial_id']}/{key['split']} has no items")
        return {"items": tuple(json.loads(found[0][0]))}

    def _patch(self, payload: Mapping[str, Any]) -> Mapping[str, object]:
        if payload["patch_digest"] is None or not payload["new_candidate"]:
            return {}
        found = self._real.fetch(_PATCH, {"candidate_id": payload["candidate_id"]})
        return {"patch": found[0][0] if found else None}

    def _model_call(self, payload: Mapping[str, Any]) -> Mapping[str, object]:
        key = {"study_id": self._study_id, "number": payload["number"]}
        found = self._real.fetch(_MODEL_CALL, key)
        if not found:
            raise InvalidInput(f"model_calls {key['study_id']}/{key['number']} is missing")
        return {"request": found[0][0], "response": found[0][1]}

    def _state_key(self) -> dict[str, str | None]:
        return {"study_id": self._study_id, "digest": self._state_digest}

    def _state(self, payload: Mapping[str, Any]) -> Mapping[str, object]:
        """Only the latest state is kept; the chain has the digests of all."""
        if payload["state_digest"] is None:
            return {}
        self._state_digest = payload["state_digest"]
        found = self._real.fetch(_STATE, self._state_key())
        return {"state": bytes(found[0][0]) if found else None}


_UNSEALED: Final[Mapping[str, Callable[[_Rebuilder, Mapping[str, Any]], Mapping[str, object]]]] = {
    ValuesReported.kind: _Rebuilder._values,
    TrialEvaluated.kind: _Rebuilder._items,
    CandidateProposed.kind: _Rebuilder._patch,
    ProposalsMade.kind: _Rebuilder._state,
    ModelCalled.kind: _Rebuilder._model_call,
}
