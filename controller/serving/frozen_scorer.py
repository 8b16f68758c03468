"""Has a frozen evaluator say what to ask a served model, and score what it answered."""

import json
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from controller.spec.study import StudySpec
from controller.steps.attempt_specs import evaluator_of
from evaluator.bundle import Bundle, verify_bundle
from evaluator.program_files import BY_ENDPOINT, program_source
from evaluator.scores import ScoreRefused, Scores, parse_scores
from inner_trials import contract
from ledger.artifacts import ArtifactStore
from ledger.errors import ArlError, Conflict, InvalidInput, TargetUnavailable
from ledger.records import AttemptKind, Json
from targets.protocol import AttemptSpec, Exit, ExitCause, Limits, Target

OWNER: Final = "serving"
"""Attempts of this owner are no study's: no worker adopts or ends them."""
NAME: Final = "arl-serving."
LOG_BYTES: Final = 4000
WAIT_S: Final = 1.0
MODE: Final = 0o644

Answers: TypeAlias = Sequence[Sequence[tuple[str, bool]]]
"""For each item its answers, each with whether the model ended it itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """What the frozen evaluator asks."""

    prompts: tuple[str, ...]
    settings: Mapping[str, Json]


class FrozenScorer:
    """The bundle's own code in the study's own sandbox, on one split at a time. What a model
    answered comes in as a read-only file; the scores come out as an evaluation's do."""

    def __init__(
        self,
        store: ArtifactStore,
        target: Target,
        bundle_digest: str,
        spec: StudySpec,
        ledger_id: str,
        slices: Mapping[str, str] | None = None,
    ) -> None:
        """`slices`: trees of items by name, in place of the bundle's own splits.

        Raises InvalidInput, BundleChanged: there is no evaluator that could be asked."""
        if not bundle_digest or spec.evaluator.mode != "weights":
            raise InvalidInput(
                f"study {spec.name}: evaluator.mode {spec.evaluator.mode} scores no answers to "
                "prompts, so nothing served can be gated by it; weights can, with exact_match or "
                "pass_at_k"
            )
        self.bundle: Bundle = verify_bundle(store, bundle_digest)
        self._store, self._target, self._spec = store, target, spec
        declared = {str(split): tree for split, tree in self.bundle.splits.items()}
        self._trees = declared if slices is None else dict(slices)
        self._owner = f"{OWNER}-{ledger_id}"
        self._objective = spec.objective.metric
        source = program_source(BY_ENDPOINT)
        self._driver = store.put_manifest(
            [(BY_ENDPOINT, MODE, len(source), store.put_bytes(source))]
        )

    def clean_up(self) -> None:
        """End and delete what a killed run left; nobody else may be at work here."""
        for found in self._target.list_owned(self._owner):
            with suppress(TargetUnavailable, Conflict):
                self._target.kill(found.handle)
                self._target.release(found.handle)

    def questions(self, split: str) -> Questions:
        """Raises InvalidInput: its program cannot be asked so; Conflict: the evaluator fails."""
        raw = self._run("prompts", split, {})
        if len(raw) > contract.SCORE_BYTES:
            raise InvalidInput(
                f"split {split}: its prompts are longer than {contract.SCORE_BYTES} bytes "
                "together; gate on a smaller split (--split search)"
            )
        document = json.loads(raw)
        return Questions(prompts=tuple(document["prompts"]), settings=document["settings"])

    def score(self, split: str, answers: Answers) -> tuple[Scores, str]:
        """The scores, and the digest of the answers' file. Raises Conflict: it fails."""
        text = json.dumps([[list(one) for one in drawn] for drawn in answers]).encode()
        digest = self._store.put_bytes(text)
        tree = self._store.put_manifest([("answers.json", MODE, len(text), digest)])
        raw = self._run("score", split, {"answers": tree})
        scores = parse_scores(raw, metrics=self.bundle.metrics, objective=self._objective)
        if isinstance(scores, ScoreRefused):
            raise Conflict(f"the frozen evaluator gave no score: {scores.reason}")
        if len(scores.items) != len(answers):
            raise Conflict(
                f"the frozen evaluator scored {len(scores.items)} of {len(answers)} items one by "
                "one, which a paired comparison needs"
            )
        return scores, digest

    def _run(self, stage: str, split: str, inputs: Mapping[str, str]) -> bytes:
        spec = self._attempt(stage, split, inputs)
        handle = self._target.launch(spec)
        try:
            ended = self._ended(handle)
            if ended.cause is ExitCause.EXITED and ended.code == 0:
                return self._target.score(handle)
            said = self._last_words(handle)
        finally:
            self._end(handle)
        if ended.cause is ExitCause.EXITED and ended.code == contract.EXIT_REFUSED:
            raise InvalidInput(said)
        how = f"status {ended.code}" if ended.cause is ExitCause.EXITED else str(ended.cause)
        raise Conflict(f"the frozen evaluator failed ({stage} of {split}, {how}): {said}")

    def _attempt(self, stage: str, split: str, inputs: Mapping[str, str]) -> AttemptSpec:
        spec, resources = self._spec, self._spec.resources
        program = evaluator_of(spec, ("{python}", "-I", f"{{driver}}/{BY_ENDPOINT}"))
        return AttemptSpec(
            name=f"{NAME}{uuid.uuid4().hex}",
            owner=self._owner,
            kind=AttemptKind.EVALUATE,
            program=replace(program, environment={contract.SPLIT: str(split)}),
            inputs={
                "bundle": self.bundle.code_tree,
                "split": self._trees[split],
                "driver": self._driver,
                **inputs,
            },
            document={
                "format": contract.FORMAT,
                "trial": NAME,
                "kind": "evaluate",
                "parameters": {},
                "seed": 0,
                "split": str(split),
                "options": {"stage": stage, "options": dict(self.bundle.options)},
            },
            limits=Limits(
                timeout_s=spec.evaluator.wall_time_s,
                cpus=spec.evaluator.cpus or resources.cpus,
                memory_bytes=resources.memory_bytes,
                log_bytes=resources.log_bytes,
                output_bytes=resources.output_bytes,
                scratch_bytes=resources.scratch_bytes,
            ),
        )

    def _ended(self, handle: str) -> Exit:
        cursor = ""
        while True:
            seen = self._target.observe(handle, cursor=cursor)
            if seen.exit is not None:
                return seen.exit
            cursor = seen.cursor
            self._target.wait([handle], WAIT_S)

    def _end(self, handle: str) -> None:
        """Nothing of it runs, and nothing of it stays."""
        with suppress(ArlError):
            self._target.kill(handle)
            self._ended(handle)
            self._target.release(handle)

    def _last_words(self, handle: str) -> str:
        log = self._target.read_log(handle, offset=0, limit=LOG_BYTES * 16)
        lines = log.data.decode(errors="replace").strip().splitlines()
        return " ".join(lines[-1].split())[:400] if lines else "it said nothing"
