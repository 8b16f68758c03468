"""What has to be installed to run a study elsewhere: exact versions, as pip reads them."""

import subprocess
from collections.abc import Sequence
from typing import Final, TypeAlias

from controller.cli.text import plain
from controller.spec.study import StudySpec
from controller.steps.attempt_specs import program_of
from evaluator.program_files import program_files, program_names
from ledger.digests import sha256_hex

Manifest: TypeAlias = Sequence[tuple[str, int, int, str]]
LIBRARIES: Final = (
    *("accelerate", "bitsandbytes", "datasets", "deepspeed", "jsonschema", "lm_eval", "numpy"),
    *("peft", "pyarrow", "referencing", "regex", "safetensors", "tokenizers", "torch"),
    *("transformers", "trl"),
)
"""What the built-in programs and evaluators import, where an interpreter has it."""
_LIST: Final = """
import importlib.metadata as m, re, sys
def short(name):
    return re.sub(r"[-_.]+", "-", name).lower()
here = {short(d.name): d for d in m.distributions()}
waiting, found = [short(name) for name in sys.argv[1:]] or list(here), set()
while waiting:
    name = waiting.pop()
    if name in here and name not in found:
        found.add(name)
        for need in here[name].requires or ():
            if "extra ==" not in need.partition(";")[2]:
                waiting.append(short(re.match(r"[\\w.-]+", need).group()))
print("%d.%d" % sys.version_info[:2])
print("\\n".join(sorted(f"{here[name].name}=={here[name].version}" for name in found)))
"""
"""What an interpreter has of some packages and all that those need; of all, if none is named."""
_OWN: Final = "arl=="
_PATIENCE_S: Final = 60.0
_TORCH_INDEX: Final = "https://download.pytorch.org/whl/"


def requirements(spec: StudySpec, evaluator: Manifest) -> str:
    """The text of a requirements file. Of a study of built-in programs alone it names what those
    use, else all that the program's interpreter has; never ARL itself.

    Args:
        evaluator: the files of the frozen evaluator; of a built-in one they are ours.
    """
    if spec.target.image is not None:
        return f"# the programs ran in the image {spec.target.image}: repeat them in it\n"
    is_ours = spec.program.kind != "command" and _is_built_in(evaluator)
    try:
        version, *lines = _ask(program_of(spec).python, LIBRARIES if is_ours else ())
    except (OSError, subprocess.SubprocessError) as error:
        return f"# the interpreter's packages could not be listed: {plain(str(error))}\n"
    packages = [line for line in lines if not line.startswith(_OWN)]
    return "\n".join([f"# Python {version}", *_builds(packages), *packages]) + "\n"


def _is_built_in(evaluator: Manifest) -> bool:
    ours = {sha256_hex(text) for name in program_names() for text in program_files(name).values()}
    code = {digest for path, _, _, digest in evaluator if path.endswith(".py")}
    return bool(code) and code <= ours


def _ask(python: str, names: Sequence[str]) -> list[str]:
    done = subprocess.run(
        [python, "-I", "-c", _LIST, *names],
        capture_output=True,
        text=True,
        timeout=_PATIENCE_S,
        check=True,
    )
    return done.stdout.splitlines()


def _builds(packages: Sequence[str]) -> list[str]:
    """Where to find a PyTorch of a certain build, which PyPI does not have."""
    torch = next((line for line in packages if line.startswith("torch==")), "")
    _, plus, build = torch.partition("+")
    if not plus:
        return []
    return [
        f"# {torch} is not on PyPI, but here:",
        f"#   pip install --extra-index-url {_TORCH_INDEX}{build} -r requirements.txt",
    ]
