"""Prints vLLM's command line for stored models, or starts it and stays beside it."""

import subprocess
import sys
from collections.abc import Callable, Sequence

from controller.cli.output import OK, print_json
from controller.cli.text import plain
from controller.serving.commands import Command, describe
from controller.serving.dtypes import TORCHAO
from controller.serving.endpoint import Endpoint
from controller.serving.files import Chosen
from controller.serving.forms import Form
from controller.serving.into import FOLDER
from controller.serving.server_process import Ended, ModelServer, ended_by_signals
from controller.serving.subjects import SHORT
from controller.settings import Settings, model_server_environment
from ledger.errors import InvalidInput
from ledger.records import Json
from targets.outbound import GuardedTransport, Outbound
from targets.outbound_addresses import parse_policy

ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Addresses that mean every one of this machine's."""


def print_command(
    command: Command, python: str | None, served: Sequence[Chosen], *, as_json: bool
) -> int:
    """The command line, the environment, and the same as a configuration file."""
    if as_json:
        print_json(_document(command, python, served))
        return OK
    for line in _described(served):
        print(f"# {line}")
    if _needs_torchao(served):
        print("# torchao has to be installed beside vLLM")
    print(command.shell(python))
    print("\n# or: vllm serve --config FILE, with this as the file (and the same environment)")
    for line in command.configuration().splitlines():
        print(f"#   {line}")
    return OK


def start_server(
    command: Command,
    python: str,
    served: Sequence[Chosen],
    settings: Settings,
    *,
    patience_s: float,
    say: Callable[[str], None],
    as_json: bool,
) -> int:
    """Start it, wait until it is well, and stay until it ends or somebody ends this process.

    Raises InvalidInput, Conflict, EndpointUnavailable.
    """
    _check_libraries(python, served)
    log = settings.home / FOLDER / f"vllm-{command.options['port']}.log"
    for line in _described(served):
        say(line)
    try:
        with ended_by_signals():
            server = ModelServer(command, python, model_server_environment(), log)
            try:
                say(f"starting vLLM; what it says is in {log}")
                _wait(server, command, patience_s=patience_s, say=say)
                if as_json:
                    print_json({**_document(command, python, served), "log": str(log)})
                else:
                    names = ", ".join(command.names)
                    print(f"serving {plain(names)} at {command.url}/v1 (Ctrl-C ends it)")
                sys.stdout.flush()
                server.wait()
            finally:
                server.close()
    except Ended:
        say("the server is ended")
    return OK


def _check_libraries(python: str, served: Sequence[Chosen]) -> None:
    """Raises InvalidInput: vLLM's interpreter lacks what reads the model's format."""
    if not _needs_torchao(served):
        return
    looked = subprocess.run(
        [python, "-c", "import importlib.util as u; print(u.find_spec('torchao') is not None)"],
        capture_output=True,
        check=False,
        text=True,
        env=model_server_environment(),
    )
    if looked.returncode == 0 and looked.stdout.strip() == "False":
        raise InvalidInput(
            f"--python {plain(python)}: the model's weights are torchao's, and this interpreter "
            f"has no torchao; {plain(python)} -m pip install torchao, or serve another form"
        )


def _needs_torchao(served: Sequence[Chosen]) -> bool:
    return any(
        one.form is Form.QUANTISED
        and one.files.whole is not None
        and one.files.whole.quantisation == TORCHAO
        for one in served
    )


def _wait(
    server: ModelServer, command: Command, *, patience_s: float, say: Callable[[str], None]
) -> None:
    endpoint = _own_endpoint(command)
    try:
        server.wait_until_well(endpoint.is_well, patience_s=patience_s, say=say)
    finally:
        endpoint.close()


def _own_endpoint(command: Command) -> Endpoint:
    host = str(command.options["host"])
    url = command.url.replace(host, ANYWHERE.get(host, host), 1)
    return Endpoint(url, Outbound(GuardedTransport(parse_policy("1"))), None)


def _described(served: Sequence[Chosen]) -> list[str]:
    lines = []
    for one in served:
        subject, whole = one.subject, one.files.whole
        is_quantised = whole is not None and one.form is Form.QUANTISED
        told = describe(one.form, whole.quantisation if whole and is_quantised else None)
        promotion = f", promotion {subject.promotion}" if subject.promotion is not None else ""
        lines.append(
            plain(
                f"{subject.name}: {told}{promotion}, candidate {subject.candidate_id} of study "
                f"{subject.study.name}, artifact {subject.artifact[:SHORT]} (digests checked)"
            )
        )
    return lines


def _document(command: Command, python: str | None, served: Sequence[Chosen]) -> dict[str, Json]:
    return {
        "models": [
            {
                "name": one.subject.name,
                "own_name": one.subject.own_name,
                "form": str(one.form),
                "quantisation": None if one.files.whole is None else one.files.whole.quantisation,
                "candidate": one.subject.candidate_id,
                "study": one.subject.study.id,
                "promotion": one.subject.promotion,
                "artifact": one.subject.artifact,
            }
            for one in served
        ],
        "names": list(command.names),
        "url": command.url,
        "argv": list(command.argv(python)),
        "environment": dict(command.environment),
        "configuration": {"model": str(command.model), **command.options},
    }
