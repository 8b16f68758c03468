"""The rules of the `program` and `evaluator` sections."""

import re
from collections.abc import Callable, Collection, Iterator
from pathlib import PurePosixPath
from typing import Final, TypeAlias

from controller.spec.errors import Problem, path, shown
from controller.spec.plan_section import plan_problems
from controller.spec.study import StudySpec

Rule: TypeAlias = Callable[[StudySpec], Iterator[Problem]]

RESERVED_INPUTS: Final = frozenset(
    {"artifact", "base", "bundle", "code", "python", "resume", "source", "split"}
)
"""Mount names that ARL gives out itself."""

EVALUATOR_INPUTS: Final = frozenset({"python", "artifact", "bundle", "split"})
ANSWERER_INPUTS: Final = frozenset({"python", "artifact", "source"})

_INPUT_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,99}")
_PLACEHOLDER: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_-]*)\}")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _program_kind(spec: StudySpec) -> Iterator[Problem]:
    program = spec.program
    if program.kind == "command":
        if program.argv is None:
            yield Problem("program.argv", "kind command executes it", "write [program, argument]")
        return
    if program.argv is not None:
        yield Problem(
            "program.argv",
            f"kind {program.kind} runs ARL's own program",
            "remove it, or write kind: command",
            shown(program.argv),
        )
    if program.source is not None:
        yield Problem(
            "program.source",
            f"kind {program.kind} runs ARL's own program",
            "remove it, or write kind: command",
            shown(program.source),
        )
    if program.base is None:
        yield Problem("program.base", f"kind {program.kind} trains a model", "name its directory")
    if "train" not in program.data:
        yield Problem("program.data.train", f"kind {program.kind} trains on it", "name its file")


def _inputs(spec: StudySpec) -> Iterator[Problem]:
    for name in spec.program.data:
        if name in RESERVED_INPUTS or not _INPUT_NAME.fullmatch(name):
            yield Problem(
                path("program", "data", name),
                "an input's name has letters, digits, _ and - only, and is none of "
                f"{', '.join(sorted(RESERVED_INPUTS))}",
                "write another name",
                shown(name),
            )
    for name in spec.program.environment:
        if name.startswith("ARL_") or not _VARIABLE.fullmatch(name):
            yield Problem(
                path("program", "environment", name),
                "a variable's name has letters, digits and _ only, and ARL_ is ARL's own",
                "write another name",
                shown(name),
            )


def _placeholders(spec: StudySpec) -> Iterator[Problem]:
    program, evaluator = spec.program, spec.evaluator
    own = {"python", *program.data}
    own |= {"base"} if program.base is not None else set()
    own |= {"source"} if program.source is not None else set()
    yield from _unknown_inputs("program.argv", program.argv, own)
    yield from _unknown_inputs("evaluator.argv", evaluator.argv, EVALUATOR_INPUTS)
    yield from _unknown_inputs("evaluator.answer_argv", evaluator.answer_argv, ANSWERER_INPUTS)


def _unknown_inputs(
    field: str, argv: tuple[str, ...] | None, known: Collection[str]
) -> Iterator[Problem]:
    for index, argument in enumerate(argv or ()):
        if any(character.isspace() for character in argument):
            continue  # a script: its braces are its own
        for name in _PLACEHOLDER.findall(argument):
            if name not in known:
                yield Problem(
                    f"{field}[{index}]",
                    f"{{{name}}} is no input",
                    f"write one of {', '.join(f'{{{k}}}' for k in sorted(known))}",
                    shown(argument),
                )


def _mutable(spec: StudySpec) -> Iterator[Problem]:
    program = spec.program
    if not program.mutable:
        return
    if program.source is None:
        yield Problem(
            "program.mutable", "these are files below program.source", "add program.source"
        )
    for index, name in enumerate(program.mutable):
        parts = PurePosixPath(name).parts
        plain = str(PurePosixPath(name)) == name and not name.startswith("/")
        if not (plain and parts) or ".." in parts or name in program.mutable[:index]:
            yield Problem(
                f"program.mutable[{index}]",
                "a mutable file is a plain path below program.source, named once",
                "write one like train.py or lib/model.py",
                shown(name),
            )


def _mutable_mode(spec: StudySpec) -> Iterator[Problem]:
    if not spec.program.mutable or spec.evaluator.mode == "answers":
        return
    if spec.evaluator.mode == "reported":
        yield Problem(
            "evaluator.mode",
            "a patch to program.mutable could report any score it likes",
            "write mode: answers, or mode: weights with program.mutable_reason",
            shown(spec.evaluator.mode),
        )
    elif spec.program.mutable_reason is None:
        yield Problem(
            "evaluator.mode",
            "a study whose mutable files define the model must use answers",
            "write mode: answers, or say in program.mutable_reason why they define none of it",
            shown(spec.evaluator.mode),
        )


def _evaluator_source(spec: StudySpec) -> Iterator[Problem]:
    evaluator = spec.evaluator
    if evaluator.mode == "reported":
        for name in ("bundle", "program", "argv", "splits"):
            if getattr(evaluator, name):
                yield Problem(
                    f"evaluator.{name}",
                    "mode reported runs no evaluator",
                    "remove it, or write mode: weights",
                    shown(getattr(evaluator, name)),
                )
        return
    if (evaluator.bundle is None) == (evaluator.program is None):
        both = evaluator.bundle is not None
        yield Problem(
            "evaluator",
            "bundle and program exclude each other" if both else "there is nothing that scores",
            "write only one of bundle (a directory) and program (a built-in evaluator)",
        )
    elif evaluator.program is not None and evaluator.argv is not None:
        yield Problem(
            "evaluator.argv", "a built-in program has its own", "remove it", shown(evaluator.argv)
        )


def _splits(spec: StudySpec) -> Iterator[Problem]:
    splits = spec.evaluator.splits
    if splits and "search" not in splits:
        yield Problem(
            "evaluator.splits.search", "trials are chosen on it", "name its file, beside holdout"
        )
    if len(set(splits.values())) < len(splits):
        yield Problem(
            "evaluator.splits.holdout",
            "search and holdout are the same data",
            "name data that no trial is chosen on",
            shown(splits["holdout"]),
        )
    if spec.evaluator.program is not None and not splits:
        yield Problem(
            "evaluator.splits", "the built-in evaluators score items", "add search: FILE.jsonl"
        )


def _answers(spec: StudySpec) -> Iterator[Problem]:
    if spec.evaluator.mode != "answers":
        if spec.evaluator.answer_argv is not None:
            yield Problem(
                "evaluator.answer_argv",
                f"mode {spec.evaluator.mode} asks for no answers",
                "remove it, or write mode: answers",
                shown(spec.evaluator.answer_argv),
            )
        return
    if spec.evaluator.answer_argv is None:
        yield Problem(
            "evaluator.answer_argv",
            "mode answers executes it to answer inputs",
            'write one like ["{python}", "answer.py"]',
        )
    if spec.program.source is None:
        yield Problem(
            "program.source",
            "mode answers runs the candidate's own code",
            "name its directory",
        )


PROGRAM_RULES: Final[tuple[tuple[tuple[str, ...], Rule], ...]] = (
    (("program",), _program_kind),
    (("program", "space", "resources"), plan_problems),
    (("program",), _inputs),
    (("program", "evaluator"), _placeholders),
    (("program",), _mutable),
    (("program", "evaluator"), _mutable_mode),
    (("evaluator",), _evaluator_source),
    (("evaluator",), _splits),
    (("program", "evaluator"), _answers),
)
