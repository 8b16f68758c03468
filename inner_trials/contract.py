"""The agreement between a target and the program it runs. Standard library only.

A program finds everything through environment variables (names below). A Python program uses
`inner_trials.reporting`; a program in another language appends JSON lines
`{"step": 1, "metric": "loss", "value": 0.5}` to the file named by ARL_REPORTS, writes what it
made under ARL_OUTPUT/model, and leaves with EXIT_STOPPED soon after the file named by ARL_STOP
appears.
"""

from typing import Final

PARAMS: Final = "ARL_PARAMS"
"""Path of the JSON document that configures the program."""
REPORTS: Final = "ARL_REPORTS"
"""Path of the file to append reports to."""
STOP: Final = "ARL_STOP"
"""Path of a file that appears when the program should save and leave."""
OUTPUT: Final = "ARL_OUTPUT"
"""Directory for what the program makes: `model/`, `resume/`, `rollouts/` and `facts/` below it
are collected."""
INPUTS: Final = "ARL_INPUTS"
"""Directory with one entry per read-only input, by mount name."""
SCORE_FD: Final = "ARL_SCORE_FD"
"""Evaluate and prepare programs: number of the file descriptor to write one JSON object to."""
ASK_FD: Final = "ARL_ASK_FD"
"""`answers` mode: descriptor on which the evaluator writes one JSON line per batch."""
ANSWER_FD: Final = "ARL_ANSWER_FD"
"""`answers` mode: descriptor on which it reads the candidate's line for that batch."""
ATTEMPT: Final = "ARL_ATTEMPT"
"""The attempt's name."""
SPLIT: Final = "ARL_SPLIT"
"""Evaluate programs: which split is mounted as input `split`."""

MODEL_DIR: Final = "model"
RESUME_DIR: Final = "resume"
ROLLOUTS_DIR: Final = "rollouts"
"""What an online program sampled, kept as an artifact beside the model; see its rollouts.py."""
FACTS_DIR: Final = "facts"
FACTS_FILE: Final = "run.json"
"""What a built-in program says it ran with: one JSON object; see its facts.py."""
FACTS_BYTES: Final = 256 * 1024
"""Longer ones are not read."""

EXIT_STOPPED: Final = 42
"""The program saved what it had and left because it was asked to."""

EXIT_BAD_INPUT: Final = 2
"""A built-in program's: settings or data are not what it can train on; its one line says why."""

EXIT_OUT_OF_MEMORY: Final = 44
"""A training program's: it ran out of memory, caught that and left."""

EXIT_NOT_FINITE: Final = 45
"""A training program's: its loss became NaN or infinite."""

EXIT_RANK_LOST: Final = 46
"""A training program's of several processes: one of them was ended from outside, so all were."""

EXIT_ACTORS_LOST: Final = 47
"""A training program's: the server that sampled for it is gone, or stands still."""

EXIT_REFUSED: Final = 43
"""An evaluator's: the artifact itself cannot be scored (not loadable, not allowed). That is the
candidate's fault and final; every other failure of an evaluator is the evaluator's own."""

SCORE_BYTES: Final = 8 * 1024 * 1024
"""A longer score document is refused."""

FORMAT: Final = 1
"""Version of the params document: {"format", "trial", "kind", "parameters", "seed", "options",
"inputs", "output", "workspace", "resume"}; `inputs` maps mount names to absolute paths, `resume`
is the path of the latest resume checkpoint or null, `options` is the program's fixed part."""
