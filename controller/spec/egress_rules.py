"""The rules of `target.egress`: which hosts may be listed, and where a list is worth something."""

from collections.abc import Iterator

from controller.spec.errors import Problem, shown
from controller.spec.study import StudySpec
from targets.egress.names import BadEntry, parse_entry

_HOLDS: str = "docker or bubblewrap"


def listed_hosts(spec: StudySpec) -> Iterator[Problem]:
    for index, host in enumerate(spec.target.egress):
        try:
            parse_entry(host)
        except BadEntry as problem:
            yield Problem(f"target.egress[{index}]", problem.rule, problem.remedy, shown(host))


def held_to_the_list(spec: StudySpec) -> Iterator[Problem]:
    """Only a sandbox keeps a program from the hosts that are not listed: where the study trains,
    and where it is prepared, which is where evaluations run."""
    if not spec.target.egress:
        return
    if spec.target.name in ("local", "outside"):
        yield Problem(
            "target.egress",
            f"target {spec.target.name} keeps no program from any host",
            f"write target.name: {_HOLDS}, or remove it",
            shown(list(spec.target.egress)),
        )
    elif spec.target.sandbox == "local":
        yield Problem(
            "target.sandbox",
            "no sandbox keeps a program from any host",
            f"write {_HOLDS}, or remove target.egress",
            shown(spec.target.sandbox),
        )
    elif spec.evaluator.target == "local":
        yield Problem(
            "evaluator.target",
            "preparing runs there too, and is not kept to target.egress",
            f"write {_HOLDS}, or remove target.egress",
            shown(spec.evaluator.target),
        )
