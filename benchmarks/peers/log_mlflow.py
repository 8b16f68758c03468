"""MLflow: a thousand metric values (20 at 50 steps) of one run in one call, run after run."""

import time

from measuring import parse_arguments, print_times, quiet_stdout
from mlflow.entities import Metric
from mlflow.tracking import MlflowClient

METRICS, STEPS = 20, 50


def main() -> None:
    stdout = quiet_stdout()
    arguments = parse_arguments()
    client = MlflowClient(tracking_uri="sqlite:///mlflow.db")
    experiment = client.create_experiment("values", artifact_location="artifacts")
    ended: list[float] = []
    passed_s = 0.0
    for number in range(arguments.trials):
        run = client.create_run(experiment)
        said = [
            Metric(f"train/metric-{metric}", number + metric / 7 + step, 1000 + step, step)
            for step in range(STEPS)
            for metric in range(METRICS)
        ]
        began = time.monotonic()
        client.log_batch(run.info.run_id, metrics=said)
        passed_s += time.monotonic() - began
        ended.append(passed_s)
    print_times(stdout, ended, 0.0)


main()
