"""Which network addresses may be fetched from: public ones, in whatever spelling. Pure.

An IPv6 address can carry an IPv4 one (mapped, 6to4, NAT64, ISATAP): then the one inside is judged, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final

_CLOSED_4: Final = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # this network; 0.0.0.0 is the machine itself
            "10.0.0.0/8",  # private
            "100.64.0.0/10",  # carrier's NAT; Alibaba's metadata at 100.100.100.200
            "127.0.0.0/8",  # loopback
            "168.63.129.16/32",  # Azure's wire server, a public address that only machines inside reach
            "169.254.0.0/16",  # link-local; metadata of most clouds at 169.254.169.254
            "172.16.0.0/12",  # private
            "192.0.0.0/24",  # protocol assignments; Oracle's metadata at 192.0.0.192
            "192.0.2.0/24",  # documentation
            "192.31.196.0/24",  # AS112
            "192.52.193.0/24",  # AMT
            "192.88.99.0/24",  # 6to4 relays
            "192.168.0.0/16",  # private
            "192.175.48.0/24",  # AS112
            "198.18.0.0/15",  # benchmarks
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved and broadcast
        ),
    )
)
_OPEN_6: Final = IPv6Network("2000::/3")
"""All that was ever given out as global unicast; loopback, local, multicast and the rest lie outside."""

_CLOSED_6: Final = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # protocol assignments, Teredo among them
            "2001:db8::/32",  # documentation
            "3fff::/20",  # documentation
            "5f00::/16",  # segment routing
        ),
    )
)
_NAT64: Final = IPv6Network("64:ff9b::/96")
_6TO4: Final = IPv6Network("2002::/16")
_ISATAP: Final = frozenset({0x0000_5EFE, 0x0200_5EFE})


def is_public(address: str) -> bool:
    """True for an address that anybody on the internet may reach; False for all others, and for what is none."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, IPv4Address):
        return _is_public_4(parsed)
    return _is_public_6(parsed)


def led_to(address: str) -> tuple[str, ...]:
    """The address itself, which is one, and the IPv4 addresses inside it."""
    parsed = ip_address(address)
    return (address, *map(str, _inside(parsed))) if isinstance(parsed, IPv6Address) else (address,)


def _is_public_4(address: IPv4Address) -> bool:
    return not any(address in network for network in _CLOSED_4)


def _is_public_6(address: IPv6Address) -> bool:
    if address.scope_id is not None:
        return False
    is_open = address in _OPEN_6 and not any(address in network for network in _CLOSED_6)
    return (is_open or address in _NAT64) and all(_is_public_4(inside) for inside in _inside(address))


def _inside(address: IPv6Address) -> Iterator[IPv4Address]:
    """IPv4 addresses that a global IPv6 address leads to."""
    number = int(address)
    if address in _NAT64:
        yield IPv4Address(number & 0xFFFF_FFFF)
    if address in _6TO4:
        yield IPv4Address((number >> 80) & 0xFFFF_FFFF)
    if (number >> 32) & 0xFFFF_FFFF in _ISATAP:
        yield IPv4Address(number & 0xFFFF_FFFF)
