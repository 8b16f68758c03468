"""`arl serve-model`: the command line for stored models, and the server that it starts."""

import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from ledger import reads
from ledger.chain import SERVICE_CHAIN
from ledger.database import open_ledger
from ledger.service_entries import ServingSet
from tests.cli_runs import PATIENCE_S, Arl, Done, interrupt
from tests.served_models import Here, write_interpreter

GOOD, BEST = "adders/8", "adders/7"


@pytest.fixture
def here(adders: Arl, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    return Here(adders, monkeypatch, capsys)


@pytest.fixture
def copied(
    adders: Arl,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Here:
    """To be damaged."""
    shutil.copytree(adders.home / "artifacts", tmp_path / ".arl" / "artifacts")
    shutil.copyfile(adders.home / "ledger.db", tmp_path / ".arl" / "ledger.db")
    return Here(Arl(tmp_path), monkeypatch, capsys)


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def printed(here: Here, *words: str) -> Any:
    done = here.run("serve-model", "--json", *words)
    assert done.code == 0, done.err
    return done.json()


def option(document: Any, name: str) -> list[str]:
    """What follows an option in the command line."""
    argv = document["argv"]
    after = argv[argv.index(name) + 1 :]
    ends = [i for i, word in enumerate(after) if word.startswith("--")]
    return after[: ends[0]] if ends else after


def test_the_command_for_an_adapter_is_whole_and_the_same_in_every_form(here: Here) -> None:
    given = (BEST, "--form", "adapter", "--as", "adder", "--port", "8123")
    document = printed(here, *given, "--", "--dtype", "half")
    (model,) = document["models"]
    assert (model["name"], model["form"]) == ("adder", "adapter")
    assert model["own_name"] == f"adder@{model['artifact'][:12]}"
    assert document["argv"][:2] == ["vllm", "serve"]
    assert document["argv"][-2:] == ["--dtype", "half"]
    base = Path(document["argv"][2])
    assert (base / "config.json").is_file()
    modules = [json.loads(word) for word in option(document, "--lora-modules")]
    assert [module["name"] for module in modules] == ["adder", model["own_name"]]
    for module in modules:
        assert (Path(module["path"]) / "skill").read_text() == "0.9\n"
    assert option(document, "--max-lora-rank") == ["16"], "vLLM has buffers for no rank of 12"
    assert option(document, "--max-loras") == ["3"]
    assert document["environment"]["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] == "True"
    assert document["url"] == "http://127.0.0.1:8123"

    words = here.run("serve-model", *given).out
    shell = words.split("\n\n")[0].split("\n", 1)[1]
    environment, _, command = shell.replace("\\\n", "").partition("vllm serve")
    assert shlex.split(f"vllm serve{command}") == document["argv"][:-2]
    assert dict(part.split("=") for part in shlex.split(environment)) == document["environment"]
    file = "\n".join(line[4:] for line in words.splitlines() if line.startswith("#   "))
    assert yaml.safe_load(file) == document["configuration"]


def test_a_merged_model_is_served_as_it_is(here: Here) -> None:
    document = printed(here, "adder", "--", "--dtype=bfloat16")
    (model,) = document["models"]
    assert (model["form"], model["promotion"]) == ("full", 1)
    assert Path(document["argv"][2]).name == model["artifact"]
    assert option(document, "--served-model-name") == ["adder", model["own_name"]]
    assert option(document, "--load-format") == ["safetensors"]
    assert "--enable-lora" not in document["argv"]
    assert "VLLM_ALLOW_RUNTIME_LORA_UPDATING" not in document["environment"]
    assert document["argv"][-1] == "--dtype=bfloat16"
    module = printed(here, "adder:1", "--python", "/opt/vllm/bin/python")["argv"]
    assert module[:3] == ["/opt/vllm/bin/python", "-m", "vllm.entrypoints.openai.api_server"]
    assert module[3:5] == ["--model", document["argv"][2]]


def test_several_adapters_of_one_base_are_one_server(here: Here) -> None:
    document = printed(here, GOOD, BEST)
    names = [json.loads(word)["name"] for word in option(document, "--lora-modules")]
    assert names == [model["own_name"] for model in document["models"]]
    assert all(name.startswith("adder@") for name in names), "one name of two would be of neither"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "Missing argument"),
        (("--", "--dtype", "half"), "what to serve"),
        ((BEST, "--start"), "--python"),
        ((BEST, "--start", "--python", "/no/such"), "/no/such"),
        (("nobody", "--start", "--python", "/no/such"), "--python /no/such"),
        ((BEST, "--restore"), "--into"),
        ((BEST, "--form", "quantised"), "--form quantised"),
        ((BEST, "--", "--port", "1"), "--port"),
        ((BEST, "--", "--lora_modules=x"), "--lora-modules"),
        ((BEST, GOOD, "--as", "x"), "--as"),
        (("adders/99",), "99"),
        (("nobody",), "nobody"),
    ],
)
def test_a_command_that_cannot_be_is_refused(
    here: Here, words: tuple[str, ...], said: str
) -> None:
    done = here.run("serve-model", *words)
    assert done.code in (2, 3)
    assert said in done.err
    assert done.out == ""


