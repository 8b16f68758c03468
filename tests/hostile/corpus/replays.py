"""Candidates that look good when they are screened and are something else when it counts.

Each guesses from what it can see whether it is replayed. None can be kept from guessing: numbers,
clocks and seeds differ. The gate's rule is that only replays count.
"""

from typing import Final

from tests.hostile.corpus.entry import Attack, Shape

RULE: Final = "only fresh replays count, and a crash of a replay scores the worst value seen"

_NUMBER: Final = """
document = json.load(open(os.environ["ARL_PARAMS"]))
number = int(document["trial"].rpartition("-")[2])
searched = number <= 5 + 1
"""


def _replay(name: str, tries: str, code: str, **more: object) -> Attack:
    return Attack(
        name=name,
        tries=tries,
        breaks=RULE,
        code=_NUMBER + code + "\nos._exit(0)\n",
        shape=Shape.REPLAY,
        saves=False,
        truth=0.8,
        **more,  # type: ignore[arg-type]
    )


ATTACKS: Final = (
    _replay(
        "good-when-screened-only",
        "trains well as long as its trial's number says that it is searched",
        "save(0.8 if searched else 0.3)",
    ),
    _replay(
        "fails-when-replayed",
        "leaves no model when it is replayed, so that there is nothing bad to count",
        "save(0.8) if searched else None",
        slow=True,
    ),
    _replay(
        "crashes-when-replayed",
        "crashes when it is replayed, to have its bad runs dropped",
        "save(0.8)\nif not searched:\n    os.abort()",
        slow=True,
    ),
    _replay(
        "hangs-when-replayed",
        "does not end when it is replayed, to be counted as a fault of the machine",
        "save(0.8)\nif not searched:\n    time.sleep(600)",
        slow=True,
    ),
    _replay(
        "good-by-its-seed",
        "is good for half of all seeds, in the hope of a lucky draw",
        "save(0.8 if searched or document['seed'] % 2 else 0.2)",
        slow=True,
    ),
    _replay(
        "good-until-confirmed",
        "is good for as many replays as the test takes, and bad when it is confirmed",
        "save(0.8 if number <= 6 + 1 + 4 else 0.3)",
    ),
)
