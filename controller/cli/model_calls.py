"""What a study asked of language models, as `show` prints it."""

from collections.abc import Mapping

from controller.cli.text import plain
from ledger.records import Json


def model_lines(document: Mapping[str, Json]) -> list[str]:
    """One line of sums, and one of what came of the calls; none where no model was asked."""
    use = document.get("model_use")
    if not isinstance(use, Mapping):
        return []
    outcomes = use["outcomes"]
    listed = outcomes.items() if isinstance(outcomes, Mapping) else ()
    share = use["malformed_share"]
    of_trials = f" ({share:.0%} of the search trials)" if isinstance(share, float) else ""
    return [
        f"language model: {use['calls']} calls, {use['tokens']} tokens "
        f"({use['prompt_tokens']} + {use['completion_tokens']}), ${use['cost_usd']:.4g}, "
        f"{use['latency_s']:.1f} s; malformed: {use['malformed']}{of_trials}",
        "  " + ", ".join(f"{plain(str(name))} {count}" for name, count in listed),
    ]
