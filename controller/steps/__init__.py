"""The table of contents: which steps a study takes in which state, in order.

Every step loads what it needs from the view, works with no session open, and adds entries; the
driver commits them under the study's fence and performs the effects afterwards.
"""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from controller.steps import (
    asking,
    collect,
    commands,
    convert,
    decide,
    evaluate,
    launch,
    observe,
    prepare,
    propose,
    replay,
    retain,
)
from controller.steps.context import StepContext
from ledger.states import StudyState

Step: TypeAlias = Callable[[StepContext], None]

_TRIALS: Final[tuple[Step, ...]] = (
    launch.start,
    observe.run,
    collect.run,
    evaluate.run,
    decide.run,
)
"""What happens to trials under way, whatever the study does."""

STEPS: Final[Mapping[StudyState, tuple[Step, ...]]] = {
    # Begun first: a pause asked for before any worker came must find something to pause.
    StudyState.SUBMITTED: (prepare.begin, commands.run),
    StudyState.PREPARING: (commands.run, launch.start, observe.run, prepare.run),
    StudyState.RUNNING: (commands.run, *_TRIALS, propose.run, launch.plan, retain.run),
    StudyState.PAUSED: (commands.run, *_TRIALS, launch.plan, retain.run),
    StudyState.DRAINING: (
        commands.run,
        *_TRIALS,
        asking.finish,
        launch.plan,
        replay.run,
        retain.run,
    ),
    StudyState.REPLAYING: (
        commands.run,
        *_TRIALS,
        replay.run,
        convert.run,
        launch.plan,
        retain.run,
    ),
    StudyState.COMPLETED: (commands.run, retain.run),
    StudyState.FAILED: (commands.run, retain.run),
    StudyState.CANCELLED: (commands.run, retain.run),
}

HELD: Final[tuple[Step, ...]] = (commands.run, retain.run)
"""The same while a condition holds it: with too little disk, letting go is what helps."""
