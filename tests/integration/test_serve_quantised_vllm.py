"""Converted models served by a real vLLM on a CPU: what it takes, and what is refused before.

Slow, and only where vLLM is installed: `scripts/vllm_cpu.sh`.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger.states import ConversionState
from tests.acceptance.converted_study import ITEMS, conversions_of, submit_converted
from tests.acceptance.shell_study import drive, open_service
from tests.cli_runs import Arl
from tests.integration.test_conversion_programs import (
    COMPRESSOR,
    TORCHAO,
    needs_compressor,
    needs_torchao,
)
from tests.integration.test_serve_model_vllm import ENVIRONMENT, Started, started
from tests.target_runs import end_supervisor
from tests.vllm_server import NEEDS_VLLM, interpreter

pytestmark = [
    *NEEDS_VLLM,
    pytest.mark.train,
    pytest.mark.timeout(1800),
    needs_torchao,
    needs_compressor,
]
DIGITS = [str(number) for number in range(ITEMS)]
ON_A_CPU = ("--enforce-eager", "--max-model-len", "64")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A model that answers 12 to everything, promoted and converted."""
    base = tmp_path_factory.mktemp("converted")
    service = open_service(base)
    wanted = [{"quantize": "int8", "python": str(TORCHAO)}]
    wanted += [{"quantize": m, "python": str(COMPRESSOR)} for m in ("gptq", "awq")]
    study_id = submit_converted(service, base, wanted)
    drive(service, study_id)
    found = conversions_of(service, study_id)
    assert {c.state for c in found} == {ConversionState.SERVABLE}, [c.detail for c in found]
    service.close()
    yield base
    end_supervisor(base / ".arl" / "local")


@pytest.fixture(scope="module")
def with_torchao(place: Path) -> str:
    """vLLM's interpreter, which also finds the torchao of another environment."""
    packages = next(TORCHAO.parents[1].glob("lib/python*/site-packages"))
    script = place / "python-with-torchao"
    script.write_text(f'#!/bin/sh\nPYTHONPATH={packages} exec {interpreter()} "$@"\n')
    script.chmod(0o755)
    return str(script)


def subject(arl: Arl, method: str) -> str:
    """The trial that a conversion made its model in, as it is named on the command line."""
    shown = arl.ok("show", "converted", "--json").json()
    numbers = [t["number"] for t in shown["trials"] if t["kind"] == "conversion"]
    return f"converted/{sorted(numbers)[('int8', 'gptq', 'awq').index(method)]}"


def check_served(server: Started, form: str) -> None:
    (model,) = server.document["models"]
    assert (model["form"], model["quantisation"]) == ("quantised", form)
    assert server.ask("m", DIGITS) == ["12"] * ITEMS


@pytest.mark.parametrize("method", ["gptq", "awq"])
def test_packed_4_bit_weights_are_served_in_the_16_bits_that_vllm_chooses(
    place: Path, method: str
) -> None:
    arl = Arl(place)
    with started(arl, subject(arl, method), "--as", "m", options=ON_A_CPU) as server:
        assert "dtype" not in server.document["configuration"]
        check_served(server, "compressed-tensors")


def test_int8_is_served_as_the_dtype_that_it_was_stored_for(
    place: Path, with_torchao: str
) -> None:
    arl = Arl(place)
    word = subject(arl, "int8")
    with started(arl, word, "--as", "m", options=ON_A_CPU, python=with_torchao) as server:
        assert server.document["configuration"]["dtype"] == "float32"
        check_served(server, "torchao")


def test_what_vllm_would_die_of_is_refused_before_it_is_started(place: Path) -> None:
    arl = Arl(place)
    python = ("--start", "--python", str(interpreter()))
    lacking = arl.run("serve-model", subject(arl, "int8"), *python, **ENVIRONMENT)
    assert lacking.code == 2, lacking.err
    assert "this interpreter has no torchao" in lacking.err
    packed = arl.run("serve-model", subject(arl, "gptq"), *python, "--", "--dtype", "float32")
    assert packed.code == 2, packed.err
    assert "vLLM computes with packed 4-bit weights in 16 bits" in packed.err
