"""Programs that may reach one host and try for another: each is refused and written down."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger.artifacts import ArtifactStore
from ledger.records import AttemptKind
from targets.bubblewrap import BubblewrapTarget
from targets.egress.record import MAX_COUNTED, MAX_REQUESTS
from tests.egress_network import (
    PRIVATE,
    PUBLIC,
    RANGE,
    Internet,
    NameServer,
    private_internet,
    require_egress,
)
from tests.egress_programs import Trier
from tests.target_runs import end_supervisor, require_bubblewrap

pytestmark = [pytest.mark.egress, pytest.mark.bubblewrap]


@pytest.fixture(scope="module")
def internet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Internet]:
    require_egress()
    require_bubblewrap()
    with private_internet(tmp_path_factory.mktemp("internet")) as made:
        yield made


@pytest.fixture(scope="module")
def trier(internet: Internet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trier]:
    base = tmp_path_factory.mktemp("egress")
    store = ArtifactStore(base / "store")
    target = BubblewrapTarget(base / "root", store, host="here", open_ranges=[RANGE])
    yield Trier(target, internet.certificate)
    target.close()
    end_supervisor(base / "root")


@pytest.fixture(autouse=True)
def _nobody_private_is_reached(internet: Internet) -> Iterator[None]:
    internet.hits.clear()
    yield
    assert [hit for hit in internet.hits if hit.startswith((PRIVATE, "127."))] == []


def test_a_listed_host_is_reached_in_plain_http_and_over_tls(
    trier: Trier, internet: Internet
) -> None:
    code = """
print(get("http://good.test/plain?a=b"))
print(get("https://good.test/secret"))
print(get("https://www.wild.test/"))
print(len(get("http://good.test/upload", b"x" * 300_000)))
"""
    tried = trier.run(code, "good.test", "good.test:80", "*.wild.test")
    assert tried.lines == ["good.test here", "good.test here", "www.wild.test here", "300000"]
    assert tried.told() == [
        ("GET", "good.test", 80, True),
        ("CONNECT", "good.test", 443, True),
        ("CONNECT", "www.wild.test", 443, True),
        ("POST", "good.test", 80, True),
    ]
    assert all(r.sent_bytes > 50 and r.received_bytes > 50 for r in tried.requests)
    assert tried.requests[3].sent_bytes > 300_000
    assert internet.hits == [
        f"{PUBLIC}:80 GET good.test/plain?a=b",
        f"{PUBLIC}:443 GET good.test/secret",
        f"{PUBLIC}:443 GET www.wild.test/",
        f"{PUBLIC}:80 POST 300000",
    ]


@pytest.mark.parametrize(
    ("url", "host", "port", "why"),
    [
        ("http://other.test/", "other.test", 80, "target.egress does not list other.test:80"),
        ("http://good.test:22/", "good.test", 22, "target.egress does not list good.test:22"),
        (f"http://{PUBLIC}/", PUBLIC, 80, f"target.egress does not list {PUBLIC}:80"),
        ("http://wild.test/", "wild.test", 80, "target.egress does not list wild.test:80"),
        ("http://inner.test/", "inner.test", 80, f"inner.test is {PRIVATE}, in 10.0.0.0/8"),
        (f"http://{PRIVATE}/", PRIVATE, 80, f"{PRIVATE} is {PRIVATE}, in 10.0.0.0/8"),
        ("http://unopened.test/", "unopened.test", 80, "unopened.test is 203.0.113.9, in 203.0."),
        ("http://own.test/", "own.test", 80, "own.test is 11.22.33.44, this machine's own"),
        ("http://127.0.0.1/", "127.0.0.1", 80, "target.egress does not list 127.0.0.1:80"),
        ("http://0x7f.1/", "0x7f.1", 80, "a host that is no name"),
        ("http://2130706433/", "2130706433", 80, "a host that is no name"),
        ("http://nowhere.test/", "nowhere.test", 80, "nowhere.test cannot be resolved"),
        ("http://[::1]/", "::1", 80, "::1 is ::1, not a public address"),
        ("http://[::ffff:10.77.0.1]/", "::ffff:a4d:1", 80, "::ffff:a4d:1 is ::ffff:a4d:1, not"),
    ],
)
def test_what_is_not_listed_or_not_public_is_refused(
    trier: Trier, url: str, host: str, port: int, why: str, internet: Internet
) -> None:
    hosts = ("good.test:80", "*.wild.test:80", "inner.test:80", f"{PRIVATE}:80", "[::1]:80")
    more = ("unopened.test:80", "own.test:80", "nowhere.test:80", "[::ffff:10.77.0.1]:80")
    code = f"""
