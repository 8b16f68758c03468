"""Which links a promoted artifact's lineage must have, and which of them are missing."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from evaluator.statistics import mean, mean_interval
from inner_trials.planning.settled import PLANES
from ledger.records import Json

SAMPLERS: Final = frozenset({"grpo", "ppo", "rejection_sampling"})
"""Programs that learn from what they sampled and something judged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageNeeds:
    """What of a study decides which links apply."""

    kind: str
    """The program's."""
    reported: bool
    """Whether the objective is self-reported: then nothing was held out."""
    has_image: bool
    """Whether trials run in an image."""

    @property
    def trains(self) -> bool:
        """Whether it is one of the programs that ARL brings."""
        return self.kind != "command"

    @property
    def samples(self) -> bool:
        return self.kind in SAMPLERS


_Applies = Callable[[LineageNeeds], bool]


def _always(_: LineageNeeds) -> bool:
    return True


def _trains(needs: LineageNeeds) -> bool:
    return needs.trains


def _samples(needs: LineageNeeds) -> bool:
    return needs.samples


LINKS: Final[Mapping[str, tuple[str, _Applies]]] = {
    "program": ("the program and its source", _always),
    "parameters": ("the parameters", _always),
    "data": ("the data revisions", _always),
    "objective": ("the objective", _always),
    "base": ("the base revision", _trains),
    "tokenizer": ("the tokenizer digest", _trains),
    "chat_template": ("the chat template digest", _trains),
    "adapter": ("the adapter configuration", _trains),
    "trainer": ("the trainer topology", _trains),
    "precision": ("the precision planes", _trains),
    "optimizer": ("the optimizer configuration", _trains),
    "reward": ("the reward or verifier revision", _samples),
    "sampling": ("the sampling settings", _samples),
    "policy_versions": ("the actor policy versions", _samples),
    "sync": ("the sync mode", _samples),
    "checkpoints": ("the checkpoint chain", _always),
    "conversion": ("the conversion method", _always),
    "runtime": ("the runtime versions", _always),
    "libraries": ("the versions of the training libraries", _trains),
    "image": ("the image digest", lambda needs: needs.has_image),
    "evaluator": ("the evaluator bundle's digest", lambda needs: not needs.reported),
    "seeds": ("the seeds", _always),
    "hardware": ("the hardware", _always),
    "cost": ("the cost", _always),
    "search": ("the search score", _always),
    "holdout": ("the holdout scores with their interval", lambda needs: not needs.reported),
}
"""Every link: what it is called, and whether it applies to a study."""


PARTS: Final[Mapping[str, tuple[str, ...]]] = {
    "reward": ("judge",),
    "sampling": ("sampler", "temperature", "top_p", "top_k", "min_p", "repetition_penalty"),
    "policy_versions": ("first",),
    "sync": ("rollout", "sync", "sync_payload", "staleness_bound"),
    "trainer": ("trainer", "placement", "trainer_gpus", "data_parallel"),
    "precision": PLANES,
    "optimizer": ("learning_rate", "max_steps"),
    "libraries": ("python", "torch", "transformers"),
}
"""What a link of a built-in program has to say, besides being there."""


def missing_links(needs: LineageNeeds, links: Mapping[str, Json]) -> tuple[str, ...]:
    """The links that apply and are not there or say too little, in words. A link that is there is
    not None; what there is none of (no data, no template) says so with an empty mapping or the
    word none."""
    found: list[str] = []
    for name, (words, applies) in LINKS.items():
        if not applies(needs):
            continue
        link = links.get(name)
        if link in (None, ""):
            found.append(words)
        elif needs.trains and (parts := _missing_parts(name, link, links)):
            found.append(f"{words} ({', '.join(parts)})")
    return tuple(found)


def _missing_parts(name: str, link: Json, links: Mapping[str, Json]) -> list[str]:
    if not isinstance(link, Mapping):
        return []
    parts = [part for part in PARTS.get(name, ()) if link.get(part) is None]
    if name == "sampling" and str(link.get("sampler")).startswith("vllm"):
        libraries = links.get("libraries")
        beside = isinstance(libraries, Mapping) and libraries.get("vllm")
        parts += [] if link.get("vllm") or beside else ["the version of vllm"]
    return parts


def scores_with_interval(values: Sequence[float]) -> dict[str, Json] | None:
    """The mean of repeated runs with Student's 95 % interval; None without any run."""
    if not values:
        return None
    interval = mean_interval(values) if len(values) > 1 else None
    return {
        "values": list(values),
        "runs": len(values),
        "mean": mean(values),
        "low": None if interval is None else interval.low,
        "high": None if interval is None else interval.high,
    }
