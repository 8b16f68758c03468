"""What a GRPO study may set or search, and TRL's configuration of it: pure functions."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from inner_trials.batch_settings import BatchSettings, check_batches
from inner_trials.server_settings import ServerSettings, check_server
from inner_trials.settings import SettingsError, above, at_least
from inner_trials.sharding import ShardedSettings

SERVERS: Final = ("vllm_server", "vllm_adapters")
LossType: TypeAlias = Literal["grpo", "dr_grpo", "dapo", "bnpo", "cispo", "sapo", "luspo", "vespo"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(ShardedSettings, ServerSettings, BatchSettings):
    """All that a study may set or search."""

    learning_rate: float = above(0.0, default=1e-6)
    per_device_train_batch_size: int = at_least(2, default=8)
    """Completions, not prompts."""
    # groups and updates
    num_generations: int = at_least(2, default=8)
    """Completions of one prompt, whose rewards are compared with each other."""
    steps_per_generation: int = at_least(0, default=0)
    """Batches sampled at once; 0: as many as gradient_accumulation_steps."""
    num_iterations: int = at_least(1, default=1)
    """Updates from the same completions (mu)."""
    # the loss
    loss_type: LossType = "dapo"
    """`grpo`: a mean over each completion (Shao et al. 2024); `bnpo`, `dapo`: over all tokens of
    a batch, of a generation; `dr_grpo`: divided by a constant (Liu et al. 2025); `cispo`: clipped
    weights instead of clipped updates."""
    importance_sampling_level: Literal["auto", "token", "sequence"] = "auto"
    """`sequence` with loss_type grpo is GSPO (Zheng et al. 2025); `auto`: token, or sequence for
    luspo."""
    scale_rewards: Literal["group", "batch", "none"] = "group"
    """By which standard deviation an advantage is divided; `none` as in Dr. GRPO."""
    beta: float = at_least(0.0, default=0.0)
    """Weight of the KL divergence from the base; 0 needs no reference model."""
    epsilon: float = above(0.0, default=0.2)
    epsilon_high: float | None = above(0.0, default=None)
    """The upper clip, where another one is wanted (DAPO: 0.28); cispo's largest weight (5)."""
    delta: float | None = above(0.0, default=None)
    """Two-sided clipping: the largest ratio when the advantage is negative."""
    mask_truncated_completions: bool = False
    """Completions cut off at max_completion_length add nothing to the loss (DAPO)."""
    top_entropy_quantile: float = field(default=1.0, metadata={"above": 0.0, "at_most": 1.0})
    """Only this share of the tokens, those of the highest entropy, is learned from."""
    entropy_coef: float = at_least(0.0, default=0.0)
    # who samples
    generation: Literal["transformers", "vllm_colocated", "vllm_server", "vllm_adapters"] = (
        "transformers"
    )
    """`vllm_server`: TRL's server, which is sent whole weights from GPU to GPU; `vllm_adapters`:
    any vLLM, on other hardware too, which reads each update's LoRA adapter (actors.py)."""
    vllm_memory_share: float = field(default=0.3, metadata={"above": 0.0, "at_most": 1.0})
    vllm_sleep: bool = False
    """Give the GPU's memory back to the trainer between generations."""
    vllm_tensor_parallel: int = at_least(1, default=1)
    """GPUs of one vLLM; of the trial's, the last are a server's that it starts itself."""
    vllm_server: str = ""
    """Like http://127.0.0.1:8000, for vllm_server and vllm_adapters."""
    vllm_share: str = ""
    """For vllm_adapters: a directory that the server sees too; empty: the trial's own."""
    vllm_patience_s: float = above(0.0, default=10.0)
    """For vllm_adapters: a server that is not well for so long is given up."""
    correction: Literal["none", "importance_sampling", "tis", "mis"] = "tis"
    """With vLLM: weight what it sampled by how likely the trainer finds it; `tis` cuts weights
    off at correction_max (truncated importance sampling, Yao et al. 2025), `mis` leaves out what
    is beyond it."""
    correction_level: Literal["token", "sequence"] = "token"
    correction_max: float = above(0.0, default=2.0)

    @property
    def sampler(self) -> str:
        return self.generation

    @property
    def sampled_at_once(self) -> int:
        """Completions of one generation."""
        return self.per_device_train_batch_size * self._batches

    @property
    def cycle(self) -> int:
        """Updates between two generations; only after the last of them all is in a checkpoint."""
        return max(1, self._batches * self.num_iterations // self.gradient_accumulation_steps)

    @property
    def _batches(self) -> int:
        return self.steps_per_generation or self.gradient_accumulation_steps


def check_settings(settings: Settings) -> None:
    """Raises SettingsError for what only together makes no sense."""
    _check_batches(settings)
    if settings.loss_type == "cispo" and (settings.epsilon_high or 0.0) < 1.0:
        raise SettingsError(
            f"options.epsilon_high: {settings.epsilon_high} with loss_type cispo is the largest"
            " importance weight itself and must be 1 or more; its authors write 5"
        )
    if settings.delta is not None and settings.delta <= 1.0 + settings.epsilon:
        raise SettingsError(f"options.delta: {settings.delta} must be more than 1 + epsilon")
    _check_sampler(settings)
    check_server(
        settings,
        generation=settings.generation,
        vllm_server=settings.vllm_server,
        correction=settings.correction,
        cycle=settings.cycle,
        in_turn=settings.prompt_sampling == "all",
    )
    check_batches(settings, settings.generation)
    _check_buckets(settings)
    if settings.environment and settings.generation != "transformers":
        raise SettingsError("options.environment: its turns need generation: transformers")
    if settings.loss_type == "vespo" and settings.correction_level == "sequence":
        raise SettingsError("options.correction_level: loss_type vespo corrects each token")


def _check_sampler(settings: Settings) -> None:
    kind = settings.generation
    if kind in SERVERS and not (settings.vllm_server or settings.vllm_python):
        raise SettingsError(f"options.vllm_server: generation {kind} needs its address")
    if settings.vllm_server and not settings.vllm_server.startswith(("http://", "https://")):
        raise SettingsError(
            f"options.vllm_server: {settings.vllm_server!r} must start with http:// or https://"
        )
    if kind not in SERVERS and settings.vllm_server:
        names = " or ".join(SERVERS)
        raise SettingsError(f"options.vllm_server: is only read with generation: {names}")
    if settings.vllm_sleep and kind != "vllm_colocated":
        raise SettingsError("options.vllm_sleep: only a colocated vLLM shares the trainer's GPU")
    if kind == "vllm_adapters" and settings.parameterization != "lora":
        raise SettingsError(
            f"options.generation: vllm_adapters sends LoRA adapters, and parameterization is"
            f" {settings.parameterization}; write lora, or another generation"
        )


def _check_buckets(settings: Settings) -> None:
    """Sorted by length, the micro-batches of an update must add up to what they would else be."""
    if settings.length_buckets == 1 or settings.gradient_accumulation_steps == 1:
        return
    for name, is_local in (
        ("loss_type", settings.loss_type == "bnpo"),
        ("top_entropy_quantile", settings.top_entropy_quantile < 1.0),
        ("entropy_coef", settings.entropy_coef > 0.0),
    ):
        if is_local:
            raise SettingsError(
                f"options.length_buckets: {settings.length_buckets} sorts completions into"
                f" micro-batches by length, and with {name} {getattr(settings, name)} it matters"
                " which are together; write 1, or gradient_accumulation_steps: 1"
            )


def _check_batches(settings: Settings) -> None:
    sampled, size = settings.sampled_at_once, settings.num_generations
    if sampled % size:
        raise SettingsError(
            f"options.num_generations: {sampled} completions are sampled at once"
            f" (per_device_train_batch_size times steps_per_generation), which is no multiple of"
            f" {size}; a group is never split"
        )
    batches = sampled // settings.per_device_train_batch_size * settings.num_iterations
    if max(batches, settings.gradient_accumulation_steps) % min(
        batches, settings.gradient_accumulation_steps
    ):
        raise SettingsError(
            f"options.gradient_accumulation_steps: {settings.gradient_accumulation_steps} must"
            f" divide steps_per_generation times num_iterations ({batches}), or the reverse"
        )
    if settings.save_every % settings.cycle:
        raise SettingsError(
            f"options.save_every: {settings.save_every} must be a multiple of {settings.cycle},"
            " the updates between two generations: in between, a checkpoint could not be exact"
        )


def check_split(settings: Settings, *, has_start: bool) -> None:
    """What several processes cannot do. Raises SettingsError.

    Args:
        has_start: training goes on from the input `adapter`.
    """
    if settings.trainer == "single":
        return
    for name, usual in (
        ("generation", "transformers"),
        ("environment", ""),
        ("prompt_sampling", "all"),
        ("length_buckets", 1),
        ("straggler_tokens", 0),
        ("share_prefix", False),
    ):
        value = getattr(settings, name)
        if value != usual:
            raise SettingsError(
                f"options.{name}: {value} with trainer: {settings.trainer}: several processes"
                f" sample in step, each its own share; write {usual or 'none'}, or trainer: single"
            )
    if has_start and settings.beta and settings.parameterization == "full":
        raise SettingsError(
            f"options.beta: {settings.beta} with trainer: {settings.trainer} and the input"
            " adapter: the reference would be the base without it; mount the merged model as base"
        )


def trl_options(settings: Settings, common: Mapping[str, Any]) -> dict[str, Any]:
    """GRPOConfig's arguments: the common ones, and everything else that matters, written out."""
    level = settings.importance_sampling_level
    if level == "auto":
        level = "sequence" if settings.loss_type == "luspo" else "token"
    dropped = ("max_length", "activation_checkpointing")
    kept = {name: value for name, value in common.items() if name not in dropped}
    return {
        **kept,
        # By its old name: vLLM wants an older transformers, which knows no other.
        "gradient_checkpointing": settings.gradient_checkpointing,
        "num_generations": settings.num_generations,
        "steps_per_generation": settings.steps_per_generation or None,
        "num_iterations": settings.num_iterations,
        "loss_type": settings.loss_type,
        "importance_sampling_level": level,
        "scale_rewards": settings.scale_rewards,
        "beta": settings.beta,
        "epsilon": settings.epsilon,
        "epsilon_high": settings.epsilon_high,
        "delta": settings.delta,
        "mask_truncated_completions": settings.mask_truncated_completions,
        "top_entropy_quantile": settings.top_entropy_quantile,
        "entropy_coef": settings.entropy_coef,
        "max_completion_length": settings.max_completion_length,
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "top_k": settings.top_k,
        "min_p": settings.min_p or None,
        "repetition_penalty": settings.repetition_penalty,
        # Rewards look at their row: TRL would take the columns away.
        "remove_unused_columns": False,
        **vllm_options(settings),
    }


def vllm_options(settings: Settings) -> dict[str, Any]:
    """The part of the configuration that says who samples."""
    if settings.generation == "transformers":
        return {"use_vllm": False}
    if settings.generation == "vllm_adapters":
        # The trainer is given its actors once it is made: TRL's own would want to send weights.
        return {"use_vllm": False, **correction_options(settings)}
    is_server = settings.generation == "vllm_server"
    placed: dict[str, Any] = (
        {"vllm_mode": "server", "vllm_server_base_url": settings.vllm_server}
        if is_server
        else {
            "vllm_mode": "colocate",
            "vllm_gpu_memory_utilization": settings.vllm_memory_share,
            "vllm_enable_sleep_mode": settings.vllm_sleep,
            "vllm_tensor_parallel_size": settings.vllm_tensor_parallel,
            "vllm_max_model_length": settings.max_length,
        }
    )
    return {"use_vllm": True, **placed, **correction_options(settings)}


def correction_options(settings: Settings) -> dict[str, Any]:
    """How the sampler's and the trainer's probabilities are reconciled."""
    if settings.correction == "none":
        return {"vllm_importance_sampling_correction": False}
    cut = "truncate" if settings.correction == "tis" else "mask"
    is_bounded = settings.correction != "importance_sampling"
    return {
        "vllm_importance_sampling_correction": True,
        # A mask without bounds leaves every weight as it is.
        "vllm_importance_sampling_mode": f"{settings.correction_level}_{cut}",
        "vllm_importance_sampling_clip_max": settings.correction_max if is_bounded else None,
    }