os.environ["no_proxy"] = os.environ["NO_PROXY"] = ""
print(get({url!r}))
"""
    tried = trier.run(code, *hosts, *more)
    assert tried.told() == [("GET", host, port, False)]
    (request,) = tried.requests
    assert request.detail.startswith(why)
    assert (request.sent_bytes, request.received_bytes) == (0, 0)
    assert internet.hits == []
    assert tried.said.startswith(("403 ARL's proxy: ", "400 ARL's proxy: "))


def test_a_name_that_is_private_at_the_second_look_is_never_connected_to(
    trier: Trier, internet: Internet
) -> None:
    server = NameServer([PUBLIC, PRIVATE, "127.0.0.1"])
    internet.run(server)
    code = """
for number in range(60):
    said = get("http://flips.rebind.test/") if number % 2 else tunnel("flips.rebind.test", "x")
    print(said.split(" ")[0])
"""
    tried = trier.run(code, "*.rebind.test", "*.rebind.test:80")
    assert server.asked >= 60, "every request resolves the name once more"
    assert len(tried.requests) == 60
    refused = [r for r in tried.requests if not r.allowed and "is not public" in r.detail]
    assert 20 <= len(refused) <= 50
    assert any(hit.startswith(f"{PUBLIC}:80") for hit in internet.hits)


def test_a_tunnel_to_a_listed_host_speaks_tls_for_that_host_or_not_at_all(
    trier: Trier, internet: Internet
) -> None:
    code = """
print(tunnel("good.test", "good.test"))
print(tunnel("good.test", "other.test"))
print(tunnel("good.test", "inner.test"))
print(tunnel("good.test", None))
wire = say("CONNECT good.test:443 HTTP/1.1", more=b"SSH-2.0-x\\r\\n")
print(repr(rest(wire)))
wire = say("CONNECT good.test:22 HTTP/1.1", more=b"SSH-2.0-x\\r\\n")
print(repr(rest(wire)))
wire = say("CONNECT good.test:8022 HTTP/1.1")
print(first(wire))
"""
    tried = trier.run(code, "good.test", "good.test:22")
    established = repr("HTTP/1.1 200 Connection established\r\n\r\n")
    assert tried.lines[0] == "through"
    assert all(line.startswith("broken off: ") for line in tried.lines[1:4])
    assert all(established[1:-1] in line for line in tried.lines[4:6])
    assert tried.lines[6] == "HTTP/1.1 403 Forbidden"
    assert tried.requests[0].allowed
    assert [(r.allowed, r.detail) for r in tried.requests[1:]] == [
        (False, "its TLS hello is for other.test"),
        (False, "its TLS hello is for inner.test"),
        (False, "its TLS hello is for no name"),
        (False, "no TLS in the tunnel"),
        (False, "no TLS in the tunnel"),
        (False, "target.egress does not list good.test:8022"),
    ]
    assert all(r.sent_bytes == 0 for r in tried.requests[1:])
    assert [hit for hit in internet.hits if "SSH" in hit] == []


def test_a_second_request_behind_the_first_reaches_nobody(
    trier: Trier, internet: Internet
) -> None:
    code = """
