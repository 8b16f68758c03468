"""Which hosts a list covers, and which addresses nobody may reach."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from targets.egress.names import (
    REFUSED,
    Allowed,
    BadEntry,
    as_name,
    find_refusal,
    parse_entry,
    parse_ranges,
)


@pytest.mark.parametrize(
    ("entry", "host", "port", "covered"),
    [
        ("example.org", "example.org", 443, True),
        ("example.org", "example.org", 80, False),
        ("example.org", "www.example.org", 443, False),
        ("Example.ORG.", "example.org", 443, True),
        ("example.org:80", "example.org", 80, True),
        ("example.org:80", "example.org", 443, False),
        ("*.example.org", "www.example.org", 443, True),
        ("*.example.org", "a.b.example.org", 443, True),
        ("*.example.org", "example.org", 443, False),
        ("*.example.org", "badexample.org", 443, False),
        ("*.example.org:8443", "www.example.org", 8443, True),
        ("203.0.113.9", "203.0.113.9", 443, True),
        ("[2001:DB8::1]:80", "2001:db8::1", 80, True),
        ("mirror", "mirror", 443, True),
    ],
)
def test_a_list_covers_what_it_says_and_no_more(
    entry: str, host: str, port: int, covered: bool
) -> None:
    assert Allowed([entry]).covers(host, port) is covered


@pytest.mark.parametrize(
    "text",
    [
        *("", ".", "-a.org", "a..org", "a.org:", "a.org:99999", "a.org/x", "http://a.org", "*"),
        *(
            "*.com",
            "a*.org",
            "*.*.org",
            "0x7f000001",
            "2130706433",
            "10.1",
            "1.2.3.4.5",
            "a@b.org",
        ),
        *("::1:80", "a" * 64 + ".org", ".org", "[::1", "user:pass@a.org", "a.org#", "a\n.org"),
        "a.org ",
    ],
)
def test_what_is_no_host_is_no_entry(text: str) -> None:
    with pytest.raises(BadEntry):
        parse_entry(text)


@pytest.mark.parametrize(
    "address",
    [
        *("0.0.0.0", "10.0.0.1", "100.64.0.1", "127.0.0.1", "127.255.255.254", "169.254.169.254"),
        *("172.16.0.1", "172.31.255.255", "192.0.0.8", "192.0.2.1", "192.168.1.1", "198.18.0.1"),
        *("198.51.100.7", "203.0.113.9", "224.0.0.1", "240.0.0.1", "255.255.255.255"),
        *("::", "::1", "::ffff:10.0.0.1", "::ffff:8.8.8.8", "::127.0.0.1", "64:ff9b::a00:1"),
        *("2002:a00:1::", "2001::1", "2001:db8::1", "fc00::1", "fd12::1", "fe80::1", "fe80::1%lo"),
        *("fec0::1", "ff02::1", "100::1", "4000::1", "8000::1"),
    ],
)
def test_nobody_reaches_an_address_that_is_not_public(address: str) -> None:
    assert find_refusal(ipaddress.ip_address(address), ()) is not None


@pytest.mark.parametrize(
    "address", ["1.1.1.1", "172.15.0.1", "172.32.0.1", "192.0.1.1", "2606:4700::1111", "2a00::1"]
)
def test_public_addresses_may_be_reached(address: str) -> None:
    assert find_refusal(ipaddress.ip_address(address), ()) is None


def test_an_operator_may_open_a_range_and_opens_no_other() -> None:
    opened = parse_ranges(["10.20.0.0/16", "fd00:1::/32"])
    assert find_refusal(ipaddress.ip_address("10.20.3.4"), opened) is None
    assert find_refusal(ipaddress.ip_address("fd00:1::5"), opened) is None
    assert find_refusal(ipaddress.ip_address("10.21.0.1"), opened) is not None
    assert find_refusal(ipaddress.ip_address("::ffff:10.20.3.4"), opened) is not None
    with pytest.raises(ValueError, match="example"):
        parse_ranges(["example.org"])


@given(st.ip_addresses())
def test_what_python_calls_private_is_refused(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    local = address.is_private or address.is_loopback or address.is_link_local
    if local or address.is_multicast or address.is_reserved or address.is_unspecified:
        assert find_refusal(address, ()) is not None


@given(st.text())
def test_a_name_is_never_a_number_nor_anything_a_resolver_reads_as_one(text: str) -> None:
    name = as_name(text)
    if name is not None:
        assert name == name.lower()
        assert not name.rpartition(".")[2].isdecimal()
        assert all(part.isascii() and part for part in name.split("."))


def test_every_refused_range_is_one_squid_can_tell_from_all_ipv4() -> None:
    """Squid keeps an IPv4 address as ::ffff:a.b.c.d: a range that holds those holds them all."""
    mapped = ipaddress.ip_network("::ffff:0:0/96")
    for text in REFUSED:
        network = ipaddress.ip_network(text)
        assert network.version == 4 or not network.overlaps(mapped)
