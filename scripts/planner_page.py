"""Writes docs/planner.md: a plan's axes and the planner's rules, from the code that has them."""

import argparse
import dataclasses
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from inner_trials.plan import AXES, RULES
from inner_trials.planning.axes import COUNTS, OPTIONAL_COUNTS, SWITCHES, VALUES, Plan
from inner_trials.planning.contradictions import CONTRADICTIONS
from inner_trials.planning.kinds import DEFAULTS, FIXED, SETTINGS
from inner_trials.planning.meanings import MEANINGS
from inner_trials.planning.precision import WORD_RULES
from inner_trials.planning.signals import Rule

PAGE = Path(__file__).resolve().parent.parent / "docs" / "planner.md"

INTRODUCTION = """\
# The planner

A post-training system is one coordinate on each of several axes: which loss, which weights, which trainer, where completions come from, what rewards them, in
which precision each tensor is. The axes are not alternatives to each other: RLVR is a reward and GRPO an optimizer, LoRA a parameterization and SFT a stage, INT4 a
representation and AWQ a method. A plan names all of them, and the planner (`inner_trials/plan.py`, standard library only) refuses what cannot be right before any
compute is spent: at submit, at every proposal, and in `arl plan`.

```python
from inner_trials.plan import Plan, rollout_gpu_floor, validate

validate(plan)  # raises ValueError: the axis, its value, the rule, and what to write instead
rollout_gpu_floor(64, 8, 2048, 10_000, 20)  # 6
```

**In a study.** `program.plan` states axes; what is left out follows from `program.kind`, from the program's own settings (the last table) and from other axes. A plan
that contradicts the kind or a setting is refused, and so is what the kind's built-in program would leave undone; with `kind: command` any valid plan will do, and the
program finds it whole under `plan` in params.json. The whole plan is stored with the study. A parameter of the space that is an axis, or a setting that is one, is
checked for each proposal. A proposer is told which points are valid and proposes no other; what comes wrong all the same, from a language model say, becomes a trial
that failed as `invalid_plan`: it ran nothing, is not taken from `budget.trials`, and its reason is in what the proposer is told next. Ten in a row end the study
(`stop.consecutive_failures`).

**Rollout sizing.** One update needs `prompts x group_size x average_tokens` tokens; a GPU makes `tokens_per_second x window` of them. The least number of GPUs is the
quotient, rounded up: long tails, rewards and synchronization come on top. `arl plan FILE --prompts 64 --average-tokens 2048 --tokens-per-second 10000 --window 20`.

**Memory** in `arl plan` is an estimate by the published formulas, each named in `inner_trials/planning/memory.py`: 16 bytes a trained parameter with AdamW
(ZeRO, section 3.1), divided by what shards it; 34 bytes a token, layer and hidden number of activations, 2 with checkpointing (Korthikanti et al. 2022); a
base in NF4 at 0.516 bytes (QLoRA, section 3); two numbers a token, layer, head and head dimension of KV cache (Kwon et al. 2023). The built-in programs
keep in FP32 what is frozen, too (the base under an adapter, a reference, the embeddings beside 4-bit layers): 4 bytes a parameter, whatever the compute is in.

"""

BEFORE = """\
## What is refused first

In this order, with messages that do not change: the names of stage, trainer and parameterization; what SFT and DPO exclude; that online RL has a reward, GRPO or PPO,
a group of two or more for GRPO, rollouts and their sync, a correction for FP8 or INT8 actors under a BF16 trainer, and no delta sync of INT8 actors; that offline
stages have no rollout precision. Then words that an axis does not have:

"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail when the page is not current")
    if not parser.parse_args().check:
        PAGE.write_text(render(), encoding="utf-8")
        return 0
    current = PAGE.is_file() and PAGE.read_text(encoding="utf-8") == render()
    if not current:
        print("docs/planner.md is not current: run python scripts/planner_page.py")
    return 0 if current else 1


def render() -> str:
    """The whole page."""
    return "".join(
        (
            INTRODUCTION,
            "## Axes\n\n",
            table(("axis", "values", "left out", "meaning"), [axis_row(axis) for axis in AXES]),
            "\n",
            BEFORE,
            rules_table(WORD_RULES),
            "\n## Rules between axes\n\nIn this order, once every axis has a value of its own.\n\n",
            rules_table(RULES),
            "\n## Rules between the plan and a program's other settings\n\n",
            table(("kind", "axis", "why", "what to write"), contradiction_rows()),
            "\n## Kinds and their settings\n\n",
            table(("kind", "fixed", "left out", "settings that are axes"), kind_rows()),
        )
    )


def axis_row(axis: str) -> tuple[str, ...]:
    default = Plan.__dataclass_fields__[axis].default
    usual = f"`{str(default).lower()}`"
    if default in (dataclasses.MISSING, None):
        usual = "follows"
    return (f"`{axis}`", values_of(axis), usual, MEANINGS[axis])


def values_of(axis: str) -> str:
    if axis in VALUES:
        return ", ".join(f"`{word}`" for word in VALUES[axis])
    if axis in SWITCHES:
        return "true, false"
    least = {**COUNTS, **OPTIONAL_COUNTS}.get(axis)
    return "text" if least is None else f"{least} or more"


def rules_table(rules: tuple[Rule, ...]) -> str:
    rows = [(f"`{rule.axis}`", f"{rule.rule}.", f"{rule.fix}.") for rule in rules]
    return table(("axis", "why", "what to write"), list(dict.fromkeys(rows)))


def contradiction_rows() -> list[tuple[str, ...]]:
    return [
        (", ".join(f"`{kind}`" for kind in c.kinds), f"`{c.axis}`", f"{c.rule}.", f"{c.fix}.")
        for c in CONTRADICTIONS
    ]


def kind_rows() -> list[tuple[str, ...]]:
    return [
        (
            f"`{kind}`",
            ", ".join(f"{axis} {value}" for axis, value in FIXED[kind].items()),
            ", ".join(f"{axis} {value}" for axis, value in DEFAULTS[kind].items()),
            ", ".join(
                f"`{setting}`" + (f" ({axis})" if axis != setting else "")
                for setting, axis in SETTINGS[kind].items()
            ),
        )
        for kind in FIXED
    ]


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(cell for cell in line)} |\n" for line in lines)


if __name__ == "__main__":
    raise SystemExit(main())
