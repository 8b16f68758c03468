"""What a proxy understands of a program's words, and that it understands nothing else."""

import ssl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from targets.egress.wire import Asked, Unreadable, find_server_name, parse_request


def head(*lines: str) -> bytes:
    return "\r\n".join((*lines, "", "")).encode("latin-1")


def why(data: bytes) -> str:
    with pytest.raises(Unreadable) as refused:
        parse_request(data)
    return str(refused.value)


def test_a_tunnel_is_asked_for_by_host_and_port() -> None:
    asked = parse_request(head("CONNECT Example.ORG:443 HTTP/1.1", "Host: example.org:443"))
    assert asked == Asked("CONNECT", "example.org", 443)
    assert parse_request(head("CONNECT [2001:DB8::1]:443 HTTP/1.0")).host == "2001:db8::1"


def test_a_plain_request_goes_on_as_the_only_one_of_its_connection() -> None:
    asked = parse_request(
        head(
            "GET http://example.org/a?b=c HTTP/1.1",
            "Host: example.org",
            "Proxy-Connection: keep-alive",
            "Connection: keep-alive, X-Private",
            "X-Private: 1",
            "Accept: */*",
        )
    )
    assert (asked.host, asked.port, asked.body_bytes) == ("example.org", 80, 0)
    assert asked.head == head(
        "GET /a?b=c HTTP/1.1", "Host: example.org", "accept: */*", "Connection: close"
    )


def test_a_body_goes_on_with_its_length() -> None:
    asked = parse_request(
        head("POST http://mirror:8080 HTTP/1.1", "Host: mirror:8080", "Content-Length: 12")
    )
    assert asked.body_bytes == 12
    assert asked.head == head(
        "POST / HTTP/1.1", "Host: mirror:8080", "Connection: close", "Content-Length: 12"
    )


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (("hello",), "no HTTP request"),
        (("GET  http://a.org/ HTTP/1.1",), "no HTTP request"),
        (("GET http://a.org/ HTTP/2.0",), "no HTTP request"),
        (("get http://a.org/ HTTP/1.1",), "no HTTP method"),
        (("GET / HTTP/1.1", "Host: a.org"), "GET needs a whole URL"),
        (("GET https://a.org/ HTTP/1.1",), "only http:// URLs are passed on"),
        (("GET ftp://a.org/ HTTP/1.1",), "only http:// URLs are passed on"),
        (("GET http://u:p@a.org/ HTTP/1.1",), "no host"),
        (("GET http://a.org:99999/ HTTP/1.1",), "a port that is none"),
        (("GET http://2130706433/ HTTP/1.1",), "a host that is no name"),
        (("GET http://0x7f.1/ HTTP/1.1",), "a host that is no name"),
        (("CONNECT a.org HTTP/1.1",), "no host and port"),
        (("CONNECT http://a.org:443 HTTP/1.1",), "no host and port"),
        (("CONNECT a.org:443 HTTP/1.1", "Host: b.org:443"), "its Host header names another host"),
        (("GET http://a.org/ HTTP/1.1", "Host: b.org"), "its Host header names another host"),
        (
            ("GET http://a.org/ HTTP/1.1", "Host: a.org", "Host: a.org"),
            "its Host header names another host",
        ),
        (("GET http://a.org/ HTTP/1.1", "Host : a.org"), "a header that is none"),
        (("GET http://a.org/ HTTP/1.1", " Host: a.org"), "a header that is none"),
        (("GET http://a.org/ HTTP/1.1", "X: a\nHost: b.org"), "a header that is none"),
        (("GET http://a.org/ HTTP/1.1", "X: a\0b"), "a header that is none"),
        (("POST http://a.org/ HTTP/1.1", "Content-Length: +1"), "a Content-Length that is none"),
        (
            ("POST http://a.org/ HTTP/1.1", "Content-Length: 1", "Content-Length: 2"),
            "a Content-Length that is none",
        ),
        (
            ("POST http://a.org/ HTTP/1.1", "Transfer-Encoding: chunked"),
            "a body without a Content-Length",
        ),
        (
            ("POST http://a.org/ HTTP/1.1", "Content-Length: 99999999999"),
            "a body of more than 1073741824 bytes",
        ),
    ],
)
def test_what_could_be_read_in_two_ways_is_read_in_none(lines: tuple[str, ...], told: str) -> None:
    assert why(head(*lines)).startswith(told)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_request_or_are_refused(data: bytes) -> None:
    try:
        asked = parse_request(data + b"\r\n\r\n")
    except Unreadable:
        return
    assert asked.host
    assert asked.method.isupper()


def hello(name: str | None) -> bytes:
    """The first bytes that a real TLS client sends."""
    context = ssl.create_default_context()
    context.check_hostname = name is not None
    written = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), written, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return written.read()


def test_the_server_name_of_a_real_hello_is_found_however_it_arrives() -> None:
    data = hello("www.Example.org")
    assert find_server_name(data) == "www.example.org"
    for size in range(len(data)):
        assert find_server_name(data[:size]) is None
    pieces = [data[at : at + 200] for at in range(5, len(data), 200)]
    records = b"".join(b"\x16\x03\x01" + len(p).to_bytes(2, "big") + p for p in pieces)
    assert find_server_name(records) == "www.example.org"
    assert find_server_name(hello(None)) == ""


def edited(data: bytes, at: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + len(new) :]


def test_a_hello_with_two_names_or_a_hidden_one_is_refused() -> None:
    data = hello("example.org")
    at = data.index(b"example.org")
    with pytest.raises(Unreadable, match="more than one server name"):
        find_server_name(edited(data, at - 2, (3).to_bytes(2, "big")))
    kind = data.index(b"\x00\x17\x00\x00")  # extended_master_secret, which is empty
    with pytest.raises(Unreadable, match="hides its server name"):
        find_server_name(edited(data, kind, b"\xfe\x0d"))


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\xff\xff" + b"\x01" * 9,
        b"\x16\x03\x01\x00\x05\x02\x00\x00\x01\x00",
        b"\x16\x02\x01\x00\x05",
        b"\x15\x03\x01\x00\x02",
        b"\x16\x03\x01\x00\x01\x01" * 9,
        b"\x16\x03\x01\x00\x04\x01\x00\x00\x00",
    ],
)
def test_what_is_no_hello_is_refused(data: bytes) -> None:
    with pytest.raises(Unreadable):
        find_server_name(data)


@given(st.binary(max_size=300), st.integers(0, 600))
def test_any_bytes_in_a_hello_are_a_name_or_are_refused(noise: bytes, at: int) -> None:
    data = hello("example.org")
    at %= len(data)
    try:
        name = find_server_name(data[:at] + noise + data[at + len(noise) :])
    except Unreadable:
        return
    assert name is None or isinstance(name, str)
