"""labloop through its Python interface: propose edits a file, run trains and evaluates."""

import shlex
import subprocess
from pathlib import Path

from labloop import Experiment, Goal, Loop
from measuring import EVALUATE, TRAIN, Completions, parse_arguments, quiet_stdout


def make_repository() -> None:
    """labloop keeps and reverts with git, so it needs a clean repository."""
    Path("params.txt").write_text("0\n")
    Path(".gitignore").write_text("labloop.jsonl*\n")
    for argv in (
        ("git", "init", "-q"),
        ("git", "config", "user.email", "bench@example.invalid"),
        ("git", "config", "user.name", "bench"),
        ("git", "add", "-A"),
        ("git", "commit", "-q", "-m", "start"),
    ):
        subprocess.run(argv, check=True)


def main() -> None:
    stdout = quiet_stdout()
    arguments = parse_arguments()
    make_repository()
    experiment = Experiment(
        run=f"{shlex.join(TRAIN)}; {shlex.join(EVALUATE)}",
        metric="score",
        goal=Goal.MAXIMIZE,
        propose="echo $LABLOOP_TRIAL >params.txt",
        sandbox="none",
        give_up_after=0,
    )
    Loop(experiment).baseline()
    completions = Completions()
    Loop(experiment, reporter=lambda _trial: completions.add()).run(trials=arguments.trials)
    completions.print_to(stdout)


main()
