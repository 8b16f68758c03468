"""How a program's actors are beside it: options and their rules."""

from dataclasses import dataclass
from pathlib import Path

from inner_trials.settings import SettingsError, at_least


@dataclass(frozen=True, kw_only=True)  # no slots: it is a second base beside OnlineSettings
class ServerSettings:
    """What grpo may set of it."""

    staleness_bound: int = at_least(0, default=0)
    """With vllm_adapters: vLLM samples while the trainer trains, and so many updates at most lie
    between the weights that sampled and those that learn from it; 0: they take turns."""
    vllm_python: str = ""
    """With vllm_adapters, in the place of vllm_server: a Python that has vLLM, by which the trial
    starts a server of its own."""


def check_server(
    settings: ServerSettings,
    *,
    generation: str,
    vllm_server: str,
    correction: str,
    cycle: int,
    in_turn: bool,
) -> None:
    """Raises SettingsError for what only together makes no sense.

    Args:
        cycle: updates between two generations.
        in_turn: whether the prompts come in an order that is known before.
    """
    bound, python = settings.staleness_bound, settings.vllm_python
    if python and generation != "vllm_adapters":
        raise SettingsError("options.vllm_python: is only read with generation: vllm_adapters")
    if python and vllm_server:
        raise SettingsError(
            f"options.vllm_python: {python} would start a server beside vllm_server"
            f" {vllm_server}; leave one of them out"
        )
    if python and not Path(python).is_file():
        raise SettingsError(f"options.vllm_python: {python}: there is no such file")
    if bound:
        _check_ahead(bound, generation, correction, cycle, in_turn=in_turn)


def _check_ahead(
    bound: int, generation: str, correction: str, cycle: int, *, in_turn: bool
) -> None:
    if generation != "vllm_adapters":
        raise SettingsError(
            f"options.staleness_bound: {bound} needs actors that sample beside the trainer, and"
            f" generation is {generation}; write generation: vllm_adapters, or 0"
        )
    if correction == "none":
        raise SettingsError(
            f"options.correction: none, but completions of up to {bound} updates ago are another"
            " policy's; write tis, mis or importance_sampling"
        )
    if bound < cycle:
        raise SettingsError(
            f"options.staleness_bound: {bound} is less than the {cycle} updates that are made from"
            f" one generation, so nothing could be sampled early; write {cycle} or more, or 0"
        )
    if not in_turn:
        raise SettingsError(
            f"options.prompt_sampling: informative chooses by the last rewards, and with"
            f" staleness_bound {bound} prompts are sampled before these are known; write all"
        )
