"""The gate of a served model: the frozen evaluator's items through its endpoint, and a verdict."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from controller.decisions.serving import Comparison, compare, passes, reason_of
from controller.serving.asking import Asked, Asking, Interview, measured, merged
from controller.serving.endpoint import Endpoint
from controller.serving.frozen_scorer import FrozenScorer, Questions
from evaluator.scores import Scores
from ledger.artifacts import ArtifactStore
from ledger.errors import InvalidInput
from ledger.records import Direction, Evaluation, Split

HOLDOUT: Final = (Split.HOLDOUT_A, Split.HOLDOUT_B)
SEARCH: Final = (Split.SEARCH,)
SplitName: TypeAlias = Literal["search", "holdout"]
MODE: Final = 0o644


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    passed: bool
    reason: str
    """Why it did not pass; empty where it did."""
    value: float
    scores: Mapping[str, float]
    items: int
    comparisons: tuple[Comparison, ...]
    measured: Mapping[str, Mapping[str, float]]
    answers_digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scored:
    asked: Asked
    scores: tuple[Scores, ...]
    """One for each split."""
    files: tuple[tuple[str, int, str], ...]
    """Name, size and digest of each split's answers."""

    @property
    def items(self) -> list[float]:
        return [item for scores in self.scores for item in scores.items]


def choose_splits(
    recorded: Mapping[Split, Evaluation], wanted: SplitName | None, name: str
) -> tuple[Split, ...]:
    """The holdout where the artifact's scores on it are recorded: who was never measured there
    must not be chosen by it. Raises InvalidInput."""
    has_holdout = all(split in recorded for split in HOLDOUT)
    if wanted == "holdout" and not has_holdout:
        raise InvalidInput(
            f"--split holdout: {name} has no recorded holdout scores (it went through no replay "
            "gate), and asking it these items would use them up; write --split search"
        )
    return HOLDOUT if has_holdout and wanted != "search" else SEARCH


def recorded_items(recorded: Mapping[Split, Evaluation], splits: Sequence[Split]) -> list[float]:
    """What the frozen evaluator gave each item of the splits; none unless it did for all."""
    if not all(split in recorded and recorded[split].items for split in splits):
        return []
    return [item for split in splits for item in recorded[split].items]


class ServingGate:
    """Asks, scores and compares; changes nothing on the server."""

    def __init__(
        self,
        connect: Callable[[], Endpoint],
        scorer: FrozenScorer,
        store: ArtifactStore,
        asking: Asking,
        say: Callable[[str], None],
    ) -> None:
        self._connect, self._scorer, self._store = connect, scorer, store
        self._asking, self._say = asking, say
        self._questions: dict[Split, Questions] = {}

    def prepare(self, splits: Sequence[Split]) -> None:
        """Have the frozen evaluator say what to ask. Raises InvalidInput, Conflict."""
        for split in splits:
            if split not in self._scorer.bundle.splits:
                raise InvalidInput(f"the study's evaluator has no split {split}")
            self._questions[split] = self._scorer.questions(split)

    def run(
        self,
        candidate: str,
        incumbent: str | None,
        recorded: Mapping[Split, Evaluation],
        *,
        direction: Direction,
        margin: float,
    ) -> Verdict:
        """The verdict on the model that the server has under the name `candidate`.

        Raises EndpointUnavailable, EndpointRefuses, Conflict, InvalidInput.
        """
        new = self._scored(candidate)
        old = None if incumbent is None else self._scored(incumbent)
        comparisons = []
        if old is not None:
            comparisons.append(
                compare("incumbent", new.items, old.items, direction=direction, margin=margin)
            )
        before = recorded_items(recorded, tuple(self._questions))
        if len(before) == len(new.items):
            comparisons.append(
                compare("recorded", new.items, before, direction=direction, margin=margin)
            )
        files = [(f"candidate/{name}", size, digest) for name, size, digest in new.files]
        if old is not None:
            files += [(f"incumbent/{name}", size, digest) for name, size, digest in old.files]
        sides = {"candidate": new, **({} if old is None else {"incumbent": old})}
        return Verdict(
            passed=passes(comparisons),
            reason=reason_of(comparisons, margin) if comparisons else "nothing to compare with",
            value=_mean(new, lambda scores: scores.value),
            scores={name: _mean(new, _metric(name)) for name in new.scores[0].metrics},
            items=len(new.items),
            comparisons=tuple(comparisons),
            measured={side: measured(scored.asked) for side, scored in sides.items()},
            answers_digest=self._store.put_manifest(
                [(path, MODE, size, digest) for path, size, digest in files]
            ),
        )

    def _scored(self, model: str) -> _Scored:
        asked, scores, files = [], [], []
        for split, questions in self._questions.items():
            self._say(f"asking {model} the {len(questions.prompts)} items of {split}")
            found = Interview(self._connect, model, self._asking, self._say).ask(questions)
            scored, digest = self._scorer.score(split, found.answers)
            asked.append(found)
            scores.append(scored)
            files.append((f"{split}.json", len(self._store.read_bytes(digest)), digest))
        return _Scored(asked=merged(asked), scores=tuple(scores), files=tuple(files))


def _metric(name: str) -> Callable[[Scores], float]:
    return lambda scores: scores.metrics[name]


def _mean(scored: _Scored, of: Callable[[Scores], float]) -> float:
    """Over all items, whichever split they are in."""
    total = sum(len(scores.items) for scores in scored.scores)
    return sum(of(scores) * len(scores.items) for scores in scored.scores) / total
