"""A job service that lies, and programs on an honest one that do: nothing here is written outside
the one directory, nothing grows without bound, and every lie has a typed error."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evaluator.collector import Collected, CollectLimits, Refused, collect
from ledger.artifacts import ArtifactStore
from ledger.errors import TargetUnavailable
from targets.http_job.outputs import MAX_ENTRIES
from targets.http_job.target import HttpTarget
from targets.outbound import AddressPolicy
from targets.protocol import ExitCause, Target
from tests.hostile_service import Answer, Heard, Said, hostile_service
from tests.http_runs import BRIEF, QUICK, SECRET, http_target, job_server
from tests.target_runs import attempt, end_supervisor, local_target, python, run

NAME = "arl-x-0.t-0"
OBSERVED = {"state": "running", "cursor": "1", "timeout_s": 1, "grace_s": 1}


@contextmanager
def lied_to(tmp_path: Path, answer: Answer, **more: Any) -> Iterator[HttpTarget]:
    with hostile_service(answer) as (url, _):
        target = http_target(tmp_path, url, **more)
        try:
            yield target
        finally:
            target.close()


def outputs_of(
    tmp_path: Path, listing: list[dict[str, Any]] | Answer, content: bytes = b""
) -> tuple[Path | None, str, list[Heard]]:
    """The directory that a listing led to, or the error; and what was asked on the way."""

    def answer(heard: Heard) -> Said:
        if heard.path.endswith("/content"):
            return Said(content[: int(heard.query["limit"])])
        return listing(heard) if callable(listing) else Said({"entries": listing})

    with hostile_service(answer) as (url, heard):
        target = http_target(tmp_path, url)
        try:
            return Path(target.outputs(NAME).root), "", heard
        except TargetUnavailable as error:
            return None, str(error), heard
        finally:
            target.close()


def everything_below(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*")}


PATHS = [
    *("../evil", "a/../../evil", "/etc/evil", "a//b", "a/./b", ".", "..", "", "a/", "/"),
    *("%2e%2e/evil", "a%2f..%2f..%2fevil", "a%00b", "%2Fetc%2Fevil", "x" * 300, "d/" * 200 + "f"),
]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("kind", ["file", "directory", "link", "other"])
def test_a_listed_path_that_leads_elsewhere_is_refused(
    tmp_path: Path, path: str, kind: str
) -> None:
    before = everything_below(tmp_path)
    found, error, _ = outputs_of(tmp_path, [{"path": path, "kind": kind, "size": 0}])
    assert found is None
    assert "breaks the protocol" in error
    made = everything_below(tmp_path) - before
    assert all(p.startswith(("http-root", "store")) for p in made), made
    assert not any("evil" in p for p in made)


@pytest.mark.parametrize(
    "listing",
    [
        [{"path": "a", "kind": "link"}, {"path": "a/b", "kind": "file", "size": 1}],
        [{"path": "a", "kind": "file", "size": 1}, {"path": "a/b", "kind": "file", "size": 1}],
        [{"path": "a", "kind": "other"}, {"path": "a/b", "kind": "directory"}],
        [{"path": "a/b", "kind": "file", "size": 1}, {"path": "a", "kind": "file", "size": 1}],
        [{"path": "a", "kind": "file", "size": 1}, {"path": "a", "kind": "file", "size": 1}],
        [{"path": "a", "kind": "link"}, {"path": "a/b/c", "kind": "link"}],
        [{"path": "%61", "kind": "file", "size": 1}, {"path": "a", "kind": "link"}],
    ],
)
def test_a_listing_that_contradicts_itself_is_refused(
    tmp_path: Path, listing: list[dict[str, Any]]
) -> None:
    found, error, _ = outputs_of(tmp_path, listing, b"x")
    assert found is None
    assert "breaks the protocol" in error


def test_what_is_no_file_becomes_a_stand_in_that_the_collector_refuses(tmp_path: Path) -> None:
    for number, (kind, word) in enumerate((("link", "a symbolic link"), ("other", "a fifo"))):
        base = tmp_path / str(number)
        base.mkdir()
        found, _, _ = outputs_of(base, [{"path": "model/x", "kind": kind, "size": 5}])
        assert found is not None
        refused = collect(str(found), ArtifactStore(base / "store"))
        assert isinstance(refused, Refused)
        assert word in refused.reason
    links = [p for p in (tmp_path / "0").rglob("*") if p.is_symlink()]
    assert [os.readlink(link) for link in links] == ["a-link-that-was-not-followed"]


@pytest.mark.parametrize("size", [2**53, 65 * 1024**3, 64 * 1024**3 + 1])
def test_a_size_beyond_the_limit_is_not_fetched_and_refused(tmp_path: Path, size: int) -> None:
    listing = [{"path": "model/w", "kind": "file", "size": size}]
    found, _, heard = outputs_of(tmp_path, listing)
    assert found is not None
    assert not any(h.path.endswith("/content") for h in heard)
    refused = collect(str(found), ArtifactStore(tmp_path / "store"))
    assert isinstance(refused, Refused)
    assert "takes the output past" in refused.rule
    assert sum(p.stat().st_blocks for p in found.rglob("*") if p.is_file()) == 0


def test_entries_without_end_are_not_listed_for_ever(tmp_path: Path) -> None:
    def answer(heard: Heard) -> Said:
        start = int(heard.query.get("after", "n0")[1:]) + 1
        entries = [{"path": f"n{start + i:012d}", "kind": "file", "size": 0} for i in range(2000)]
        return Said({"entries": entries, "after": entries[-1]["path"]})

    found, _, heard = outputs_of(tmp_path, answer)
    assert found is not None
    assert len(heard) <= MAX_ENTRIES / 2000 + 3
    refused = collect(str(found), ArtifactStore(tmp_path / "store"))
    assert isinstance(refused, Refused)
    assert "takes the output past 10000 files" in refused.rule


def test_a_listing_that_goes_round_in_circles_is_refused(tmp_path: Path) -> None:
    for page in ({"entries": [], "after": "x"}, {"entries": [], "after": ""}):
        found, error, heard = outputs_of(tmp_path, lambda _, page=page: Said(page))  # type: ignore[misc]
        assert found is None
        assert "does not come to an end" in error
        assert len(heard) < 5


def test_a_file_that_is_shorter_than_listed_is_refused(tmp_path: Path) -> None:
    found, error, _ = outputs_of(tmp_path, [{"path": "a", "kind": "file", "size": 9}], b"")
    assert found is None
    assert "ends before its 9 bytes" in error


def test_a_file_with_another_digest_is_refused_and_not_kept(tmp_path: Path) -> None:
    listing = [{"path": "model/w", "kind": "file", "size": 4, "digest": "0" * 64}]
    found, error, _ = outputs_of(tmp_path, listing, b"evil")
    assert found is None
    assert "does not have the digest" in error
    assert not any(p.read_bytes() for p in (tmp_path / "http-root").rglob("w"))


def test_more_bytes_than_were_asked_for_are_refused(tmp_path: Path) -> None:
    def answer(heard: Heard) -> Said:
        if heard.path.endswith("/content"):
            return Said(b"x" * 5000)
        return Said({"entries": [{"path": "a", "kind": "file", "size": 4}]})

    with lied_to(tmp_path, answer) as target:
        with pytest.raises(TargetUnavailable, match="5000 bytes, more than 4"):
            assert target.outputs(NAME).root


def test_an_endless_log_is_read_no_further_than_asked(tmp_path: Path) -> None:
    def answer(heard: Heard) -> Said:
        headers = {"arl-offset": heard.query["offset"], "arl-size": str(10**15)}
        return Said(b"y" * int(heard.query["limit"]), headers=headers)

    with lied_to(tmp_path, answer) as target:
        assert len(target.read_log(NAME, offset=0, limit=1 << 40).data) == 4 << 20
        assert target.read_log(NAME, offset=10**14, limit=10).data == b"y" * 10


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"arl-offset": "-1", "arl-size": "5"},
        {"arl-offset": "1e3", "arl-size": "5"},
        {"arl-offset": "0", "arl-size": "9" * 30},
        {"arl-offset": "0"},
    ],
)
def test_a_log_without_a_plain_place_is_refused(tmp_path: Path, headers: dict[str, str]) -> None:
    with lied_to(tmp_path, lambda _: Said(b"x", headers=headers)) as target:
        with pytest.raises(TargetUnavailable, match="breaks the protocol"):
            target.read_log(NAME, offset=0, limit=10)


def test_a_score_that_is_too_large_is_refused(tmp_path: Path) -> None:
    with lied_to(tmp_path, lambda _: Said(b"1" * (9 << 20)), patience=BRIEF) as target:
        with pytest.raises(TargetUnavailable):
            target.score(NAME)


BAD_OBSERVATIONS = [
    {},
    [],
    {**OBSERVED, "state": "done"},
    {**OBSERVED, "exit": {"cause": "because", "code": 0}},
    {**OBSERVED, "exit": {"cause": "exited", "code": "0"}},
    {**OBSERVED, "exit": {"cause": "exited", "code": 2**40}},
    {**OBSERVED, "exit": {"cause": "exited", "code": 0, "wall_s": -1}},
    {**OBSERVED, "exit": {"cause": "exited", "code": 0, "detail": "x" * 5000}},
    {**OBSERVED, "cursor": "c" * 1000},
    {**OBSERVED, "cursor": None},
    {**OBSERVED, "timeout_s": float("inf")},
    {**OBSERVED, "values": [{"step": -1, "metric": "m", "value": 1}]},
    {**OBSERVED, "values": [{"step": 0, "metric": "m", "value": "1"}]},
    {**OBSERVED, "values": [{"step": 0, "metric": "m" * 300, "value": 1}]},
    {**OBSERVED, "values": [{"step": 0, "metric": "m", "value": 1}] * 20_001},
    {**OBSERVED, "rejected": -5},
]


@pytest.mark.parametrize("document", BAD_OBSERVATIONS, ids=range(len(BAD_OBSERVATIONS)))
def test_an_observation_outside_the_protocol_is_refused(tmp_path: Path, document: Any) -> None:
    with lied_to(tmp_path, lambda _: Said(document)) as target:
        with pytest.raises(TargetUnavailable, match="breaks the protocol"):
            target.observe(NAME, cursor="")


def test_a_document_nested_without_end_is_refused(tmp_path: Path) -> None:
    deep = b'{"state":' * 100_000 + b"1" + b"}" * 100_000
    said = Said(deep, content_type="application/json")
    with lied_to(tmp_path, lambda _: said) as target:
        with pytest.raises(TargetUnavailable, match="breaks the protocol"):
            target.observe(NAME, cursor="")


@pytest.mark.parametrize(
    "said",
    [
        Said(OBSERVED, content_type="text/html"),
        Said(OBSERVED, status=204),
        Said(b"", status=302, headers={"location": "http://127.0.0.1:1/"}),
        Said({"code": "made_up", "status": 400}, status=400),
        Said({"code": 5}, status=404),
        Said(b"<html>", status=404),
    ],
    ids=["html", "204", "redirect", "unknown code", "bad problem", "no problem"],
)
def test_a_signed_answer_of_the_wrong_kind_is_refused(tmp_path: Path, said: Said) -> None:
    with lied_to(tmp_path, lambda _: said, patience=BRIEF) as target:
        with pytest.raises(TargetUnavailable):
            target.observe(NAME, cursor="")


def test_what_a_service_says_of_values_keeps_the_rules_for_programs(tmp_path: Path) -> None:
    values = [
        {"step": 1, "metric": "loss", "value": 0.5},
        {"step": 2, "metric": "loss", "value": "NaN"},
        {"step": 3, "metric": "evil\x1b", "value": 1.0},
        {"step": 4, "metric": "", "value": 1.0},
    ]
    document = {**OBSERVED, "values": values, "rejected": 2}
    ended = {"cause": "exited", "code": 1, "detail": "a\x1b[31mb\nc"}
    with lied_to(tmp_path, lambda _: Said({**document, "exit": ended})) as target:
        seen = target.observe(NAME, cursor="")
    assert [v.step for v in seen.values] == [1, 2]
    assert seen.rejected == 4
    assert seen.exit is not None
    assert seen.exit.detail.isprintable()


def test_an_attempt_that_its_service_never_ends_is_given_up(tmp_path: Path) -> None:
    patience = replace(QUICK, late_s=0.5)
    document = {**OBSERVED, "timeout_s": 0.2, "grace_s": 0.1}
    news = {"cursor": "s:1"}

    def answer(heard: Heard) -> Said:
        if heard.path == "/v1/news":
            time.sleep(0.2)
            return Said(news)
        return Said(document)

    with lied_to(tmp_path, answer, patience=patience) as target:
        assert target.observe(NAME, cursor="").exit is None
        time.sleep(1.0)
        assert target.wait({NAME}, 5.0) == {NAME}
        seen = target.observe(NAME, cursor="")
        assert seen.exit is not None
        assert (seen.exit.cause, "past its deadline" in seen.exit.detail) == (ExitCause.LOST, True)
        again = target.observe(NAME, cursor="").exit
        assert again is not None
        assert again.cause is ExitCause.LOST


def test_a_list_of_attempts_without_end_is_refused(tmp_path: Path) -> None:
    page = {"attempts": [{"name": "arl-a", "running": True}], "after": "arl-a"}
    with lied_to(tmp_path, lambda _: Said(page)) as target:
        with pytest.raises(TargetUnavailable, match="does not come to an end"):
            target.list_owned("ledger-1")


def test_a_name_in_a_list_that_is_no_name_is_refused(tmp_path: Path) -> None:
    page = {"attempts": [{"name": "../x", "running": True}], "after": None}
    with lied_to(tmp_path, lambda _: Said(page)) as target:
        with pytest.raises(TargetUnavailable, match="breaks the protocol"):
            target.list_owned("ledger-1")


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "",
        "http://169.254.169.254/",
        "http://10.0.0.1:80",
        "http://[fd00::1]",
    ],
)
def test_a_machine_somewhere_private_is_never_connected_to(tmp_path: Path, url: str) -> None:
    def answer(heard: Heard) -> Said:
        machine = {"name": "m", "owner": "o", "study": "x", "state": "ready", "url": url}
        return Said(machine if heard.method == "POST" else {"machines": [machine]})

    with hostile_service(answer) as (service, _):
        root = tmp_path / "http-root"
        root.mkdir()
        target = HttpTarget(
            root,
            ArtifactStore(tmp_path / "store"),
            url=service,
            secret=SECRET,
            machine={},
            policy=AddressPolicy(hosts=frozenset({"127.0.0.1"})),
            patience=QUICK,
        )
        try:
            with pytest.raises(TargetUnavailable, match=r"private, local|breaks the protocol"):
                target.launch(attempt("exit 0", name=NAME))
        finally:
            target.close()


def test_a_sandbox_is_believed_only_where_the_operator_says_so(tmp_path: Path) -> None:
    health = {"protocol": 1, "time": 1.0, "target": "x", "sandbox": True, "images": False}
    health.update(egress=False, machines=False, attempts=0)
    with hostile_service(lambda _: Said(health)) as (url, _):
        for trusts in (False, True):
            root = tmp_path / str(trusts)
            root.mkdir()
            target = HttpTarget(
                root,
                ArtifactStore(tmp_path / "store"),
                url=url,
                secret=SECRET,
                policy=AddressPolicy(allow_private=True),
                trusts_sandbox=trusts,
                patience=QUICK,
            )
            assert target.is_sandbox is trusts
            target.close()


# --- hostile programs on an honest service ---------------------------------------------------

PROGRAMS = {
    "honest": "os.makedirs('model/sub'); open('model/w', 'w').write('w' * 9_000_000);"
    "open('model/sub/café', 'w').write('x'); os.makedirs('model/empty')",
    "symlink": "os.mkdir('model'); os.symlink('/etc/passwd', 'model/w')",
    "symlink directory": "os.symlink('/etc', 'model')",
    "fifo": "os.mkdir('model'); os.mkfifo('model/w')",
    "hard link": "os.mkdir('model'); open('../x', 'w').write('x'); os.link('../x', 'model/w')",
    "not utf-8": "os.mkdir('model'); open(b'model/\\xff', 'w').write('x')",
    "newline": "os.mkdir('model'); open('model/a\\nb', 'w').write('x')",
    "percent": "os.mkdir('model'); open('model/%2e%2e%2fx', 'w').write('x')",
    "deep": "[(os.mkdir('model'), os.chdir('model')) for _ in range(40)]",
    "many": "os.mkdir('model'); [open(f'model/{i}', 'w').close() for i in range(10_100)]",
    "sparse": "os.mkdir('model'); open('model/w', 'w').truncate(70 * 1024**3)",
    "model is a file": "open('model', 'w').write('x')",
    "nothing": "pass",
    "beside": "os.mkdir('model'); open('model/w', 'w').write('x'); open('other', 'w').write('y')",
}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Target, Target]]:
    base = tmp_path_factory.mktemp("both")
    with job_server(base / "service") as server:
        remote, local = http_target(base, server.url), local_target(base)
        yield remote, local
        remote.close()
        local.close()
        end_supervisor(base / "attempts-root")


@pytest.mark.parametrize(
    "what",
    [pytest.param(w, marks=pytest.mark.slow) if w == "many" else w for w in PROGRAMS],
)
def test_what_a_program_left_is_collected_or_refused_as_it_is_locally(
    both: tuple[Target, Target], tmp_path: Path, what: str
) -> None:
    store = ArtifactStore(tmp_path / "store")
    verdicts: list[Collected | Refused] = []
    for target in both:
        code = f"import os; os.chdir(os.environ['ARL_OUTPUT']); {PROGRAMS[what]}"
        ended = run(target, python(code), limits={"output_bytes": 64 * 1024**3, "timeout_s": 200})
        assert (ended.exit.cause, ended.exit.code) == (ExitCause.EXITED, 0)
        root = target.outputs(ended.handle).root
        verdicts.append(collect(root, store, limits=CollectLimits(total_bytes=64 * 1024**3)))
        target.release(ended.handle)
        assert not os.path.exists(root)
    remote, local = verdicts
    if isinstance(local, Collected):
        assert remote == local
        return
    assert isinstance(remote, Refused)
    if what == "hard link":  # a file with several names is listed as none
        assert "only regular files" in remote.rule
    elif what not in ("many", "sparse"):
        assert remote == local
