"""The environments by name, and how a study's options make one."""

from collections.abc import Mapping
from pathlib import Path

from inner_trials.environments.program import ProgramEnvironment, ProgramOptions
from inner_trials.environments.protocol import Environment
from inner_trials.environments.retry import Retry, RetryOptions
from inner_trials.environments.tools import ToolEnvironment, ToolOptions
from inner_trials.settings import SettingsError, read_settings
from inner_trials.verifiers.protocol import Verifier


def make_environment(
    name: str, options: Mapping[str, object], verifier: Verifier, place: Path | None
) -> Environment:
    """Raises SettingsError: no such environment, or an option of it is wrong."""
    given = {"options": options}
    try:
        if name == "retry":
            return Retry(read_settings(RetryOptions, given), verifier)
        if name == "program":
            return ProgramEnvironment(read_settings(ProgramOptions, given), place)
        if name == "tools":
            return ToolEnvironment(read_settings(ToolOptions, given), verifier, place)
    except SettingsError as error:
        text = str(error)
        if not text.startswith("options.environment_options."):
            text = text.replace("options.", "options.environment_options.", 1)
        raise SettingsError(text) from None
    raise SettingsError(f"options.environment: {name!r} is not one of program, retry, tools")
