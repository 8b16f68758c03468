"""Files to and from a job service: in pieces, resumed where they were cut off, and checked."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger.artifacts import ArtifactStore
from ledger.errors import InvalidInput, TargetUnavailable
from targets.http_job import signing
from targets.http_job.client import JobClient
from targets.http_job.documents import AttemptState, BlobsAsked, BlobsMissing, BlobState
from targets.outbound import GuardedTransport, Outbound
from targets.wire import attempt_doc
from tests.hostile_service import Heard, Said, hostile_service
from tests.http_faults import FlappingProxy
from tests.http_runs import HERE, QUICK, SECRET, JobServer, http_target, job_server
from tests.target_runs import attempt, finish, log_of, run

MIB = 1 << 20
CUTS = ("reset_before", "reset_after", "reset_in_body", "truncated", "error_502", "twice")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JobServer]:
    with job_server(tmp_path_factory.mktemp("files") / "service") as running:
        yield running


@pytest.fixture
def client(server: JobServer) -> Iterator[JobClient]:
    made = JobClient(server.url, signing.key_of(SECRET), Outbound(GuardedTransport(HERE)), QUICK)
    yield made
    made.close()


def put(client: JobClient, digest: str, offset: int, size: int, data: bytes) -> BlobState:
    query = {"offset": offset, "size": size}
    return client.ask("PUT", f"/v1/blobs/{digest}", BlobState, query=query, content=data)


def missing(client: JobClient, digest: str) -> dict[str, int]:
    asked = BlobsAsked(digests=[digest])
    return client.ask("POST", "/v1/blobs/missing", BlobsMissing, content=asked).missing


def test_inputs_and_outputs_get_through_a_network_that_cuts(
    server: JobServer, tmp_path: Path
) -> None:
    data = os.urandom(5 * MIB + 17)
    source = tmp_path / "source"
    source.mkdir()
    (source / "large").write_bytes(data)
    (source / "empty").touch()
    (source / "tool").write_text("#!/bin/sh\ncat large")
    (source / "tool").chmod(0o755)
    store = ArtifactStore(tmp_path / "store")
    proxy = FlappingProxy(server.url, seed=5, rate=0.3, faults=CUTS)
    target = http_target(tmp_path, proxy.url, store)
    try:
        script = 'cd "$ARL_INPUTS/in" && sha256sum < large && ./tool > "$ARL_OUTPUT/copy"'
        ended = run(target, script, inputs={"in": store.put_tree(source)})
        assert ended.exit.code == 0, log_of(target, ended.handle)
        assert log_of(target, ended.handle).split()[0] == hashlib.sha256(data).hexdigest()
        root = Path(target.outputs(ended.handle).root)
        assert (root / "copy").read_bytes() == data
    finally:
        target.close()
        proxy.close()
    assert sum(proxy.done[fault] for fault in CUTS) > 3


def test_an_upload_goes_on_where_a_killed_service_had_it(tmp_path: Path) -> None:
    data = os.urandom(2 * MIB)
    digest = hashlib.sha256(data).hexdigest()
    with job_server(tmp_path / "service") as server:
        outbound = Outbound(GuardedTransport(HERE))
        client = JobClient(server.url, signing.key_of(SECRET), outbound, QUICK)
        assert put(client, digest, 0, len(data), data[:MIB]) == BlobState(
            received=MIB, complete=False
        )
        server.kill()
        server.start()
        assert missing(client, digest) == {digest: MIB}
        assert put(client, digest, MIB, len(data), data[MIB:]).complete
        assert missing(client, digest) == {}
        client.close()


def test_a_piece_may_come_twice_and_one_that_leaves_a_hole_is_not_taken(
    client: JobClient,
) -> None:
    data = os.urandom(3000)
    digest = hashlib.sha256(data).hexdigest()
    assert put(client, digest, 2000, 3000, data[2000:]).received == 0
    for _ in range(2):
        assert put(client, digest, 0, 3000, data[:1000]).received == 1000
    assert put(client, digest, 500, 3000, data[500:1500]).received == 1500
    assert put(client, digest, 1500, 3000, data[1500:]).complete
    assert put(client, digest, 0, 3000, b"anything") == BlobState(received=3000, complete=True)


def test_bytes_with_another_digest_are_never_kept(client: JobClient, server: JobServer) -> None:
    digest = hashlib.sha256(b"good").hexdigest()
    with pytest.raises(InvalidInput, match="do not have that digest"):
        put(client, digest, 0, 4, b"evil")
    assert missing(client, digest) == {digest: 0}
    assert not (server.root / "partial" / digest).exists()
    assert put(client, digest, 0, 4, b"good").complete


@pytest.mark.parametrize("digest", ["x" * 64, "0" * 63, "..%2f..%2fetc%2fpasswd", "A" * 64])
def test_a_digest_that_is_none_is_refused(client: JobClient, digest: str) -> None:
    with pytest.raises((InvalidInput, TargetUnavailable)):
        put(client, digest, 0, 1, b"x")


def test_a_tree_that_is_none_starts_nothing(client: JobClient, tmp_path: Path) -> None:
    """Sent by someone else than ARL, whose trees are made by its store."""
    for data in (b"no json", b'[["../../evil", 420, 1, "%s"]]' % (b"0" * 64), b"[1, 2]", b"7"):
        digest = hashlib.sha256(data).hexdigest()
        put(client, digest, 0, len(data), data)
        spec = attempt("exit 0", inputs={"in": digest})
        with pytest.raises(InvalidInput, match="is not a tree"):
            client.ask("PUT", f"/v1/attempts/{spec.name}", AttemptState, content=attempt_doc(spec))


@pytest.mark.slow
def test_a_fetch_that_was_cut_off_goes_on_where_it_was(tmp_path: Path) -> None:
    data = os.urandom(3 * MIB)
    digest = hashlib.sha256(data).hexdigest()
    answering = [True]

    def answer(heard: Heard) -> Said:
        if not heard.path.endswith("/content"):
            return Said(
                {
                    "entries": [
                        {"path": "model/w", "kind": "file", "size": len(data), "digest": digest}
                    ]
                }
            )
        offset = int(heard.query["offset"])
        if offset >= 2 * MIB and answering[0]:
            return Said({"code": "busy", "status": 503}, status=503)
        return Said(data[offset : offset + int(heard.query["limit"])])

    with hostile_service(answer) as (url, heard):
        target = http_target(tmp_path, url)
        with pytest.raises(TargetUnavailable, match="busy"):
            assert target.outputs("arl-x").root
        target.close()
        answering[0] = False
        before = len(heard)
        again = http_target(tmp_path, url)
        root = Path(again.outputs("arl-x").root)
        again.close()
    assert (root / "model" / "w").read_bytes() == data
    offsets = [int(h.query["offset"]) for h in heard[before:] if h.path.endswith("/content")]
    assert offsets == [2 * MIB]


def test_attempts_wait_for_room_and_gpus_are_given_to_one_at_a_time(tmp_path: Path) -> None:
    with job_server(tmp_path / "service", "--slots", "3", "--gpus", "4,7") as server:
        target = http_target(tmp_path, server.url)
        script = 'echo "$CUDA_VISIBLE_DEVICES"; sleep 1.5'
        limits = {"gpus": 1}
        handles = [target.launch(attempt(script, limits=limits)) for _ in range(4)]
        queued = target.launch(attempt("exit 0", limits={"gpus": 2}))
        ended = [finish(target, handle) for handle in handles]
        assert [e.exit.code for e in ended] == [0] * 4
        assert sorted(log_of(target, h).strip() for h in handles) == ["4", "4", "7", "7"]
        assert finish(target, queued).exit.code == 0
        many = finish(target, target.launch(attempt("exit 0", limits={"gpus": 3})))
        assert "this service has 2" in many.exit.detail
        target.close()
