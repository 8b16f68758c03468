"""Builds what a language model is asked: pure functions, versioned by what they write.

A change of any text here or in prompt_*.py needs a new version: a test compares whole prompts
with stored ones.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ledger.search import History
from proposers.chat_tokens import PER_MESSAGE, PER_REQUEST, Messages, most_tokens
from proposers.prompt_data import RULE, quoted
from proposers.prompt_history import (
    PENDING,
    best_trials,
    dead_ends,
    fitted,
    lines_of,
    recent_trials,
    standing_text,
)
from proposers.prompt_space import params_text, space_text
from proposers.search_space import SearchSpace

PARAMETERS_VERSION: Final = "parameters-1"
PATCH_VERSION: Final = "patch-1"

_BRIEF_SHARE: Final = 0.25
_SOURCE_SHARE: Final = 0.5

_PARAMETERS_SYSTEM: Final = f"""\
You choose the parameters of the next trials of a study. A trial trains a model with the \
parameters you give, and an evaluator that neither you nor the trial can reach scores it.

Answer with one JSON object and nothing else:
{{"proposals": [{{"rationale": "why this could be better, in a sentence", "params": {{…}}}}]}}

- Every value lies in the search space. Numbers are JSON numbers, never text in quotes.
- Give every parameter that exists under the conditions stated, and no other.
- Never repeat parameters that were tried or are running.
- Learn from what failed. Some of your proposals should explore, not only refine the best.
- Scores are noisy: a difference below the noise is none.

{RULE}"""

_PATCH_SYSTEM: Final = """\
You improve a program by one change at a time. The changed program is run as a trial, and an \
evaluator that neither you nor the program can reach scores what it leaves behind.

Answer with one or two sentences on why the change could help, then the change itself in blocks:

path/of/the/file
<<<<<<< SEARCH
lines exactly as they are in the file now
=======
the lines that replace them
>>>>>>> REPLACE

- A unified diff is understood too. Write one form only.
- The lines to search for are copied exactly, and occur once in the file: give enough of them.
- Change only the files shown. Create, delete and rename none.
- One idea for each answer. Do not repeat a change that was tried.
- Learn from what failed. Scores are noisy: a difference below the noise is none.
{calls}
{rule}"""


def parameter_messages(history: History, space: SearchSpace, *, count: int, room: int) -> Messages:
    """The question for `count` sets of parameters, of at most `room` tokens unless the space
    alone has more."""
    brief = _brief(history, room)
    ask = f"Propose {count} sets of parameters." if count > 1 else "Propose one set of parameters."
    head = [*brief, _part("Standing", standing_text(history))]
    head.append(_part("Search space", quoted("search space", space_text(space))))
    fixed = [_PARAMETERS_SYSTEM, *head, ask]
    return _messages(_PARAMETERS_SYSTEM, [*head, *_past(history, _left(room, fixed)), ask])


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """The candidate that a patch starts from."""

    candidate_id: str
    what: str
    """Like `trial #7, score 0.71`: ARL's own words."""
    files: Mapping[str, str]


def patch_messages(
    history: History,
    parent: Parent,
    *,
    changes: Sequence[tuple[str, str]],
    required_calls: Collection[str],
    room: int,
) -> Messages:
    """The question for one patch, of at most `room` tokens.

    `changes` are the diffs of candidates that were tried or are running, each with its label, the
    most telling ones first.
    """
    calls = "".join(f"- Leave the call {name}(…) in.\n" for name in required_calls)
    system = _PATCH_SYSTEM.format(calls=calls, rule=RULE)
    head = [*_brief(history, room), _part("Standing", standing_text(history))]
    ask = f"The files above are those of {parent.what}. Write the next change to them."
    left = _left(room, [system, *head, ask])
    source = _part("Current source", *_sources(parent.files, min(left, room * _SOURCE_SHARE)))
    left = _left(room, [system, *head, source, ask])
    tried = _changes(changes, left / 2)
    past = _past(history, _left(room, [system, *head, source, *tried, ask]))
    return _messages(system, [*head, *past, *tried, source, ask])


def _messages(system: str, parts: Sequence[str]) -> Messages:
    return (
        {"role": "system", "content": system},
        {"role": "user", "content": "\n\n".join(parts)},
    )


def _left(room: int, parts: Sequence[str]) -> float:
    """What a prompt of these parts leaves of its room."""
    used = sum(most_tokens(part) + 2 for part in parts)
    return room - used - PER_REQUEST - 2 * PER_MESSAGE


def _part(title: str, *texts: str) -> str:
    return "\n".join([f"## {title}", *texts])


def _brief(history: History, room: int) -> list[str]:
    """The user's own guidance: the only text that is no data although people wrote it."""
    text = history.brief.strip()
    if not text:
        return []
    lines = text.split("\n")
    kept = _first_fitting(lines, room * _BRIEF_SHARE)
    cut = [] if len(kept) == len(lines) else ["[the rest is left out: it is too long]"]
    return [_part("Guidance", *kept, *cut)]


def _past(history: History, left: float) -> list[str]:
    """Best trials, dead ends, what runs and the latest trials, each in its share of what is
    left; the oldest go first."""
    running = [params_text(trial.params) for trial in history.pending if trial.params]
    sections = (
        ("Best trials, the best last", lines_of(best_trials(history)[::-1], history)),
        ("Running now", running[-PENDING:]),
        ("Dead ends: what failed, and why", lines_of(dead_ends(history), history)),
        ("Latest trials, the newest last", lines_of(recent_trials(history), history)),
    )
    parts: list[str] = []
    for place, (title, lines) in enumerate(sections):
        frame = most_tokens(title) + 80
        share = left if place == len(sections) - 1 else left / 2
        kept = fitted(lines, share - frame, most_tokens)
        if kept:
            parts.append(_part(title, quoted(title.partition(":")[0], "\n".join(kept))))
            left -= most_tokens(parts[-1]) + 2
    return parts


def _sources(files: Mapping[str, str], room: float) -> list[str]:
    """Whole files where there is room, else their beginnings."""
    parts: list[str] = []
    for place, (path, text) in enumerate(sorted(files.items())):
        share = room / (len(files) - place)
        label = f"file {path}"
        lines = text.split("\n")
        kept = _first_fitting(lines, share - most_tokens(label) - 80)
        if len(kept) < len(lines):
            label += f", its first {len(kept)} of {len(lines)} lines"
        parts.append(quoted(label, "\n".join(kept)))
        room -= most_tokens(parts[-1]) + 1
    return parts


def _changes(changes: Sequence[tuple[str, str]], room: float) -> list[str]:
    shown: list[str] = []
    for label, text in changes:
        block = quoted(label, text)
        room -= most_tokens(block) + 1
        if room < 60:
            break
        shown.append(block)
    return [_part("Changes tried or running", *shown)] if shown else []


def _first_fitting(lines: Sequence[str], room: float) -> list[str]:
    return fitted(lines[::-1], room, _line_tokens)[::-1]


_line_tokens: Final[Callable[[str], float]] = most_tokens