second = b"GET http://other.test/second HTTP/1.1\\r\\nHost: other.test\\r\\n\\r\\n"
wire = say("GET http://good.test/first HTTP/1.1", "Host: good.test", more=second)
print(rest(wire).count("200 OK"))
wire = say("POST http://good.test/first HTTP/1.1", "Content-Length: 3", more=b"abc" + second)
print(rest(wire).count("200 OK"))
print(first(say("GET http://good.test/ HTTP/1.1", "Host: other.test")))
print(first(say("GET http://good.test/ HTTP/1.1", "Host: good.test", "Host: other.test")))
print(first(say("GET http://good.test/ HTTP/1.1", "Host: good.test", "X: y\\nHost: other.test")))
print(first(say("POST http://good.test/ HTTP/1.1", "Content-Length: 5", "Content-Length: 9")))
chunked = ("Transfer-Encoding: chunked", "Content-Length: 4")
print(first(say("POST http://good.test/ HTTP/1.1", *chunked)))
print(first(say("GET http://other.test@good.test/ HTTP/1.1", "Host: good.test")))
print(first(say("GET http://good.test\\t/ HTTP/1.1", "Host: good.test")))
print(first(say("CONNECT good.test:443 HTTP/1.1", "Host: other.test:443")))
"""
    tried = trier.run(code, "good.test:80", "good.test")
    assert tried.lines[:2] == ["1", "1"]
    assert tried.lines[2:] == ["HTTP/1.1 400 Bad Request"] * 8
    assert internet.hits == [f"{PUBLIC}:80 GET good.test/first", f"{PUBLIC}:80 POST 3"]
    assert [r.allowed for r in tried.requests] == [True, True] + [False] * 8


def test_garbage_is_refused_and_written_down_in_plain_words(trier: Trier) -> None:
    code = """
end = b"\\r\\n\\r\\n"
for data in (b"\\0" * 100 + end, b"\\x16\\x03\\x01\\x02\\x00" + b"\\1" * 600 + end,
             b"GET " + b"\\x1b[2Jevil" * 20 + b" HTTP/1.1" + end, b"A" * 200_000):
    wire = proxy()
    try:
        wire.sendall(data)
    except OSError:
        pass
    print(rest(wire)[:24].strip())
wire = proxy(); wire.close(); time.sleep(0.2)
wire = say("CONNECT \\xf0\\x9f\\x98\\x80.test:443 HTTP/1.1"); print(first(wire))
"""
    tried = trier.run(code, "good.test")
    assert len(tried.requests) == 6
    assert [r.allowed for r in tried.requests] == [False] * 6
    assert all(line.startswith(("HTTP/1.1 400 Bad Request", "reset")) for line in tried.lines)
    for request in tried.requests:
        text = f"{request.method}{request.host}{request.detail}"
        assert text.isprintable()
        assert len(text) < 600
    assert tried.requests[4].detail == "it hung up without asking"


def test_a_flood_is_refused_counted_and_then_not_listened_to(trier: Trier) -> None:
    code = """
answered = 0
try:
    for _ in range(20_000):
        with proxy() as wire:
            wire.sendall(b"x\\r\\n\\r\\n")
            answered += wire.recv(100).startswith((b"HTTP/1.1 400", b"HTTP/1.1 429"))
except ConnectionError:
    print(answered)
"""
    tried = trier.run(code, "good.test")
    assert abs(int(tried.said) - MAX_REQUESTS - MAX_COUNTED) <= 64
    assert len(tried.requests) == MAX_REQUESTS + 1
    assert f"more were refused: one attempt may make {MAX_REQUESTS}" in tried.requests[-1].detail


DIRECT = """
import errno
def tries(what, family, address, kind=socket.SOCK_STREAM):
    try:
        with socket.socket(family, kind) as wire:
            wire.settimeout(3)
            if kind == socket.SOCK_DGRAM:
                wire.sendto(b"hello", address)
            else:
                wire.connect(address)
        print("ESCAPED", what)
    except OSError as error:
        print(what, errno.errorcode.get(error.errno, error))

