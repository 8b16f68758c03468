"""Optuna: load a stored study and read all of its trials, as a resumed sampler does first."""

import argparse
import json
import resource
import time

import optuna


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--database", required=True)
    given = parser.parse_args()
    began = time.monotonic()
    study = optuna.load_study(study_name="bulk", storage=f"sqlite:///{given.database}")
    count = len(study.get_trials(deepcopy=False))
    found = {
        "seconds": time.monotonic() - began,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "trials": count,
    }
    print(json.dumps(found))


main()
