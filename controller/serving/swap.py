"""Adapters in a running server: loaded beside the incumbent, gated, and then in its place or out.

A candidate is loaded under a name of its own, so that until it passed nothing of what is served
changes. The switch is one request, which loads it under the public name in the incumbent's place;
only when the server is seen to have done it does the record say so. Whatever fails before leaves
the record, and as far as the server still answers the server, with the incumbent.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from controller.serving.endpoint import Endpoint, Listed
from controller.serving.faults import EndpointRefuses, EndpointUnavailable
from controller.serving.gate import ServingGate, Verdict, recorded_items
from controller.serving.record import ServingRecord
from controller.serving.subjects import Subject, own_name
from ledger.errors import ArlError, Conflict, InvalidInput
from ledger.records import Split
from ledger.service_entries import ServingSet

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Incumbent:
    """What has the public name on the server."""

    record: ServingSet | None
    """None: nobody recorded it; the server was started with it."""
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a gate is held by."""

    splits: tuple[Split, ...]
    margin: float
    shadow: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    verdict: Verdict
    judged: int
    kept: ServingSet | None
    """What the record says now, where the candidate took the name."""
    incumbent: ServingSet | None
    """Who had the name before."""


class Swap:
    """One candidate at one server. One at a time: see `lock`."""

    def __init__(self, endpoint: Endpoint, record: ServingRecord, say: Say) -> None:
        self._endpoint, self._record, self._say = endpoint, record, say

    def gate_adapter(
        self, subject: Subject, path: Path, gate: ServingGate, terms: Terms
    ) -> Outcome:
        """Load, gate, and keep it or take it out.

        Raises:
            EndpointUnavailable, EndpointRefuses: nothing was switched; the message says where
                things stand.
            Conflict: the server does not serve what the record says, or serves the candidate
                already; or another switch came first.
        """
        incumbent = self._incumbent(subject)
        if incumbent is not None and subject.artifact in incumbent.path:
            raise Conflict(f"{subject.name} serves {subject.own_name} already")
        was_there = terms.shadow and subject.own_name in self._endpoint.models()
        with self._taken_out(subject, unless=was_there) as stays:
            with self._kept_whole(subject, "load"):
                served = {str(path), "" if incumbent is None else incumbent.path}
                if not terms.shadow:
                    self.take_out_others(subject.name, served)
                self._endpoint.load(subject.own_name, str(path))
            outcome = self._gated(subject, gate, terms, incumbent)
            if not outcome.verdict.passed or terms.shadow:
                return outcome
            kept = self._switch(subject, path, incumbent, outcome.judged)
            stays.append(kept)
        with suppress(EndpointUnavailable, EndpointRefuses):
            self.take_out_others(subject.name, {str(path)})
        return Outcome(
            verdict=outcome.verdict,
            judged=outcome.judged,
            kept=kept,
            incumbent=outcome.incumbent,
        )

    def gate_served(self, subject: Subject, form: str, gate: ServingGate, terms: Terms) -> Outcome:
        """Gate a whole model that the server was started with, under its own name. Nothing can be
        switched: a server keeps the model it was started with. Raises as gate_adapter."""
        if subject.own_name not in self._endpoint.models():
            raise Conflict(
                f"{self._endpoint.url} does not serve {subject.own_name}: a {form} model is not "
                "loaded into a running server; start one with it (`arl serve-model … --start`)"
            )
        return self._gated(subject, gate, terms, None, form=form)

    def restore(self, subject: Subject, path: Path, recorded: ServingSet) -> ServingSet | None:
        """Put what the record names in again, on this server; None where it is there.

        Raises EndpointUnavailable, EndpointRefuses, Conflict.
        """
        listed = self._endpoint.models()
        self._check_adapter(listed.get(subject.name), subject)
        is_there = all(
            name in listed and listed[name].root == str(path)
            for name in (subject.name, subject.own_name)
        )
        if is_there and recorded.endpoint == self._record.endpoint:
            return None
        with self._kept_whole(subject, "switch"):
            self._endpoint.load(subject.own_name, str(path))
            self._endpoint.load(subject.name, str(path))
        return self._record.set(subject, after=recorded, judged=None, note="put back")

    def put_back(self, subject: Subject, path: Path, note: str) -> ServingSet:
        """Serve what had the name before in the place of what is served, without a gate.

        Raises EndpointUnavailable, EndpointRefuses, Conflict.
        """
        listed = self._endpoint.models().get(subject.name)
        self._check_adapter(listed, subject)
        record = self._record.served(subject.name)
        incumbent = None if listed is None else Incumbent(record=record, path=listed.root)
        with self._taken_out(subject) as stays:
            with self._kept_whole(subject, "load"):
                self._endpoint.load(subject.own_name, str(path))
            with self._kept_whole(subject, "switch", incumbent, may_have_changed=True):
                self._endpoint.load(subject.name, str(path))
                kept = self._record.set(subject, after=record, judged=None, note=note)
            stays.append(kept)
        with suppress(EndpointUnavailable, EndpointRefuses):
            self.take_out_others(subject.name, {str(path)})
        return kept

    def _gated(
        self,
        subject: Subject,
        gate: ServingGate,
        terms: Terms,
        incumbent: Incumbent | None,
        form: str = "adapter",
    ) -> Outcome:
        recorded = self._record.evaluations(subject)
        if incumbent is None and not recorded_items(recorded, terms.splits):
            raise InvalidInput(
                f"{subject.name}: there is nothing to compare {subject.own_name} with: no "
                f"incumbent on the server, and no recorded item scores of it on {terms.splits[0]}"
            )
        with self._kept_whole(subject, "gate"):
            verdict = gate.run(
                subject.own_name,
                None if incumbent is None else subject.name,
                recorded,
                direction=subject.spec.objective.direction,
                margin=terms.margin,
            )
        judged = self._record.judged(
            subject,
            verdict,
            form=form,
            splits=terms.splits,
            margin=terms.margin,
            shadow=terms.shadow,
        )
        return Outcome(
            verdict=verdict,
            judged=judged,
            kept=None,
            incumbent=None if incumbent is None else incumbent.record,
        )

    def _incumbent(self, subject: Subject) -> Incumbent | None:
        """Raises Conflict: the server and the record disagree."""
        record = self._record.served(subject.name)
        listed = self._endpoint.models().get(subject.name)
        self._check_adapter(listed, subject)
        if listed is None:
            if record is None:
                return None
            raise Conflict(
                f"{self._endpoint.url} does not serve {subject.name}, and the record says it is "
                f"{record.served_as}: `arl serve-model {subject.name} --into URL --restore` puts "
                "it in again, on a new server, too"
            )
        if record is not None and record.artifact_digest not in listed.root:
            raise Conflict(
                f"{self._endpoint.url} serves {subject.name} from {listed.root[:200]}, and the "
                f"record says it is {record.served_as}: --restore puts the recorded one in again"
            )
        return Incumbent(record=record, path=listed.root)

    def _check_adapter(self, listed: Listed | None, subject: Subject) -> None:
        if listed is not None and not listed.is_adapter:
            raise Conflict(
                f"{self._endpoint.url} serves a whole model as {subject.name}, in whose place no "
                "adapter can be: start it with another --served-model-name, or name another --as"
            )

    def take_out_others(self, public: str, served: set[str]) -> None:
        """Of the names that only one artifact has: what was served before, or what a gate that
        was killed left there."""
        for name, listed in self._endpoint.models().items():
            is_ours = name.startswith(own_name(public, "")) and listed.is_adapter
            if is_ours and listed.root not in served:
                self._say(f"taking out {name}")
                self._endpoint.unload(name)

    @contextmanager
    def _taken_out(self, subject: Subject, *, unless: bool = False) -> Iterator[list[ServingSet]]:
        """The candidate's own name goes again, however what is inside ends, unless it stays."""
        stays: list[ServingSet] = []
        try:
            yield stays
        finally:
            if not stays and not unless:
                self._unload_quietly(subject.own_name)

    def _switch(
        self, subject: Subject, path: Path, incumbent: Incumbent | None, judged: int
    ) -> ServingSet:
        before = None if incumbent is None else incumbent.record
        with self._kept_whole(subject, "switch", incumbent, may_have_changed=True):
            self._endpoint.load(subject.name, str(path))
            return self._record.set(subject, after=before, judged=judged)

    def _unload_quietly(self, name: str) -> None:
        try:
            self._endpoint.unload(name)
        except (EndpointUnavailable, EndpointRefuses) as error:
            self._say(f"{name} could not be taken out: {error}")

    @contextmanager
    def _kept_whole(
        self,
        subject: Subject,
        stage: str,
        incumbent: Incumbent | None = None,
        *,
        may_have_changed: bool = False,
    ) -> Iterator[None]:
        """What fails inside is recorded, and told with where things stand now."""
        try:
            yield
        except BaseException as error:
            if may_have_changed:
                self._put_back(subject, incumbent)
            told = f"{error}" or type(error).__name__
            self._record.failed(subject, stage, told)
            if isinstance(error, ArlError):
                raise type(error)(f"{told}; {self._standing(subject)}") from error
            raise

    def _put_back(self, subject: Subject, incumbent: Incumbent | None) -> None:
        """The server may have switched although its answer, or the record, failed."""
        with suppress(EndpointUnavailable, EndpointRefuses):
            listed = self._endpoint.models().get(subject.name)
            if incumbent is None:
                if listed is not None:
                    self._endpoint.unload(subject.name)
            elif listed is None or listed.root != incumbent.path:
                self._endpoint.load(subject.name, incumbent.path)

    def _standing(self, subject: Subject) -> str:
        record = self._record.served(subject.name)
        named = f"the record names {record.served_as}" if record else "the record names none"
        try:
            listed = self._endpoint.models().get(subject.name)
        except (EndpointUnavailable, EndpointRefuses):
            return (
                f"the server is gone, or answers nothing; nothing was switched and {named}: "
                "--restore puts it in a new server"
                if record
                else f"the server is gone, or answers nothing; nothing was switched and {named}"
            )
        if listed is None:
            return f"nothing was switched, {named} and the server has no {subject.name}"
        return f"nothing was switched, {named} and the server serves {listed.root[:200]}"
