"""Makes what the studies need: the sorting task, a base that half knows it, and a reward model."""

from pathlib import Path
from typing import Final

from examples import demo_inputs

HERE: Final = Path(__file__).parent


def write_study(directory: Path) -> None:
    """Everything but the taught models: two studies, data, evaluators, and the untrained base."""
    demo_inputs.write_task(directory, HERE)
    demo_inputs.write_pairs(directory)
    judging = directory / "reward_evaluator"
    demo_inputs.copy_evaluator(directory / "evaluator", judging, "pair_accuracy")
    demo_inputs.pair_splits(judging)


def teach(directory: Path) -> None:
    """The base first, then pairs of its own mistakes, and a reward model that knows them."""
    demo_inputs.teach(directory)
    splits = [
        (f"evaluator/{name}.jsonl", f"reward_evaluator/{name}.jsonl")
        for name in ("search", "holdout")
    ]
    demo_inputs.write_own_mistakes(directory, *demo_inputs.OWN_MISTAKES, *splits)
    demo_inputs.teach(
        directory,
        program="reward_model",
        options=demo_inputs.REWARD,
        train="pairs/train.jsonl",
        to="reward",
    )


if __name__ == "__main__":
    demo_inputs.make(write_study, teach)
