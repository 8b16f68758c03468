"""What a proposal earns: how much it improved on the best that was known when it was made.

Improvements are counted in units of what is worth telling apart (`ppo_features.look`): a step
of one noise floor earns 1 and nothing earns more than HIGHEST, so neither a 1e308 nor a noise
floor of zero outweighs everything else. No improvement earns nothing, a failure a little less.
"""

import math
from typing import Final

HIGHEST: Final = 5.0
FAILURE: Final = -0.2
"""Of a trial that failed, broke a constraint or scored no number."""
FIRST: Final = 0.0
"""Of a trial with a value when there was none to compare with."""


def reward_of(loss: float | None, best: float | None, unit: float) -> float:
    """The reward of a trial with that loss (None: a failure), proposed when `best` was the lowest
    loss and `unit` one improvement. Always finite."""
    if loss is None or not math.isfinite(loss):
        return FAILURE
    if best is None:
        return FIRST
    if not loss < best:
        return 0.0
    # Each divided first: the difference may overflow.
    gain = best / unit - loss / unit if unit > 0.0 else math.inf
    return min(gain, HIGHEST) if math.isfinite(gain) else HIGHEST
