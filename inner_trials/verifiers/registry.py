"""The verifiers by name, and how a study's options make one."""

from collections.abc import Mapping
from typing import Any, Final

from inner_trials.settings import SettingsError, read_settings
from inner_trials.verifiers.code_tests import CodeTests
from inner_trials.verifiers.exact import Exact
from inner_trials.verifiers.json_schema import JsonSchema
from inner_trials.verifiers.math_answers import MathAnswers
from inner_trials.verifiers.numeric import Numeric
from inner_trials.verifiers.protocol import Verifier

VERIFIERS: Final[Mapping[str, Any]] = {
    "exact": Exact,
    "numeric": Numeric,
    "math": MathAnswers,
    "json_schema": JsonSchema,
    "code": CodeTests,
}


def make_verifier(name: str, options: Mapping[str, object]) -> Verifier:
    """Raises SettingsError: no such verifier, or an option of it is wrong."""
    if name not in VERIFIERS:
        known = ", ".join(sorted(VERIFIERS))
        raise SettingsError(f"options.verifier: {name!r} is not one of {known}")
    try:
        made: Verifier = read_settings(VERIFIERS[name], {"options": options})
    except SettingsError as error:
        raise SettingsError(
            str(error).replace("options.", "options.verifier_options.", 1)
        ) from None
    return made