def damaged(path: Path) -> None:
    """Other bytes of the same size and time, which only their digest tells."""
    status = path.stat()
    path.chmod(0o644)
    path.write_bytes(b"#" * status.st_size)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def test_a_stored_model_that_changed_is_refused_by_name(copied: Here) -> None:
    given = (BEST, "--form", "adapter", "--as", "adder")
    document = printed(copied, *given)
    tree = document["models"][0]["artifact"]
    adapter = Path(json.loads(option(document, "--lora-modules")[0])["path"])
    damaged(adapter / "adapter_model.safetensors")
    done = copied.run("serve-model", *given)
    assert (done.code, done.out) == (1, "")
    assert f"artifact {tree[:12]} of adder is not what was stored" in done.err
    assert "adapter_model.safetensors" in done.err


def test_a_base_that_changed_is_refused_by_name(copied: Here) -> None:
    document = printed(copied, BEST, "--form", "adapter")
    damaged(Path(document["argv"][2]) / "config.json")
    done = copied.run("serve-model", BEST, "--form", "adapter")
    assert done.code == 1
    assert "base " in done.err.splitlines()[-1]


def test_a_stored_model_that_is_gone_is_refused_by_name(copied: Here) -> None:
    tree = printed(copied, BEST)["models"][0]["artifact"]
    (copied.arl.home / "artifacts" / "objects" / tree[:2] / tree[2:]).unlink()
    done = copied.run("serve-model", BEST)
    assert done.code == 3
    assert tree in done.err


class Run:
    """`arl serve-model --start`, with a stand-in for vLLM."""

    def __init__(self, arl: Arl, place: Path, *more: str) -> None:
        self.port = free_port()
        python = ("--start", "--python", str(write_interpreter(place)), "--port", self.port)
        self.process = arl.start("serve-model", BEST, "--as", "adder", *python, *more)

    def line(self) -> str:
        """The one that says that it serves."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.communicate()
        return line

    def running(self) -> list[int]:
        """Processes of this server: each has its port among its arguments."""
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = path.read_bytes().split(b"\0")
            except OSError:
                continue
            if self.port.encode() in words and int(path.parent.name) != self.process.pid:
                found.append(int(path.parent.name))
        return found

    def wait_until_gone(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while self.running():
            assert time.monotonic() < deadline, self.running()
            time.sleep(0.02)


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGTERM,
        signal.SIGKILL,
        pytest.param(signal.SIGINT, marks=pytest.mark.slow),
    ],
)
def test_a_started_server_ends_with_the_command_and_all_that_it_started(
    here: Here, tmp_path: Path, number: int
) -> None:
    expected = printed(here, BEST, "--as", "adder")
    before = recorded(here.arl)
    run = Run(here.arl, tmp_path)
    names = ", ".join(expected["names"])
    assert run.line() == f"serving {names} at http://127.0.0.1:{run.port}/v1 (Ctrl-C ends it)\n"
    assert len(run.running()) >= 2
    done = interrupt(run.process, number)
    assert done.code == (-number if number == signal.SIGKILL else 0), done.err
    run.wait_until_gone()
    assert recorded(here.arl) == before, "starting a server is no gate"


def recorded(arl: Arl) -> list[str]:
    """Which names serve something."""
    ledger = open_ledger(arl.home / "ledger.db", create=False)
    try:
        with ledger.read() as session:
            entries = reads.list_entries(session, SERVICE_CHAIN)
            return sorted({str(e.payload["name"]) for e in entries if e.kind == ServingSet.kind})
    finally:
        ledger.close()


def test_ending_it_while_it_loads_ends_the_server(here: Here, tmp_path: Path) -> None:
    run = Run(here.arl, tmp_path, "--", "--loading-s", "100")
    deadline = time.monotonic() + PATIENCE_S
    while len(run.running()) < 3:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert interrupt(run.process).code == 0
    run.wait_until_gone()


def ended(process: "subprocess.Popen[str]") -> Done:
    out, err = process.communicate(timeout=PATIENCE_S)
    return Done(process.returncode, out, err)


@pytest.mark.slow
def test_a_server_that_dies_is_told_with_its_last_words(here: Here, tmp_path: Path) -> None:
    run = Run(here.arl, tmp_path, "--json")
    while run.line() != "}\n":
        pass
    os.kill(next(pid for pid in run.running() if is_server(pid)), signal.SIGKILL)
    done = ended(run.process)
    assert done.code == 5
    assert "SIGKILL" in done.err
    run.wait_until_gone()


def is_server(pid: int) -> bool:
    words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return b"tests.served_models" in words and b"-I" not in words


def start_words(place: Path, port: str) -> list[str]:
    python = str(write_interpreter(place))
    return ["serve-model", BEST, "--start", "--python", python, "--port", port]


def test_a_server_that_does_not_start_is_told_with_its_last_words(
    here: Here, tmp_path: Path
) -> None:
    done = here.run(*start_words(tmp_path, free_port()), "--", "--no-such-option")
    assert (done.code, done.out) == (5, "")
    assert "unrecognized arguments: --no-such-option" in done.err


@pytest.mark.slow
def test_a_server_that_is_never_well_is_given_up(here: Here, tmp_path: Path) -> None:
    slow = Run(here.arl, tmp_path, "--patience", "1", "--", "--loading-s", "100")
    done = ended(slow.process)
    assert done.code == 5
    assert "--patience" in done.err
    slow.wait_until_gone()


def test_a_port_that_is_taken_is_refused_before_anything_starts(
    here: Here, tmp_path: Path
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = here.run(*start_words(tmp_path, port))
    assert done.code == 4
    assert port in done.err
