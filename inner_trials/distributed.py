"""What a rank does that a single process does not: join, agree, take turns, gather the weights.

FSDP version 2 and ZeRO-3 are accelerate's. `require` checks that what runs is what the plan says:
on a CPU accelerate turns FSDP into plain data parallelism without a word.
"""

import ctypes
import os
import signal
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, TypeVar

from inner_trials import contract, ranks
from inner_trials.failures import TrainingFailure

T = TypeVar("T")

PATIENCE: Final = timedelta(minutes=10)
"""How long a rank waits for the others in one exchange before it gives up."""
_PARENT_DEATH_SIGNAL: Final = 1
"""PR_SET_PDEATHSIG of prctl(2)."""


class NotSharded(TrainingFailure):
    """Another kind of parallelism runs than the plan says."""

    status = contract.EXIT_BAD_INPUT


def join() -> None:
    """Become one of the ranks. Only rank 0 reports."""
    import torch
    import torch.distributed as dist

    _die_with_parent()
    number, count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if number > 0:
        os.environ.pop(contract.REPORTS, None)
    on_gpu = torch.cuda.is_available()
    if on_gpu:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    else:
        os.environ.setdefault("DS_ACCELERATOR", "cpu")
        # DeepSpeed calls torch by names that it will lose, once a layer and step.
        warnings.filterwarnings("ignore", "`torch.distributed", FutureWarning)
        _shard_on_cpu()
    found = os.environ.get(ranks.RENDEZVOUS)
    dist.init_process_group(
        # gloo beside NCCL: what is agreed on, and weights on their way to a file, are on the CPU.
        "cuda:nccl,cpu:gloo" if on_gpu else "gloo",
        init_method=f"file://{found}" if found else None,
        rank=number if found else -1,
        world_size=count if found else -1,
        timeout=PATIENCE,
    )


def _die_with_parent() -> None:
    """A rank is of no use without the process that waits for it."""
    if ranks.RENDEZVOUS in os.environ:
        ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL)


def _shard_on_cpu() -> None:
    """Let accelerate run FSDP version 2 and ZeRO-3 without a GPU.

    It knows them only beside a GPU's backends, though neither torch's `fully_shard` nor DeepSpeed
    needs one. So its state is corrected once made: where it found CPU processes and was given a
    plugin, the type is the plugin's and the plugin is used, as it does itself for GPUs.
    """
    from accelerate.state import AcceleratorState, PartialState
    from accelerate.utils import DistributedType

    original = AcceleratorState.__init__

    def corrected(self: Any, *args: Any, **options: Any) -> None:
        original(self, *args, **options)
        fsdp, zero = options.get("fsdp_plugin"), options.get("deepspeed_plugin")
        if self.distributed_type != DistributedType.MULTI_CPU:
            return
        if fsdp is not None:
            if self.mixed_precision != "no":
                fsdp.set_mixed_precision(self.mixed_precision)
            self.fsdp_plugin, self.distributed_type = fsdp, DistributedType.FSDP
        elif zero is not None:
            zero.set_mixed_precision(self.mixed_precision)
            zero.select(_from_accelerator_state=True)
            self._mixed_precision = "no"  # DeepSpeed's own configuration says it
            self.deepspeed_plugins, self.distributed_type = zero, DistributedType.DEEPSPEED
        PartialState._shared_state["distributed_type"] = self.distributed_type

    AcceleratorState.__init__ = corrected


def require(trainer: Any, resume: Path | None) -> None:
    """Raises NotSharded where the trainer's arguments ask for what its accelerator does not do, or
    for what cannot go on from the checkpoint."""
    arguments, found = trainer.args, trainer.accelerator.distributed_type.name
    for name, asked, runs in (
        ("fsdp2", arguments.fsdp, found == "FSDP" and trainer.accelerator.is_fsdp2),
        ("zero3", arguments.deepspeed, found == "DEEPSPEED"),
    ):
        if asked and not runs:
            raise NotSharded(
                f"options.trainer: {name}, but accelerate runs {found} here; write trainer:"
                " single, or run it where it can"
            )
    if resume is not None:
        _check_checkpoint(arguments, resume)


