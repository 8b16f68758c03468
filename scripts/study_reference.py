"""Writes docs/study-file.md: every key of a study file, from the models that read it."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from controller.spec.loading import json_schema

PAGE = Path(__file__).resolve().parent.parent / "docs" / "study-file.md"

WORDS = {
    "array": "a list",
    "object": "a mapping",
    "string": "text",
    "boolean": "true or false",
}

INTRODUCTION = """\
# The study file

One YAML or JSON document describes a study. Unknown keys are refused, and everything wrong with a file is said at once. `arl plan FILE` checks one and
prices it; `arl schema` prints the JSON Schema, with which an editor completes it. This page is made from the same models by
`python scripts/study_reference.py`; a test keeps it current.

**What a program finds.** A trial's program gets its parameters, seed and paths in the JSON file named by `ARL_PARAMS`, its inputs read-only below
`ARL_INPUTS`, and leaves what it makes below `ARL_OUTPUT`: `model/` is scored, `resume/` is given back to the same trial if it has to start again. It
may append reports (`{"step": 1, "metric": "loss", "value": 0.5}`, a line each) to `ARL_REPORTS`, and should save and exit with 42 once the file named by `ARL_STOP`
appears. Python programs may use `inner_trials.reporting`.

**What an evaluator finds.** `{bundle}`, `{artifact}` and `{split}` in its argv (and below `ARL_INPUTS`), `split.jsonl` inside the split; it writes one JSON object,
`{"metrics": {"score": 0.5}, "items": [1, 0]}` (`items` is optional), to the descriptor numbered `ARL_SCORE_FD` (3). Exit code 43 says that the artifact itself cannot
be scored; any other failure is the evaluator's own and is tried again.
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail when the page is not current")
    if not parser.parse_args().check:
        PAGE.write_text(render(json_schema()), encoding="utf-8")
        return 0
    current = PAGE.read_text(encoding="utf-8") == render(json_schema())
    if not current:
        print("docs/study-file.md is not current: run python scripts/study_reference.py")
    return 0 if current else 1


def render(schema: dict[str, Any]) -> str:
    """The whole page."""
    definitions = schema["$defs"]
    sections = [INTRODUCTION, "## Top level\n\n" + table(schema, definitions)]
    for name, definition in sorted(section_names(schema).items()):
        body = definitions[definition]
        text = body.get("description", "")
        sections.append(f"## {name}\n\n{text}\n\n{table(body, definitions)}")
    return "\n".join(sections)


def section_names(schema: dict[str, Any]) -> dict[str, str]:
    """What each section is called in the file, to its definition."""
    found = {
        name: reference(value)
        for name, value in schema["properties"].items()
        if reference(value) is not None
    }
    return {k: v for k, v in found.items() if v} | {
        "space.NAME, type float": "FloatSpec",
        "space.NAME, type int": "IntSpec",
        "space.NAME, type categorical": "CategoricalSpec",
        "program.plan": "PlanSpec",
        "evaluator.metrics.NAME": "MetricSpec",
        "promotion.guard.NAME": "GuardSpec",
        "notify[]": "NotifySpec",
        "convert[]": "ConvertSpec",
    }


def reference(value: dict[str, Any]) -> str | None:
    """The definition a property points to, directly or as one of its alternatives."""
    for part in (value, *value.get("anyOf", ())):
        if "$ref" in part:
            return str(part["$ref"].rpartition("/")[2])
    return None


def table(body: dict[str, Any], definitions: dict[str, Any]) -> str:
    required = set(body.get("required", ()))
    lines = ["| key | takes | default | meaning |", "|---|---|---|---|"]
    for name, value in body["properties"].items():
        default = "**required**" if name in required else default_of(value)
        meaning = value.get("description", "").replace("\n", " ").replace("|", "\\|")
        lines.append(f"| `{name}` | {kind_of(value, definitions)} | {default} | {meaning} |")
    return "\n".join(lines) + "\n"


def default_of(value: dict[str, Any]) -> str:
    default = value.get("default")
    if default is None:
        return "none"
    return "see there" if isinstance(default, dict) and default else f"`{json.dumps(default)}`"


def kind_of(value: dict[str, Any], definitions: dict[str, Any]) -> str:
    """What may be written, in a few words."""
    if "anyOf" in value:
        kinds = [kind_of(part, definitions) for part in value["anyOf"]]
        return " or ".join(dict.fromkeys(k for k in kinds if k != "null"))
    target = reference(value)
    if target is not None:
        choices = definitions[target].get("enum")
        return choices_of(choices) if choices else "a section"
    if "const" in value or "enum" in value:
        return choices_of(value.get("enum") or [value["const"]])
    if "examples" in value:
        return f"text like `{value['examples'][0]}`"
    return WORDS.get(value.get("type", ""), str(value.get("type", "any value")))


def choices_of(choices: list[str]) -> str:
    return ", ".join(f"`{choice}`" for choice in choices)


if __name__ == "__main__":
    raise SystemExit(main())
