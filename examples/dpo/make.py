"""Makes what the study needs: the sorting task, and a base that fine-tuning taught half of it."""

from pathlib import Path
from typing import Final

from examples import demo_inputs

HERE: Final = Path(__file__).parent


def write_study(directory: Path) -> None:
    """Everything but the taught base: study, data, evaluator, and the untrained base."""
    demo_inputs.write_task(directory, HERE)
    demo_inputs.write_pairs(directory)


if __name__ == "__main__":
    demo_inputs.make(write_study, demo_inputs.teach)
