"""autoresearch-rl through its command line: a command target with a train and an eval command."""

import json
import subprocess
import sys
import time
from pathlib import Path

from measuring import EVALUATE, TRAIN, parse_arguments, print_times, quiet_stdout


def configuration(trials: int, parallel: int) -> str:
    controller: dict[str, object] = {"max_iterations": trials}
    if parallel > 1:
        controller["parallel"] = {
            "enabled": True,
            "max_concurrency": parallel,
            "resources": {"gpu": parallel},
            "submit_poll_interval_s": 0.01,
        }
    return json.dumps(
        {
            "name": "noop",
            "objective": {"metric": "score", "direction": "max"},
            "target": {
                "type": "command",
                "workdir": ".",
                "timeout_s": 60,
                "train_cmd": TRAIN,
                "eval_cmd": EVALUATE,
            },
            "policy": {"type": "random", "seed": 1, "params": {"x": [0.1, 0.2, 0.3, 0.4]}},
            "controller": controller,
            "comparability": {"strict": False, "expected_budget_s": 86400},
            "telemetry": {
                "trace_path": "traces/events.jsonl",
                "ledger_path": "results.tsv",
                "artifacts_dir": "runs",
                "versions_dir": "versions",
            },
        }
    )


def main() -> None:
    stdout = quiet_stdout()
    arguments = parse_arguments()
    Path("config.yaml").write_text(configuration(arguments.trials, arguments.parallel))
    command = str(Path(sys.executable).parent / "autoresearch-rl")
    started_s = time.time()
    subprocess.run([command, "run", "config.yaml"], check=True, stdout=subprocess.DEVNULL)
    # Each iteration writes its manifest once when it ends.
    manifests = list(Path("runs").glob("*/manifest.json"))
    print_times(stdout, [path.stat().st_mtime for path in manifests], started_s)


main()