def _check_checkpoint(arguments: Any, checkpoint: Path) -> None:
    """Another kind of trainer may have written it, or ZeRO-3 in another number of processes:
    DeepSpeed restores each rank's own part."""
    parts = len(list(checkpoint.glob("global_step*/zero_pp_rank_*_optim_states.pt")))
    wrote = "zero3" if parts else "single"
    if (checkpoint / "pytorch_model_fsdp_0").is_dir():
        wrote = "fsdp2"
    runs = "fsdp2" if arguments.fsdp else "zero3" if arguments.deepspeed else "single"
    if wrote != runs:
        raise NotSharded(
            f"resume: trainer {wrote} wrote this checkpoint, and {runs} cannot read it; write"
            f" options.trainer: {wrote}"
        )
    if parts and parts != arguments.world_size:
        raise NotSharded(
            f"resume: {parts} processes of zero3 wrote this checkpoint, and only as many can read"
            f" it; write options.data_parallel: {parts}, or trainer: fsdp2, which any number can"
        )


def is_joined() -> bool:
    """Whether this process is one of several that found each other."""
    import torch.distributed as dist

    return bool(dist.is_available() and dist.is_initialized())


def is_first() -> bool:
    """Whether this process is the one that writes files. True for a single one."""
    import torch.distributed as dist

    return not is_joined() or dist.get_rank() == 0


def place() -> tuple[int, int]:
    """Which of how many processes this is, from 0."""
    import torch.distributed as dist

    return (dist.get_rank(), dist.get_world_size()) if is_joined() else (0, 1)


def agreed(*, said: bool) -> bool:
    """Whether any rank says so: all go the same way at the same step."""
    import torch
    import torch.distributed as dist

    if not is_joined():
        return said
    answer = torch.tensor(int(said))  # on the CPU, whatever trains
    dist.all_reduce(answer, op=dist.ReduceOp.MAX)
    return bool(answer)


def gathered(mine: Sequence[T]) -> list[T]:
    """What all ranks have, by rank, on the first; nothing on the others. All have to call it."""
    import torch.distributed as dist

    if not is_joined():
        return list(mine)
    found: list[Any] | None = [None] * dist.get_world_size() if is_first() else None
    dist.gather_object(list(mine), found)
    return [each for some in found or [] for each in some]


def generate_together(trainer: Any) -> None:
    """Have ranks that share a model's weights sample in step, until the last of them has ended:
    each layer is gathered by all at once. transformers sees by itself only what it sharded."""
    if not (is_joined() and trainer.accelerator.distributed_type.name == "FSDP"):
        return
    for module in trainer.model.modules():
        if hasattr(module, "generate"):
            module._is_fsdp_managed_module = True


@contextmanager
def first_alone() -> Iterator[bool]:
    """Whether this is the first rank; the others wait until it has left the block."""
    import torch
    import torch.distributed as dist

    if is_joined():
        dist.all_reduce(torch.zeros(()))
    yield is_first()
    if is_joined():
        dist.all_reduce(torch.zeros(()))


def whole_model(trainer: Any, load: Callable[[], Any]) -> Any:
    """The trained model as a single process has it; None on all ranks but the first, though all
    have to call it. `load` makes the base once more, for the weights to be put into."""
    from transformers.integrations.deepspeed import unset_hf_deepspeed_config

    sharded = trainer.accelerator.unwrap_model(trainer.model)
    if trainer.is_deepspeed_enabled:
        weights = _gathered(sharded)
        # Or a model that is loaded from now on would be split over all ranks at once.
        unset_hf_deepspeed_config()
    else:
        weights = trainer.accelerator.get_state_dict(trainer.model)
    with first_alone():
        pass  # a rank that left now would close connections that others still read from
    if not is_first():
        return None
    model = load()
    model.config = sharded.config  # the trainer may have changed it
    if hasattr(sharded, "peft_config"):
        from peft import get_peft_model

        model = get_peft_model(model, next(iter(sharded.peft_config.values())))
    model.load_state_dict(weights)
    return model


def _gathered(model: Any) -> dict[str, Any]:
    """What ZeRO-3 has split, in the optimizer's precision rather than the 16 bits that DeepSpeed
    itself would save."""
    import deepspeed
    from deepspeed.utils import safe_get_full_fp32_param

    weights: dict[str, Any] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            weights[name] = safe_get_full_fp32_param(parameter).detach().cpu().clone()
        else:
            with deepspeed.zero.GatheredParameters([parameter]):
                weights[name] = parameter.detach().cpu().clone()
    shared = model.state_dict().keys() - weights.keys()
    tied = dict(model.named_parameters(remove_duplicate=False))
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    for name in shared:
        # A tied weight has two names; a buffer is whole on every rank.
        kept = names.get(id(tied[name])) if name in tied else None
        weights[name] = weights[kept] if kept else model.state_dict()[name]
    return weights
