"""Optuna: ask and tell with nothing run, on SQLite, on PostgreSQL, or through its gRPC proxy."""

import os
import socket
import threading
import time

import optuna
from measuring import Completions, parse_arguments, quiet_stdout
from optuna.storages import GrpcStorageProxy, RDBStorage, run_grpc_proxy_server

MODES = ("sqlite", "postgres", "grpc")


def through_a_proxy() -> GrpcStorageProxy:
    """A proxy server in front of SQLite, in a thread of this process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    kept = RDBStorage("sqlite:///study.db")
    threading.Thread(
        target=run_grpc_proxy_server,
        args=(kept,),
        kwargs={"host": "127.0.0.1", "port": port},
        daemon=True,
    ).start()
    time.sleep(1.0)
    return GrpcStorageProxy(host="127.0.0.1", port=port)


def main() -> None:
    stdout = quiet_stdout()
    arguments = parse_arguments(MODES)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    storage: object = "sqlite:///study.db"
    if arguments.mode == "postgres":
        storage = os.environ["ASKED_DATABASE"]
    elif arguments.mode == "grpc":
        storage = through_a_proxy()
    sampler = optuna.samplers.RandomSampler(seed=1)
    study = optuna.create_study(storage=storage, sampler=sampler, direction="maximize")
    completions = Completions()
    for _ in range(arguments.trials):
        trial = study.ask()
        study.tell(trial, trial.suggest_float("x", 0.0, 1.0))
        completions.add()
    completions.print_to(stdout)
    os._exit(0)


main()
