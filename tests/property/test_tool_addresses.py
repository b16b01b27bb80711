"""No spelling of a private address gets past the guard, and no public one is refused."""

from __future__ import annotations

import socket
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.public_web import is_public

PRIVATE_4 = [
    "127.0.0.0/8",
    "10.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "169.254.0.0/16",
    "100.64.0.0/10",
    "0.0.0.0/8",
    "224.0.0.0/4",
    "240.0.0.0/4",
    "198.18.0.0/15",
    "192.0.0.0/24",
]
PRIVATE_6 = [
    "::1/128",
    "::/128",
    "fe80::/10",
    "fc00::/7",
    "ff00::/8",
    "fec0::/10",
    "2001:db8::/32",
    "100::/64",
    "2001::/32",
    "64:ff9b:1::/48",
]


def inside_4(network: str) -> st.SearchStrategy[IPv4Address]:
    first, last = IPv4Network(network)[0], IPv4Network(network)[-1]
    return st.integers(int(first), int(last)).map(IPv4Address)


def inside_6(network: str) -> st.SearchStrategy[IPv6Address]:
    first, last = IPv6Network(network)[0], IPv6Network(network)[-1]
    return st.integers(int(first), int(last)).map(IPv6Address)


private_4 = st.sampled_from(PRIVATE_4).flatmap(inside_4)
private_6 = st.sampled_from(PRIVATE_6).flatmap(inside_6)
public_4 = (
    st.integers(0, 2**32 - 1)
    .map(IPv4Address)
    .filter(
        lambda address: (
            address.is_global
            and not address.is_multicast
            and str(address) != "168.63.129.16"
            and not any(
                address in IPv4Network(odd)
                for odd in ("192.88.99.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.175.48.0/24", "192.0.0.0/24")
            )
        )
    )
)


def spellings(address: IPv4Address) -> list[str]:
    """All that an old resolver takes for this address, and its ways into IPv6."""
    number = int(address)
    a, b, c, d = address.packed
    halves = f"{number >> 16:x}:{number & 0xFFFF:x}"
    old = [
        f"{a}.{b}.{c}.{d}",
        *(f"{number}", f"{number:#x}", f"0{number:o}"),
        *(f"{a:#x}.{b:#x}.{c:#x}.{d:#x}", f"0{a:o}.{b}.{c}.0{d:o}"),
        *(f"{a}.{number & 0xFFFFFF}", f"{a}.{b}.{number & 0xFFFF}", f"{a}.{b:#x}.{number & 0xFFFF}"),
    ]
    new = [
        *(f"::ffff:{address}", f"::ffff:{halves}", f"::{address}"),
        *(f"64:ff9b::{address}", f"2002:{halves}::1", f"2400:1:2:3:0:5efe:{halves}"),
    ]
    return [*old, *new]


def resolved(host: str) -> list[str]:
    """What the system's resolver makes of a numeric host; it asks nobody."""
    try:
        found = socket.getaddrinfo(host, 80, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except OSError:
        return []
    return [str(place[0]) for *_, place in found]


@given(private_4)
def test_a_private_address_is_refused_in_every_spelling(address: IPv4Address) -> None:
    for spelling in spellings(address):
        assert not any(is_public(found) for found in resolved(spelling)), spelling


@given(private_6)
def test_local_addresses_of_ipv6_are_refused(address: IPv6Address) -> None:
    assert not is_public(str(address))
    assert not is_public(f"{address}%eth0")


@given(public_4)
def test_public_addresses_are_let_through(address: IPv4Address) -> None:
    assert is_public(str(address))
    assert is_public(f"64:ff9b::{address}")


@given(st.integers(0, 2**128 - 1).map(IPv6Address))
def test_what_python_calls_not_global_is_never_public(address: IPv6Address) -> None:
    """Python's own table as a second opinion."""
    if is_public(str(address)) and address not in IPv6Network("64:ff9b::/96"):
        assert address.is_global


@given(st.text())
def test_what_is_no_address_is_not_public(text: str) -> None:
    if is_public(text):
        socket.getaddrinfo(text, 80, flags=socket.AI_NUMERICHOST)


@pytest.mark.parametrize(
    "address",
    ["169.254.169.254", "fd00:ec2::254", "100.100.100.200", "168.63.129.16", "192.0.0.192", "::ffff:169.254.169.254"],
)
def test_the_metadata_services_of_the_clouds_are_refused(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "1.1.1.1", "2606:4700:4700::1111", "2a00:1450:4001:80b::200e"])
def test_well_known_public_addresses_are_let_through(address: str) -> None:
    assert is_public(address)
