"""The policy's state as bytes: one safetensors document, never a pickle."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from ledger.errors import InvalidInput, ProposerFailed
from proposers.ppo_features import COLUMNS, DIRECTIONS
from proposers.ppo_learner import Knowledge
from proposers.ppo_rollout import Step
from proposers.ppo_seen import STUDY

VERSION: Final = 1
WEIGHTS_VERSION: Final = 1
SHIPPED: Final = Path(__file__).with_name("ppo_weights.safetensors")
_HEADER: Final = "arl"
_LENGTH_BYTES: Final = 8
_NUMBERS: Final = ("log_prob", "value", "best", "unit", "reward")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What one call of the proposer leaves to the next."""

    space: str
    """Digest of the space."""
    knowledge: Knowledge
    pending: Sequence[Step] = ()
    rollout: Sequence[Step] = ()
    """Of trials that ended, to be learned from."""


def write(kept: Kept) -> bytes:
    """Equal states give equal bytes."""
    known = kept.knowledge
    header = {
        "version": VERSION,
        "space": kept.space,
        "gradient_steps": known.gradient_steps,
        "updates": known.updates,
        "steps_seen": known.steps_seen,
        "squared_advantages": known.squared_advantages,
        "pending": len(kept.pending),
        "digests": [step.digest for step in (*kept.pending, *kept.rollout)],
    }
    tensors = {
        "weights": known.weights,
        "first_moments": known.first_moments,
        "second_moments": known.second_moments,
        **_columns([*kept.pending, *kept.rollout]),
    }
    # One key only: the order of several is not the same in every process.
    written: bytes = save(tensors, metadata={_HEADER: json.dumps(header, sort_keys=True)})
    return written


def read(state: bytes) -> Kept:
    """Raises ProposerFailed, saying so, for bytes that are no state of this version."""
    try:
        header, tensors = header_of(state), load(state)
    except (ValueError, KeyError, SafetensorError) as error:
        raise ProposerFailed(f"its state cannot be read ({error}); start the study anew") from None
    version = header.get("version")
    if version != VERSION:
        raise ProposerFailed(
            f"its state has version {version}, this ARL reads {VERSION}: continue the study with"
            " the ARL that wrote it"
        )
    try:
        return _kept(header, tensors)
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise ProposerFailed(f"its state is damaged ({error!r}); start the study anew") from None


def _kept(header: dict[str, object], tensors: dict[str, NDArray[np.float32]]) -> Kept:
    steps, pending = _steps(header, tensors), int(str(header["pending"]))
    return Kept(
        space=str(header["space"]),
        knowledge=Knowledge(
            weights=tensors["weights"],
            first_moments=tensors["first_moments"],
            second_moments=tensors["second_moments"],
            gradient_steps=int(str(header["gradient_steps"])),
            updates=int(str(header["updates"])),
            steps_seen=int(str(header["steps_seen"])),
            squared_advantages=float(str(header["squared_advantages"])),
        ),
        pending=steps[:pending],
        rollout=steps[pending:],
    )


def _columns(steps: Sequence[Step]) -> dict[str, NDArray[np.generic]]:
    if not steps:
        return {}
    numbers = [
        [s.log_prob, s.value, np.nan if s.best is None else s.best, s.unit, s.reward]
        for s in steps
    ]
    return {
        "observations": np.array([s.observation for s in steps]).astype(np.float16),
        "actions": np.array([s.action for s in steps], dtype=np.float32),
        "numbers": np.array(numbers, dtype=np.float64),
    }


def _steps(header: dict[str, object], tensors: dict[str, NDArray[np.float32]]) -> list[Step]:
    digests = header["digests"]
    if not isinstance(digests, list):
        raise ValueError("digests is no list")
    if not digests:
        return []
    observations = tensors["observations"].astype(np.float32)
    rows = zip(digests, observations, tensors["actions"], tensors["numbers"], strict=True)
    return [_step(str(digest), *row) for digest, *row in rows]


def _step(
    digest: str,
    observation: NDArray[np.float32],
    action: NDArray[np.float32],
    numbers: NDArray[np.float32],
) -> Step:
    found = {name: float(numbers[place]) for place, name in enumerate(_NUMBERS)}
    return Step(
        digest=digest,
        observation=observation,
        action=action,
        log_prob=found["log_prob"],
        value=found["value"],
        best=None if np.isnan(found["best"]) else found["best"],
        unit=found["unit"],
        reward=found["reward"],
    )


def header_of(data: bytes) -> dict[str, object]:
    """Our own header in a safetensors document. Raises ValueError, KeyError."""
    length = int.from_bytes(data[:_LENGTH_BYTES], "little")
    if not 0 < length <= len(data) - _LENGTH_BYTES:
        raise ValueError("it is cut short")
    document = json.loads(data[_LENGTH_BYTES : _LENGTH_BYTES + length])
    header: dict[str, object] = json.loads(document["__metadata__"][_HEADER])
    return header


# --- weights to start from ---------------------------------------------------------------------


def write_weights(weights: NDArray[np.float32]) -> bytes:
    header = json.dumps({"weights_version": WEIGHTS_VERSION, "observes": _observes()})
    written: bytes = save({"weights": weights}, metadata={_HEADER: header})
    return written


def read_weights(path: Path) -> NDArray[np.float32]:
    """Raises InvalidInput for a file that is not there or holds no weights of this version."""
    where = f"proposer.options.warm_start: {path}"
    try:
        data = path.read_bytes()
        header = header_of(data)
        weights: NDArray[np.float32] = load(data)["weights"]
    except OSError as error:
        raise InvalidInput(f"{where}: {error.strerror}; write shipped, none or a file") from None
    except (ValueError, KeyError, SafetensorError) as error:
        raise InvalidInput(f"{where} holds no weights ({error}); write shipped or none") from None
    if header.get("weights_version") != WEIGHTS_VERSION or header.get("observes") != _observes():
        raise InvalidInput(
            f"{where} is for another version of the policy; make it again with"
            " python -m proposers.ppo_pretrain"
        )
    return weights


def _observes() -> str:
    """What the weights are for, in order."""
    return " ".join((*COLUMNS, *DIRECTIONS, *STUDY))
