"""Which addresses a study may make ARL connect to."""

import time

import pytest

from ledger.errors import InvalidInput
from targets.outbound_addresses import (
    LOOPBACK,
    AddressPolicy,
    AddressRefused,
    BoundedResolver,
    check_url,
    checked_addresses,
    parse_policy,
)

PRIVATE = [
    *("127.0.0.1", "127.8.9.10", "0.0.0.0", "10.0.0.1", "172.16.0.1", "172.31.255.255"),
    *("192.168.1.1", "169.254.169.254", "100.64.0.1", "192.0.0.8", "192.0.2.1", "198.18.0.1"),
    *("198.51.100.7", "203.0.113.9", "224.0.0.1", "240.0.0.1", "255.255.255.255"),
    *("::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd12:3456::1", "ff02::1", "fec0::1"),
    *("::ffff:127.0.0.1", "::ffff:a9fe:a9fe", "::ffff:10.0.0.1", "::127.0.0.1"),
    *("2002:7f00:1::", "2002:a9fe:a9fe::1", "2002:c0a8:0101::1"),
    *("64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "2001:db8::1"),
    "2001:0:4136:e378:8000:63bf:f5ff:fffe",  # Teredo, whose client is 10.0.0.1
]
PUBLIC = ["8.8.8.8", "1.1.1.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]


@pytest.mark.parametrize("address", PRIVATE)
def test_an_address_that_is_not_public_is_refused_in_words(address: str) -> None:
    with pytest.raises(AddressRefused, match=r"private, local or reserved: name a public host"):
        AddressPolicy().check("example.org", address)


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_let_through_unchanged(address: str) -> None:
    assert AddressPolicy().check("example.org", address).compressed


def test_what_is_no_address_is_refused_and_not_resolved_again() -> None:
    with pytest.raises(AddressRefused, match="is no address"):
        AddressPolicy().check("example.org", "localhost")


def test_one_private_address_among_public_ones_refuses_them_all() -> None:
    with pytest.raises(AddressRefused):
        checked_addresses("h", 443, AddressPolicy(), lambda host, port: ["8.8.8.8", "127.0.0.1"])


def test_a_host_without_addresses_is_an_error_of_the_network() -> None:
    with pytest.raises(OSError, match="has no address"):
        checked_addresses("h", 443, AddressPolicy(), lambda host, port: [])


def test_the_operators_list_lets_hosts_and_networks_through_and_nothing_else() -> None:
    policy = parse_policy("Jobs.example.org., 10.1.0.0/16,::1")
    for host, address in (
        ("jobs.example.org", "192.168.0.9"),
        ("jobs.EXAMPLE.org", "127.0.0.1"),
        ("other.example.org", "10.1.2.3"),
        ("localhost", "::1"),
    ):
        assert policy.check(host, address).compressed == address
    for host, address in (
        ("other.example.org", "10.2.0.1"),
        ("localhost", "127.0.0.1"),
        ("xjobs.example.org", "192.168.0.9"),
        ("metadata", "169.254.169.254"),
    ):
        with pytest.raises(AddressRefused):
            policy.check(host, address)


def test_loopback_is_all_that_an_embedded_run_may_name_by_itself() -> None:
    policy = parse_policy(LOOPBACK)
    assert policy.check("localhost", "127.0.0.1").compressed == "127.0.0.1"
    assert policy.check("ip6-localhost", "::1").compressed == "::1"
    with pytest.raises(AddressRefused):
        policy.check("metadata", "169.254.169.254")
    with pytest.raises(AddressRefused):
        policy.check("router", "192.168.0.1")


def test_one_and_zero_let_everything_and_nothing_private_through() -> None:
    assert parse_policy("1").check("h", "10.0.0.1").compressed == "10.0.0.1"
    for text in ("0", ""):
        with pytest.raises(AddressRefused):
            parse_policy(text).check("h", "10.0.0.1")


@pytest.mark.parametrize("text", ["10.0.0.1/8", "10.0.0.0/99", "host:8080", "http://host"])
def test_a_list_that_is_not_one_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"ARL_HTTP_ALLOW_PRIVATE: .* write 1, 0, or host"):
        parse_policy(text)


@pytest.mark.parametrize(
    "url",
    [
        *("ftp://example.org", "example.org", "//example.org", "http://", "file:///etc/passwd"),
        *("https://user:word@example.org", "https://example.org?x=1", "https://example.org#x"),
        *("http://[::1", "http://example.org:99999", "gopher://127.0.0.1:70/x", ""),
    ],
)
def test_a_url_that_cannot_be_asked_is_refused_by_its_field(url: str) -> None:
    with pytest.raises(InvalidInput, match=r"^target\.url"):
        check_url(url, field="target.url")


def test_a_resolver_that_does_not_answer_costs_no_more_than_its_time() -> None:
    def hang(host: str, port: int) -> list[str]:
        time.sleep(10)
        return ["8.8.8.8"]

    started = time.monotonic()
    with pytest.raises(TimeoutError, match="not resolved in time"):
        BoundedResolver(hang).resolve("slow.example.org", 443, 0.1)
    assert time.monotonic() - started < 8


def test_a_host_name_that_is_none_is_an_error_of_the_network() -> None:
    def encode(host: str, port: int) -> list[str]:
        return [host.encode("idna").decode()]

    with pytest.raises(OSError, match="is no host name"):
        BoundedResolver(encode).resolve("a" * 70 + ".example.org", 443, 5.0)
