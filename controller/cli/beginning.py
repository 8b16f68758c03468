"""`arl init`: a runnable example study in a new directory."""

import os
import shutil
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from controller.cli.output import OK, print_json
from controller.cli.text import plain
from ledger.errors import Conflict, InvalidInput, LedgerUnavailable

EXAMPLES: Final = Path(__file__).parent / "example"


class Example(StrEnum):
    COMMAND = "command"
    """Programs of /bin/sh; a whole study in seconds."""
    SORT = "sort"
    """Really trains a small language model with TRL; about five minutes on two cores."""
    EDIT = "edit"
    """A language model of yours edits train.py; needs an OpenAI-compatible endpoint."""


Directory = Annotated[Path, typer.Argument(metavar="DIR", help="a directory to make")]
Which = Annotated[
    Example,
    typer.Option(
        "--example",
        help="command: shell only, seconds; sort: trains with TRL, minutes; edit: a language "
        "model edits the program",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="print one JSON object, and nothing else")]


def init(directory: Directory, example: Which = Example.COMMAND, as_json: AsJson = False) -> int:
    """Make a directory with an example study that runs as it is; a place to start from."""
    _check_place(directory)
    try:
        shutil.copytree(EXAMPLES / example, directory, dirs_exist_ok=True)
        if example is Example.SORT:
            _write_sort_task(directory)
    except OSError as error:
        raise LedgerUnavailable(f"{plain(str(directory))} cannot be written: {error}") from error
    study = directory / "study.yaml"
    if as_json:
        print_json({"directory": str(directory), "study": str(study), "example": str(example)})
    else:
        print(f"made {plain(str(directory))}: now try")
        print(f"  cd {plain(str(directory))}")
        if example is Example.EDIT:
            print("  put your endpoint's url and model into study.yaml")
        print("  arl plan study.yaml     what it would cost")
        print("  arl run study.yaml      run it; Ctrl-C is safe")
    return OK


def _check_place(directory: Path) -> None:
    """Raises Conflict for a directory with anything in it, InvalidInput for another file."""
    if directory.is_dir():
        if os.listdir(directory):
            raise Conflict(
                f"{plain(str(directory))} is not empty: name a new directory, so that nothing "
                "of yours is overwritten"
            )
    elif os.path.lexists(directory):
        raise InvalidInput(f"{plain(str(directory))} is not a directory: name a new one")


def _write_sort_task(directory: Path) -> None:
    """The model, the data and the evaluator are made from a seed, not shipped."""
    import evaluator.programs
    from inner_trials.demo_task import write_task

    write_task(directory)
    program = Path(evaluator.programs.__file__).parent / "exact_match.py"
    shutil.copyfile(program, directory / "evaluator" / "evaluate.py")
