"""Optuna: ask, start the two processes (or none), tell; on SQLite or on a journal file."""

import subprocess

import optuna
from measuring import EVALUATE, TRAIN, Completions, parse_arguments, quiet_stdout
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

MODES = ("sqlite", "journal", "sqlite-nothing", "journal-nothing", "sqlite-tpe-nothing")


def run_processes() -> float:
    subprocess.run(TRAIN, check=True)
    printed = subprocess.run(EVALUATE, check=True, capture_output=True, text=True).stdout
    return float(printed.partition("=")[2])


def main() -> None:
    stdout = quiet_stdout()
    arguments = parse_arguments(MODES)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    storage: object = "sqlite:///study.db"
    if arguments.mode.startswith("journal"):
        storage = JournalStorage(JournalFileBackend("journal.log"))
    sampler = (
        optuna.samplers.TPESampler(seed=1)
        if "tpe" in arguments.mode
        else optuna.samplers.RandomSampler(seed=1)
    )
    study = optuna.create_study(storage=storage, sampler=sampler, direction="maximize")
    completions = Completions()

    def objective(trial: optuna.Trial) -> float:
        x = trial.suggest_float("x", 0.0, 1.0)
        return x if arguments.mode.endswith("nothing") else run_processes()

    def note(_study: optuna.Study, _trial: optuna.trial.FrozenTrial) -> None:
        completions.add()

    if arguments.parallel > 1:
        study.optimize(objective, arguments.trials, n_jobs=arguments.parallel, callbacks=[note])
    else:
        for _ in range(arguments.trials):
            trial = study.ask()
            study.tell(trial, objective(trial))
            completions.add()
    completions.print_to(stdout)


main()
