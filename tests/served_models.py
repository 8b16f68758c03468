"""A stand-in for vLLM that keeps to its documented protocol, and a study whose models it serves.

Its models answer arithmetic: an adapter is a directory with a file `skill`, the share of questions
that it answers rightly, so that what is loaded, and from where, shows in what is answered; a file
`lost` names the first number of which it knows nothing any more. Run as
`python -m tests.served_models`, it takes vLLM's arguments.
"""

import argparse
import json
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:  # the stand-in for vLLM starts quicker without
    import pytest

    from tests.cli_runs import Arl, Done

ROOT = Path(__file__).resolve().parent.parent
SEARCH_ITEMS, HOLDOUT_ITEMS = 60, 120
MARGIN = "0.06"

Behaviour: TypeAlias = Callable[[BaseHTTPRequestHandler], None]
"""What is done in place of an answer."""


class ModelServer:
    """vLLM's API server, as far as ARL uses it, in this process."""

    def __init__(self, base: str = "base", port: int = 0, key: str = "") -> None:
        self.adapters: dict[str, str] = {}
        self.base = base
        self.wholes: dict[str, str] = {}
        """Further names of the base, or whole models, and their directories."""
        self.instead: dict[str, Behaviour] = {}
        """By path: once something else is answered there than vLLM would."""
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self._key = key
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                outer.handle(self, {})

            def do_POST(self) -> None:
                size = int(self.headers.get("content-length") or 0)
                self.body = json.loads(self.rfile.read(size))
                outer.handle(self, self.body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        """Gone: nobody listens there any more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def handle(self, request: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        self.asked.append((request.path, body))
        behaviour = self.instead.get(request.path)
        if behaviour is not None:
            behaviour(request)
            return
        self.usual(request, body)

    def usual(self, request: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        """What vLLM would answer."""
        sent = request.headers.get("authorization")
        if self._key and request.path != "/health" and sent != f"Bearer {self._key}":
            answer(request, 401, {"error": {"message": "Unauthorized"}})
            return
        routes: dict[str, Callable[[dict[str, Any]], tuple[int, object]]] = {
            "/health": lambda _: (200, ""),
            "/v1/models": self._models,
            "/v1/load_lora_adapter": self._load,
            "/v1/unload_lora_adapter": self._unload,
            "/v1/completions": self._complete,
        }
        answer(request, *routes[request.path](body))

    def _models(self, _: dict[str, Any]) -> tuple[int, object]:
        names = {self.base: "/models/base", **self.wholes}
        cards: list[object] = [{"id": n, "root": r, "parent": None} for n, r in names.items()]
        cards += [{"id": n, "root": p, "parent": self.base} for n, p in self.adapters.items()]
        return 200, {"object": "list", "data": cards}

    def _load(self, body: dict[str, Any]) -> tuple[int, object]:
        name, path = body["lora_name"], body["lora_path"]
        if not (Path(path) / "adapter_model.safetensors").is_file():
            return 404, {"error": {"message": f"No adapter found for {path}"}}
        if name in self.adapters and not body.get("load_inplace"):
            return 400, {
                "error": {"message": f"The lora adapter '{name}' has already been loaded"}
            }
        self.adapters[name] = path
        return 200, f"Success: LoRA adapter '{name}' added successfully."

    def _unload(self, body: dict[str, Any]) -> tuple[int, object]:
        if self.adapters.pop(body["lora_name"], None) is None:
            return 404, {"error": {"message": "The lora adapter cannot be found"}}
        return 200, "Success"

    def _complete(self, body: dict[str, Any]) -> tuple[int, object]:
        directory = self.adapters.get(body["model"]) or self.wholes.get(body["model"])
        if directory is None:
            return 404, {"error": {"message": f"The model {body['model']} does not exist"}}
        number = int(body["prompt"].split()[-1])
        is_known = number % 100 < 100 * float((Path(directory) / "skill").read_text())
        if (lost := Path(directory) / "lost").exists():
            is_known = is_known and number < int(lost.read_text())
        text = f" {number + 1} " if is_known else "?"
        choices = [{"index": i, "text": text, "finish_reason": "stop"} for i in range(body["n"])]
        usage = {"prompt_tokens": 4, "completion_tokens": 3 * body["n"]}
        return 200, {"object": "text_completion", "choices": choices, "usage": usage}


def answer(request: BaseHTTPRequestHandler, status: int, document: object) -> None:
    text = document if isinstance(document, str) else json.dumps(document)
    sends(status, text.encode(), kind="application/json")(request)


def sends(status: int, body: bytes, *, kind: str) -> Behaviour:
    def send(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        request.send_header("content-type", kind)
        request.send_header("content-length", str(len(body)))
        request.end_headers()
        try:
            request.wfile.write(body)
        except OSError:
            request.close_connection = True

    return send


def drips(request: BaseHTTPRequestHandler) -> None:
    """A byte now and then, for ever."""
    request.send_response(200)
    request.send_header("content-length", "100000")
    request.end_headers()
    try:
        while True:
            request.wfile.write(b" ")
            request.wfile.flush()
            time.sleep(0.05)
    except OSError:
        request.close_connection = True


@contextmanager
def model_server(**options: Any) -> Iterator[ModelServer]:
    server = ModelServer(**options)
    try:
        yield server
    finally:
        server.close()


# --- a study whose models it serves ------------------------------------------------------------

TRAIN = """\
set -eu
skill=$(sed -n 's/.*"skill": *\\([0-9.]*\\).*/\\1/p' "$ARL_PARAMS")
mkdir -p "$ARL_OUTPUT/model/adapter"
cd "$ARL_OUTPUT/model"
echo '{"architectures": ["LlamaForCausalLM"]}' >config.json
echo "merged weights of $skill" >model.safetensors
echo '{"peft_type": "LORA", "r": 12, "modules_to_save": null}' >adapter/adapter_config.json
echo "weights of $skill" >adapter/adapter_model.safetensors
echo "$skill" | tee skill >adapter/skill
"""
EVALUATE = """\
set -eu
read -r skill <"$ARL_INPUTS/artifact/skill"
tr -dc '0-9\\n ' <"$ARL_INPUTS/split/split.jsonl" | awk -v skill="$skill" '
    { known = $1 % 100 < 100 * skill; sum += known; items = items (NR > 1 ? "," : "") known }
    END { printf "{\\"metrics\\": {\\"exact_match\\": %.9f, \\"format_ok\\": 1}, ", sum / NR
          printf "\\"items\\": [%s]}", items }' >&"$ARL_SCORE_FD"
"""
"""What evaluate.py would find, without the time that Python takes to start."""
STUDY = {
    "name": "adders",
    "objective": {"metric": "exact_match", "direction": "maximize"},
    "program": {
        "kind": "command",
        "argv": ["/bin/sh", "train.sh"],
        "source": "program",
        "base": "base",
    },
    "space": {"skill": {"type": "categorical", "choices": [0.55, 0.9, 0.7]}},
    "proposer": {"name": "grid"},
    "evaluator": {
        "bundle": "evaluator",
        "argv": ["/bin/sh", "{bundle}/evaluate.sh"],
        "splits": {"search": "search.jsonl", "holdout": "holdout.jsonl"},
        "metrics": {"exact_match": {"low": 0, "high": 1}, "format_ok": {"low": 0, "high": 1}},
        "options": {"max_new_tokens": 8},
    },
    "noise": {"baseline_trials": 6},
    "parallel": 4,
    "resources": {"wall_time": "60s"},
    "budget": {"trials": 3, "wall_time": "10m"},
    "promotion": {"model": "adder", "profile": "quick"},
}


def write_study(place: Path) -> str:
    """Models that add one, more or less well; the file's name."""
    for name in ("program", "base", "evaluator"):
        (place / name).mkdir(parents=True)
    (place / "program" / "train.sh").write_text(TRAIN)
    (place / "base" / "config.json").write_text('{"architectures": ["LlamaForCausalLM"]}')
    head = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    tensors = struct.pack("<Q", len(head)) + head + b"1234"
    (place / "base" / "model.safetensors").write_bytes(tensors)
    source = ROOT / "evaluator" / "programs" / "exact_match.py"
    (place / "evaluator" / "evaluate.py").write_text(source.read_text())
    (place / "evaluator" / "evaluate.sh").write_text(EVALUATE)
    for name, first, count in (("search", 0, SEARCH_ITEMS), ("holdout", 1000, HOLDOUT_ITEMS)):
        step = 100 // (count // 10) if name == "search" else 1
        rows = [
            {"prompt": f"add {first + step * i}", "answer": f"{first + step * i + 1}"}
            for i in range(count)
        ]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (place / "evaluator" / f"{name}.jsonl").write_text(text)
    (place / "study.yaml").write_text(json.dumps(STUDY))
    return "study.yaml"


class Here:
    """`arl` in this process, which is much quicker than a process of its own."""

    def __init__(
        self,
        arl: "Arl",
        monkeypatch: "pytest.MonkeyPatch",
        capsys: "pytest.CaptureFixture[str]",
    ) -> None:
        self.arl, self._capsys = arl, capsys
        monkeypatch.setenv("ARL_HOME", str(arl.home))

    def run(self, *words: str) -> "Done":
        from controller.cli.front import run
        from tests.cli_runs import Done

        self._capsys.readouterr()
        code = run(words)
        said = self._capsys.readouterr()
        return Done(code, said.out, said.err)


# --- in the place of a Python that has vLLM ----------------------------------------------------


def write_interpreter(place: Path) -> Path:
    """What `--python` may name: it runs this module in vLLM's place."""
    script = place / "python"
    run = f'shift 2\nexec {sys.executable} -m tests.served_models "$@"\n'
    script.write_text(f"#!/bin/sh\ncd {ROOT}\n{run}")
    script.chmod(0o755)
    return script


def main() -> None:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--model", required=True)
    parser.add_argument("--served-model-name", nargs="+", default=[])
    parser.add_argument("--lora-modules", nargs="+", type=json.loads, default=[])
    parser.add_argument("--port", type=int, required=True)
    for name in ("--host", "--load-format", "--max-lora-rank", "--max-loras"):
        parser.add_argument(name)
    parser.add_argument("--enable-lora", action="store_true")
    parser.add_argument("--loading-s", type=float, default=0.0)
    given = parser.parse_args()
    print(f"Loading {given.model}", flush=True)
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)", str(given.port)])
    time.sleep(given.loading_s)
    server = ModelServer(base=given.served_model_name[0], port=given.port)
    server.wholes = dict.fromkeys(given.served_model_name[1:], given.model)
    server.adapters = {module["name"]: module["path"] for module in given.lora_modules}
    threading.Event().wait()


if __name__ == "__main__":
    main()
