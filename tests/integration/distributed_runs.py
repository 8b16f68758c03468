"""Compares what several processes learned with what one did, for the tests."""

from pathlib import Path

import pytest
from safetensors.torch import load_file

from tests.integration.sft_runs import Trial


def same_losses(found: Trial, expected: Trial, tolerance: float = 1e-5) -> bool:
    losses, others = found.values("train/loss"), expected.values("train/loss")
    return bool(losses) and all(
        losses[step] == pytest.approx(others[step], abs=tolerance) for step in losses
    )


def furthest(found: Path, expected: Path) -> float:
    """The largest difference of two models' weights, which have the same names."""
    one, two = load_file(found / "model.safetensors"), load_file(expected / "model.safetensors")
    assert list(one) == list(two)
    return max(float((one[name] - two[name]).abs().max()) for name in one)
