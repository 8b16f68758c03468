"""Ray Tune: a function trainable that starts the two processes and reports the score."""

import os
import subprocess
import tempfile

from measuring import EVALUATE, TRAIN, Completions, parse_arguments, quiet_stdout

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")

import ray
from ray import tune


def noop(config: dict[str, float]) -> None:
    subprocess.run(TRAIN, check=True)
    printed = subprocess.run(EVALUATE, check=True, capture_output=True, text=True).stdout
    tune.report({"score": float(printed.partition("=")[2])})


class Watch(tune.Callback):  # type: ignore[misc]  # ray is not typed
    """Notes when each trial completes."""

    def __init__(self, completions: Completions) -> None:
        self.completions = completions

    def on_trial_complete(
        self, iteration: int, trials: object, trial: object, **_: object
    ) -> None:
        self.completions.add()


def main() -> None:
    stdout = quiet_stdout()
    arguments = parse_arguments(("fresh", "reused"))
    # Ray's sockets live below this directory, and their paths must stay short.
    with tempfile.TemporaryDirectory(prefix="ray") as short:
        ray.init(num_cpus=arguments.parallel, include_dashboard=False, _temp_dir=short)
        completions = Completions()
        tuner = tune.Tuner(
            tune.with_resources(noop, {"cpu": 1}),
            param_space={"x": tune.uniform(0.0, 1.0)},
            tune_config=tune.TuneConfig(
                num_samples=arguments.trials,
                max_concurrent_trials=arguments.parallel,
                reuse_actors=arguments.mode == "reused",
            ),
            run_config=tune.RunConfig(
                storage_path=os.getcwd(), verbose=0, callbacks=[Watch(completions)]
            ),
        )
        tuner.fit()
        ray.shutdown()
    completions.print_to(stdout)


main()
