"""Rewards of completions: a verifier's, a reward model's, and one for an answer's form."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from os import cpu_count
from typing import Any, Final, TypeAlias

from inner_trials.environments.turns import Played
from inner_trials.prompts import Prompt
from inner_trials.verifiers.protocol import Verdict, Verifier

PARALLEL: Final = "code/"
"""Verifiers of this kind wait for other processes: several at once."""


OWN_ENDS: Final = ("", "cut off", "no room", "no answer")
"""Notes of episodes that the model's own words ended."""

RewardFunction: TypeAlias = Callable[..., list[float]]
"""As TRL calls it, with keywords only; `row` is the data set's column with each prompt's number,
`log_metric` takes a name and a value."""


class Judge:
    """Verdicts of completions, where one that was cut off may be worth nothing."""

    def __init__(self, verifier: Verifier, *, ends: Sequence[int], require_end: bool) -> None:
        """`ends` are the tokens that end a completion."""
        self.version = verifier.version
        self._verifier = verifier
        self.ends = list(ends)
        self._require_end = require_end

    def has_ended(self, ids: Sequence[int]) -> bool:
        return bool(ids) and ids[-1] in self.ends

    def verdicts(
        self,
        texts: Sequence[str],
        ids: Sequence[Sequence[int]],
        fields: Sequence[Mapping[str, Any]],
    ) -> list[Verdict]:
        if self.version.startswith(PARALLEL):
            with ThreadPoolExecutor(cpu_count()) as threads:
                judged = list(threads.map(self._verifier.verify, texts, fields))
        else:
            judged = [self._verifier.verify(t, f) for t, f in zip(texts, fields, strict=True)]
        if not self._require_end:
            return judged
        cut = Verdict(reward=0.0, well_formed=False, reason="cut off")
        return [
            verdict if self.has_ended(tokens) else cut
            for verdict, tokens in zip(judged, ids, strict=True)
        ]


def verifier_rewards(
    judge: Judge, prompts: Sequence[Prompt], *, with_format: bool
) -> list[RewardFunction]:
    """The verifier's verdict and, as a second component, whether there was one to give."""
    formed: list[float] = []

    def verifier(
        *,
        completions: Sequence[Any],
        completion_ids: Sequence[Sequence[int]],
        row: Sequence[int],
        log_metric: Callable[[str, float], None],
        **_: Any,
    ) -> list[float]:
        texts = list(map(text_of, completions))
        verdicts = judge.verdicts(texts, completion_ids, [prompts[i].fields for i in row])
        formed[:] = [float(verdict.well_formed) for verdict in verdicts]
        log_metric("well_formed", sum(formed) / len(formed))
        return [verdict.reward for verdict in verdicts]

    def well_formed(**_: Any) -> list[float]:
        return list(formed)  # TRL calls the functions in order

    return [verifier, well_formed] if with_format else [verifier]


def learned_reward(model: Any, judge: Judge) -> RewardFunction:
    """A reward model's score (inner_trials.rewards.RewardModel)."""

    def learned(
        *,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        completion_ids: Sequence[Sequence[int]],
        log_metric: Callable[[str, float], None],
        **_: Any,
    ) -> list[float]:
        ended = [judge.has_ended(ids) for ids in completion_ids]
        log_metric("well_formed", sum(ended) / len(ended))
        scores: list[float] = model.score(prompts, list(map(text_of, completions)))
        return scores

    return learned


def environment_reward(
    *, episode: Sequence[Played], log_metric: Callable[[str, float], None], **_: Any
) -> list[float]:
    """What the environment gave at the end of each episode."""
    log_metric("turns", sum(state.turns for state in episode) / len(episode))
    broken = [state.note not in OWN_ENDS for state in episode]
    log_metric("broken_episodes", sum(broken) / len(broken))
    log_metric("partial_episodes", sum(bool(state.note) for state in episode) / len(episode))
    if calls := sum(state.calls for state in episode):
        log_metric("tool_calls", calls / len(episode))
        log_metric("failed_calls", sum(state.failed_calls for state in episode) / calls)
    return [state.reward for state in episode]


def until_end(tokens: Sequence[int], ends: Sequence[int]) -> list[int]:
    """What was sampled, up to and with the first token that ends it."""
    at = next((at for at, token in enumerate(tokens) if token in ends), len(tokens))
    return list(tokens[: at + 1])


def text_of(completion: Any) -> str:
    """A completion as TRL hands it over: a text, or one message."""
    if isinstance(completion, str):
        return completion
    return "".join(str(message.get("content") or "") for message in completion)
