"""What an evaluator program is: the contract between a frozen bundle and whoever runs it.

An evaluator program turns one stored `model` artifact into scores. It runs in a process of its
own, from the bundle's read-only copy, and finds

- its inputs in the params document (`ARL_PARAMS`) under `inputs`, as absolute read-only paths:
  `artifact` (the collected `output/model`), `bundle` (its own files) and, when splits are
  declared, `split` (the one split in use: a directory that holds `split.jsonl`, or the declared
  directory's content);
- the study's fixed `evaluator.options` in the params document under `options`;
- the name of the split in `ARL_SPLIT`: `search`, `holdout_a` or `holdout_b`.

It writes one JSON object to the descriptor whose number is in `ARL_SCORE_FD`, and exits 0:

    {"metrics": {"exact_match": 0.5, "format_ok": 1.0}, "items": [1, 0]}

`metrics` holds every declared metric and no other, as numbers inside the declared range.
`items`, optional, are the objective's per-item scores in item order. From a shell:

    echo '{"metrics": {"score": 1}}' >&"$ARL_SCORE_FD"

There is no other form, and standard output is never read. Anything else is an evaluator error:
not a score, not zero, never shown to a proposer.

In `answers` mode the program never sees the candidate's code. It asks through
`evaluator/programs/answers.py` (a copy of which is importable beside a built-in program).
"""

from typing import Final, Literal, TypeAlias

Mode: TypeAlias = Literal["weights", "answers", "reported"]

PROGRAM_FILE: Final = "evaluate.py"
"""Of a bundle, unless it declares an argv of its own."""

DEFAULT_ARGV: Final = ("{python}", "-I", "{bundle}/" + PROGRAM_FILE)
"""Isolated mode: no environment, no user site, no directory of the caller on the path."""

SPLIT_FILE: Final = "split.jsonl"
"""The one file of a split that was declared as a JSON Lines file."""
