"""Writes constraints/trial.txt and evaluator.txt: of constraints/cpu.txt what the images hold."""

import argparse
import re
import sys
import tomllib
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
PINS = ROOT / "constraints" / "cpu.txt"
EVALUATOR = ("safetensors", "torch", "transformers")
"""What the evaluators in evaluator/programs import."""
HEADER = """\
# What {image} installs, as {dockerfile} is built by default: a part of constraints/cpu.txt,
# made by scripts/image_requirements.py. A PyTorch for GPUs brings further packages, which it pins.
"""


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def read_pins() -> dict[str, str]:
    lines = PINS.read_text(encoding="utf-8").splitlines()
    return {canonical(line.partition("==")[0]): line for line in lines if "==" in line}


def closure(roots: Iterable[str]) -> set[str]:
    """The distributions that `roots` need, as what is installed here says."""
    found: set[str] = set()
    waiting = [Requirement(root) for root in roots]
    while waiting:
        wanted = waiting.pop()
        name = canonical(wanted.name)
        if name in found and not wanted.extras:
            continue
        found.add(name)
        for text in metadata.requires(name) or ():
            needed = Requirement(text)
            extras = wanted.extras or {""}
            if needed.marker is None or any(needed.marker.evaluate({"extra": e}) for e in extras):
                waiting.append(needed)
    return found


def page(image: str, dockerfile: str, roots: Iterable[str], pins: dict[str, str]) -> str:
    lines = [pins[name] for name in sorted(closure(roots)) if name in pins]
    return HEADER.format(image=image, dockerfile=dockerfile) + "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only say whether they are current")
    check = parser.parse_args().check
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pins = read_pins()
    pages = {
        "trial.txt": page(
            "the trial image",
            "inner_trials/Dockerfile",
            project["optional-dependencies"]["train"],
            pins,
        ),
        "evaluator.txt": page("the evaluator image", "evaluator/Dockerfile", EVALUATOR, pins),
    }
    stale = []
    for name, text in pages.items():
        path = PINS.with_name(name)
        if check and (not path.exists() or path.read_text(encoding="utf-8") != text):
            stale.append(name)
        elif not check:
            path.write_text(text, encoding="utf-8")
    if stale:
        print(f"constraints/{', '.join(stale)}: run python scripts/image_requirements.py")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
