"""In which dtype vLLM can load a quantised model: what is known not to run is never started."""

from collections.abc import Sequence
from typing import Final

from controller.serving.forms import WholeModel
from ledger.errors import InvalidInput

OPTION: Final = "dtype"
TORCHAO: Final = "torchao"
PACKED: Final = ("compressed-tensors", "awq", "gptq")
"""Formats of 4-bit weights, whose kernels compute in 16 bits."""
_FLOAT32: Final = ("float32", "float")


def settled_dtype(whole: WholeModel, extra: Sequence[str]) -> str | None:
    """What to write for --dtype; None: nothing, vLLM or the caller chooses.

    torchao stores its tensors with the dtype that they stand for, and vLLM cannot load them as
    another one, not even as the 16 bits that it takes float32 for by itself.

    Raises InvalidInput for what does not run.
    """
    given = _given(extra)
    if whole.quantisation == TORCHAO and whole.dtype is not None:
        if given not in (None, "auto", whole.dtype):
            raise InvalidInput(
                f"--dtype {given}: these weights are torchao's and stand for {whole.dtype}, and "
                f"vLLM loads them as nothing else; leave it out, or write {whole.dtype}"
            )
        return whole.dtype if given is None else None
    if whole.quantisation in PACKED and given in _FLOAT32:
        raise InvalidInput(
            f"--dtype {given}: vLLM computes with packed 4-bit weights in 16 bits, and its server "
            "ends at the first request; leave it out, or write bfloat16"
        )
    return None


def _given(extra: Sequence[str]) -> str | None:
    """The last one counts."""
    found = None
    for index, word in enumerate(extra):
        name, equals, value = word.partition("=")
        if name == f"--{OPTION}":
            found = value if equals else next(iter(extra[index + 1 :]), None)
    return found
