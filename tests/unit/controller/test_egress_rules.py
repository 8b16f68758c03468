"""What a study file may list under target.egress, and what it is told otherwise."""

import pytest

from controller.spec.errors import StudyRefused
from controller.spec.loading import parse_study
from tests.unit.controller.study_documents import COMMAND, changed

HINT = "write a host like example.org, example.org:8443, mirror:80 or *.example.org"


def problems(**target: object) -> list[str]:
    return problems_of(changed(COMMAND, target=target))


def problems_of(document: dict[str, object]) -> list[str]:
    with pytest.raises(StudyRefused) as refused:
        parse_study(document)
    return [str(problem) for problem in refused.value.problems]


@pytest.mark.parametrize(
    ("host", "told"),
    [
        ("https://example.org/", f"a host is no URL: only its name and port are checked; {HINT}"),
        ("example.org:https", f"it is no host with an optional port; {HINT}"),
        ("example.org:0", f"a port is from 1 to 65535; {HINT}"),
        ("*", f"it is no host name; {HINT}"),
        ("*.org", "it stands for a whole top-level domain; name the domain below it"),
        ("a b", f"it is no host name; {HINT}"),
        ("127.1", f"it is no host name; {HINT}"),
        ("münchen.example", "a host has ASCII letters only; write it as xn--mnchen-3ya.example"),
    ],
)
def test_what_is_no_host_is_refused_with_what_to_write(host: str, told: str) -> None:
    (problem,) = problems(name="bubblewrap", egress=["example.org", host])
    assert problem == f'target.egress[1]: "{host}": {told}'


def test_a_list_of_hosts_is_refused_where_nothing_keeps_a_program_to_it() -> None:
    assert problems(name="local", egress=["example.org"]) == [
        'target.egress: ["example.org"]: target local keeps no program from any host; '
        "write target.name: docker or bubblewrap, or remove it"
    ]
    ray = {"name": "ray", "address": "auto", "storage": "file:///mnt/x", "sandbox": "local"}
    assert problems(**ray, egress=["example.org"]) == [
        'target.sandbox: "local": no sandbox keeps a program from any host; '
        "write docker or bubblewrap, or remove target.egress"
    ]
    document = changed(
        COMMAND, target={"name": "docker", "egress": ["example.org"]}, evaluator__target="local"
    )
    assert problems_of(document) == [
        'evaluator.target: "local": preparing runs there too, and is not kept to target.egress; '
        "write docker or bubblewrap, or remove target.egress"
    ]


@pytest.mark.parametrize("name", ["docker", "bubblewrap", "auto"])
def test_hosts_with_and_without_ports_and_wildcards_are_taken(name: str) -> None:
    hosts = ["example.org", "example.org:8443", "mirror:80", "*.example.org", "203.0.113.9:443"]
    spec = parse_study(changed(COMMAND, target={"name": name, "egress": hosts}))
    assert list(spec.target.egress) == hosts
