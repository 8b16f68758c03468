"""What a rank does that a single process does not: join, agree, take turns, gather the weights.

FSDP version 2 and ZeRO-3 are accelerate's. `require` checks that what runs is what the plan says:
on a CPU accelerate turns FSDP into plain data parallelism without a word.
"""

import ctypes
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final

from inner_trials import contract, ranks
from inner_trials.failures import TrainingFailure

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
    """Let accelerate run FSDP version 2 without an accelerator.

    It knows FSDP only beside a GPU's backends, though torch's `fully_shard` needs none. So its
    state is corrected once made: where it found several CPU processes and was given an FSDP
    plugin, the type is FSDP and the plugin is used, as it does itself for GPUs.
    """
    from accelerate.state import AcceleratorState, PartialState
    from accelerate.utils import DistributedType

    original = AcceleratorState.__init__

    def corrected(self: Any, *args: Any, fsdp_plugin: Any = None, **options: Any) -> None:
        original(self, *args, fsdp_plugin=fsdp_plugin, **options)
        if fsdp_plugin is None or self.distributed_type != DistributedType.MULTI_CPU:
            return
        if self.mixed_precision != "no":
            fsdp_plugin.set_mixed_precision(self.mixed_precision)
        self.fsdp_plugin = fsdp_plugin
        self.distributed_type = DistributedType.FSDP
        PartialState._shared_state["distributed_type"] = DistributedType.FSDP

    AcceleratorState.__init__ = corrected


def require(trainer: Any) -> None:
    """Raises NotSharded where the trainer's arguments ask for what its accelerator does not do."""
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


def is_joined() -> bool:
    """Whether this process is one of several that found each other."""
    import torch.distributed as dist

    return bool(dist.is_available() and dist.is_initialized())


def is_first() -> bool:
    """Whether this process is the one that writes files. True for a single one."""
    import torch.distributed as dist

    return not is_joined() or dist.get_rank() == 0


def agreed(said: bool) -> bool:
    """Whether any rank says so: all go the same way at the same step."""
    import torch
    import torch.distributed as dist

    if not is_joined():
        return said
    answer = torch.tensor(int(said))  # on the CPU, whatever trains
    dist.all_reduce(answer, op=dist.ReduceOp.MAX)
    return bool(answer)


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
    weights = trainer.accelerator.get_state_dict(trainer.model_wrapped)
    if not is_first():
        return None
    sharded = trainer.accelerator.unwrap_model(trainer.model)
    model = load()
    if hasattr(sharded, "peft_config"):
        from peft import get_peft_model

        model = get_peft_model(model, next(iter(sharded.peft_config.values())))
    model.load_state_dict(weights)
    return model