tries("public", socket.AF_INET, ("198.51.100.7", 80))
tries("public udp", socket.AF_INET, ("198.51.100.7", 53), socket.SOCK_DGRAM)
tries("private", socket.AF_INET, ("10.77.0.1", 80))
tries("this machine", socket.AF_INET, ("127.0.0.1", 80))
tries("v6", socket.AF_INET6, ("2001:db8::1", 80))
for family in (socket.AF_PACKET, socket.AF_INET):
    try:
        socket.socket(family, socket.SOCK_RAW, socket.IPPROTO_ICMP); print("ESCAPED raw")
    except PermissionError:
        pass
try:
    socket.getaddrinfo("good.test", 80); print("ESCAPED names")
except OSError:
    pass
interfaces = [name for _, name in socket.if_nameindex()]
if interfaces != ["lo"]: print("ESCAPED", interfaces)
for directory, directories, files in os.walk("/arl"):
    for name in (*directories, *files):
        if "egress" in name or name in ("requests.jsonl", "squid.conf"):
            print("ESCAPED", directory, name)
processes = sorted(int(p) for p in os.listdir("/proc") if p.isdecimal())
if processes != [1, 2]: print("ESCAPED", processes)
listening = [line.split()[1] for line in open("/proc/net/tcp") if line.split()[3] == "0A"]
print(len(listening), "listens;", len(open("/proc/net/unix").readlines()) - 1, "unix sockets")
"""


def test_there_is_no_way_out_but_the_proxy(trier: Trier, internet: Internet) -> None:
    tried = trier.run(DIRECT, "good.test:80")
    assert "ESCAPED" not in tried.said
    assert tried.lines == [
        "public ENETUNREACH",
        "public udp ENETUNREACH",
        "private ENETUNREACH",
        "this machine ECONNREFUSED",
        "v6 ENETUNREACH",
        "1 listens; 0 unix sockets",
    ]
    assert internet.hits == []
    assert tried.requests == ()


def test_evaluations_and_answerers_have_no_network_whatever_is_asked(
    trier: Trier, internet: Internet
) -> None:
    code = "print(sorted(k for k in os.environ if 'proxy' in k.lower()), get('http://good.test/'))"
    tried = trier.run(code, "good.test:80", kind=AttemptKind.EVALUATE)
    assert tried.said.startswith("[] failed: ")
    assert tried.requests == ()
    assert internet.hits == []


def test_the_private_keys_beside_the_certificates_are_not_shown(trier: Trier) -> None:
    code = """
print(os.path.exists("/etc/ssl/private"), os.path.exists("/etc/resolv.conf"))
print(bool(ssl.create_default_context().get_ca_certs()) or os.listdir("/etc/ssl/certs") != [])
"""
    assert trier.run(code, "good.test").lines == ["False False", "True"]


def test_squid_serves_nobody_but_its_proxy(
    trier: Trier, internet: Internet, tmp_path: Path
) -> None:
    """Squid listens on this machine's loopback, where other users' programs are."""
    import socket

    handle = trier.start("print(get('http://good.test/')); time.sleep(60)", "good.test:80")
    directory = Path(trier.target._root, "attempts", handle, "egress")
    while not internet.hits:
        pass
    (line,) = [x for x in (directory / "squid.conf").read_text().splitlines() if "http_port" in x]
    port = int(line.rpartition(":")[2])
    for asked in (
        f"CONNECT {PUBLIC}:80",
        f"GET http://{PUBLIC}/",
        "GET cache_object://localhost/",
    ):
        with socket.create_connection(("127.0.0.1", port)) as wire:
            wire.sendall(f"{asked} HTTP/1.1\r\nHost: {PUBLIC}\r\n\r\n".encode())
            assert wire.recv(100).startswith(b"HTTP/1.1 403")
    assert len(internet.hits) == 1
    assert (directory / "squid.conf").stat().st_mode & 0o044
    assert directory.stat().st_mode & 0o077 == 0
    trier.target.kill(handle)
    assert len(trier.ended(handle).requests) == 1
