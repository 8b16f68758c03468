"""Watches a campaign: fixed slices after every switch, and the prompts that come in."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from controller.campaigns.experience import stored_rows
from controller.campaigns.log import Maker
from controller.campaigns.opening import Opened
from controller.campaigns.switching import Switching
from controller.decisions.campaigns import decide_forgetting, is_shifted, shift_detail
from controller.serving.asking import Interview
from controller.serving.frozen_scorer import FrozenScorer
from controller.serving.into import Into
from controller.wiring import Service
from evaluator.shift import compare_prompts
from inner_trials.contamination import prompt_of
from ledger.campaign_entries import ShiftMeasured, SliceMeasured
from ledger.service_entries import ServingSet

Say = Callable[[str], None]


class Watching:
    """What is measured of one campaign."""

    def __init__(
        self, service: Service, opened: Opened, into: Into, switching: Switching, say: Say
    ) -> None:
        self._service, self._opened, self._into = service, opened, into
        self._switching, self._say = switching, say
        self._log = opened.log
        self._scorer: FrozenScorer | None = None

    def measure(self) -> None:
        """Ask what is served every slice that it was not asked yet, by the frozen evaluator, and
        compare it with what was served before. An alarm is recorded with what it follows from.

        Raises EndpointUnavailable, EndpointRefuses, Conflict, InvalidInput.
        """
        served = self._switching.served()
        if served is None:
            return
        for name in self._opened.slices:
            if self._found(name, served.artifact_digest) is None:
                self._measure(name, served)

    def compare_prompts(self) -> None:
        """Whether the newest prompts are like the reference, once more came in."""
        spec, state = self._opened.campaign.spec.shift, self._log.state
        last = 0 if state.shift is None else state.shift.number
        if spec is None or not state.batches or state.batches[-1].number < last:
            return
        incoming = self._newest_prompts(spec.window)
        if len(incoming) < spec.least:
            return
        reference = sorted({prompt_of(row) for row in self._opened.reference})
        found = compare_prompts(incoming, reference)
        shifted = is_shifted(found, spec)
        detail = f"{len(incoming)} prompts against {len(reference)}: {shift_detail(found, spec)}"
        self._say(f"shift: {detail}")
        entries: list[Maker] = [
            partial(
                ShiftMeasured,
                campaign=self._log.name,
                prompts=len(incoming),
                reference=len(reference),
                statistics={name: asdict(one) for name, one in found.items()},
                shifted=shifted,
            )
        ]
        if shifted and (state.shift is None or not state.shift.shifted):
            served = self._switching.served()
            artifact = "" if served is None else served.artifact_digest
            before = self._switching.served_before(artifact)
            entries.append(self._switching.alarm("shift", detail, before))
        self._log.add(*entries)

    def _found(self, name: str, artifact: str) -> SliceMeasured | None:
        key = (self._opened.bundle.digest, self._opened.slices[name], artifact)
        return self._log.state.measured.get(key)

    def _measure(self, name: str, served: ServingSet) -> None:
        scorer = self._the_scorer()
        questions = scorer.questions(name)
        self._say(f"asking {served.served_as} the {len(questions.prompts)} items of slice {name}")
        asked = Interview(self._into.connect, served.served_as, self._into.asking, self._say).ask(
            questions
        )
        scores, answers = scorer.score(name, asked.answers)
        before = self._switching.served_before(served.artifact_digest)
        earlier = None if before is None else self._found(name, before.artifact_digest)
        text = json.dumps(list(scores.items)).encode()
        fields: dict[str, Any] = {
            "campaign": self._log.name,
            "slice": name,
            "slice_digest": self._opened.slices[name],
            "artifact_digest": served.artifact_digest,
            "served_as": served.served_as,
            "value": scores.value,
            "items_digest": self._service.store.put_bytes(text),
            "answers_digest": answers,
        }
        if earlier is None:
            fields |= {"against": "", "comparison": {}, "forgotten": False}
            self._log.add(partial(SliceMeasured, **fields))
        else:
            self._log.add(*self._compared(name, scores.items, before, earlier, fields))
        self._say(f"slice {name}: {scores.value:.4g}")

    def _compared(
        self,
        name: str,
        items: Sequence[float],
        before: ServingSet | None,
        earlier: SliceMeasured,
        fields: dict[str, Any],
    ) -> list[Maker]:
        old = json.loads(self._service.store.read_bytes(earlier.items_digest))
        spec = self._opened.campaign
        found = decide_forgetting(
            items,
            old,
            direction=spec.study.objective.direction,
            max_drop=spec.spec.slices[name].max_drop,
        )
        entries: list[Maker] = [
            partial(
                SliceMeasured,
                **fields,
                against=earlier.artifact_digest,
                comparison=found.comparison,
                forgotten=found.forgotten,
            )
        ]
        if found.forgotten:
            detail = f"slice {name}: {found.detail}"
            entries.append(self._switching.alarm("forgetting", detail, before))
        return entries

    def _the_scorer(self) -> FrozenScorer:
        if self._scorer is None:
            service, spec = self._service, self._opened.campaign.study
            self._scorer = FrozenScorer(
                service.store,
                service.evaluating_target(spec),
                self._opened.bundle.digest,
                spec,
                service.ledger.id,
                self._opened.slices,
            )
            self._scorer.clean_up()
        return self._scorer

    def _newest_prompts(self, window: int) -> list[str]:
        """Different ones, from the newest batch backwards."""
        found: dict[str, str] = {}
        for batch in reversed(self._log.state.batches):
            rows = stored_rows(self._service.store, [batch], ["row", "prompt_revision"])
            for row in reversed(list(rows)):
                found.setdefault(row["prompt_revision"], prompt_of(json.loads(row["row"])))
                if len(found) >= window:
                    return list(found.values())
        return list(found.values())
