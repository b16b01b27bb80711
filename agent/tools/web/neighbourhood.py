"""Which addresses are this machine's own, or stand in a network that it stands in, whatever they look like.

A public address may be our own, on which a service listens that the world is kept from, or that of a machine beside
ours, which trusts the network. Linux says for each address where it would send it: what it sends to no gateway is its
own or a neighbour's. It is asked each time, so no address that comes or goes is missed. Other systems, and a Linux that
does not answer, tell only of their own addresses. What a router in front of us calls us, no system knows.
"""

from __future__ import annotations

import functools
import socket
import struct
import sys
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

import structlog

_log = structlog.get_logger(__name__)

_HEADER: Final = struct.Struct("=IHHII")  # <linux/netlink.h>: length, type, flags, sequence, port
_ROUTE: Final = struct.Struct("=8BI")  # <linux/rtnetlink.h>: family, bits of the destination, …, flags
_ATTRIBUTE: Final = struct.Struct("=HH")  # length, type
_REQUEST: Final = 1
_GET_ROUTE: Final = 26
_NEW_ROUTE: Final = 24
_AS_IT_IS_KEPT: Final = 0x2000  # RTM_F_FIB_MATCH: the route that matched, not the one made of it for this address
_DESTINATION: Final = 1
_LEADS_ON: Final = frozenset({5, 9, 18, 22, 30})  # a gateway, several, one of the other family, a tunnel, a next hop
_ANSWER_BYTES_MAX: Final = 65_536
_BITS_MIN: Final = {4: 16, 6: 48}
"""What is wider is no neighbourhood: a tunnel that takes the whole internet, or its halves, has no gateway either."""
_DISCARD_PORT: Final = 9


def is_near(address: str) -> bool:
    """True for an address of this machine, or of a network that it stands in. Sends nothing."""
    parsed = ip_address(address)
    return _is_own(parsed) or (sys.platform == "linux" and _is_on_link(parsed))


def _is_own(address: IPv4Address | IPv6Address) -> bool:
    """Whoever speaks to himself does it from the very address that he speaks to."""
    try:
        with socket.socket(_family(address), socket.SOCK_DGRAM) as asking:
            asking.connect((str(address), _DISCARD_PORT))
            return ip_address(asking.getsockname()[0]) == address
    except OSError:
        return False


def _is_on_link(address: IPv4Address | IPv6Address) -> bool:
    try:
        answer = _asked(address)
    except OSError as error:
        _tell_once(str(error))
        return False
    kind = _HEADER.unpack_from(answer)[1]
    if kind != _NEW_ROUTE:  # an error: nothing leads there
        return False
    bits = _ROUTE.unpack_from(answer, _HEADER.size)[1]
    return bits >= _BITS_MIN[address.version] and _LEADS_ON.isdisjoint(_attributes(answer))


def _asked(address: IPv4Address | IPv6Address) -> bytes:
    """The kernel's answer to where it would send to an address. Raises `OSError`."""
    destination = _ATTRIBUTE.pack(_ATTRIBUTE.size + len(address.packed), _DESTINATION) + address.packed
    route = _ROUTE.pack(_family(address), address.max_prefixlen, *[0] * 6, _AS_IT_IS_KEPT) + destination
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as asking:
        asking.setblocking(False)  # it is answered before `send` returns
        asking.send(_HEADER.pack(_HEADER.size + len(route), _GET_ROUTE, _REQUEST, 1, 0) + route)
        return asking.recv(_ANSWER_BYTES_MAX)


def _attributes(answer: bytes) -> Iterator[int]:
    """The kinds of what is said of a route."""
    end, at = _HEADER.unpack_from(answer)[0], _HEADER.size + _ROUTE.size
    while at + _ATTRIBUTE.size <= end:
        length, kind = _ATTRIBUTE.unpack_from(answer, at)
        yield kind
        at += max(_ATTRIBUTE.size, length + 3 & ~3)


def _family(address: IPv4Address | IPv6Address) -> socket.AddressFamily:
    return socket.AF_INET if address.version == 4 else socket.AF_INET6


@functools.cache
def _tell_once(reason: str) -> None:
    _log.warning("web.networks_unknown", reason=reason, hint="neighbours with public addresses can be fetched from")
