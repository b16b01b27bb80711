"""Decides which addresses may be reached: public ones. The address that is checked is the one that is used.

An IPv6 address can carry an IPv4 one (mapped, 6to4, NAT64, ISATAP): then the one inside is judged, too."""

from __future__ import annotations

import asyncio
import functools
import socket
import struct
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final

import structlog

from gateway.contracts.errors import ToolError
from gateway.limits import WEB_CONNECT_S

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
    """Tell whether anybody on the internet may reach an address; False also for a text that is no address."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, IPv4Address):
        return _is_public_4(parsed)
    if parsed.scope_id is not None:
        return False
    is_open = parsed in _OPEN_6 and not any(parsed in network for network in _CLOSED_6)
    return (is_open or parsed in _NAT64) and all(_is_public_4(inside) for inside in _inside(parsed))


def addresses_inside(address: str) -> tuple[str, ...]:
    """List the address itself and the IPv4 addresses inside it."""
    parsed = ip_address(address)
    return (address, *map(str, _inside(parsed))) if isinstance(parsed, IPv6Address) else (address,)


def _is_public_4(address: IPv4Address) -> bool:
    return not any(address in network for network in _CLOSED_4)


def _inside(address: IPv6Address) -> Iterator[IPv4Address]:
    """Yield the IPv4 addresses that a global IPv6 address leads to."""
    number = int(address)
    if address in _NAT64:
        yield IPv4Address(number & 0xFFFF_FFFF)
    if address in _6TO4:
        yield IPv4Address((number >> 80) & 0xFFFF_FFFF)
    if (number >> 32) & 0xFFFF_FFFF in _ISATAP:
        yield IPv4Address(number & 0xFFFF_FFFF)


# Which addresses are this machine's own, or in a network that it is in, whatever they look like.
#
# A public address may be our own, on which a service listens that the world is kept from, or that of a machine beside
# ours, which trusts the network. Linux says for each address where it would send it: what it sends to no gateway is
# its own or a neighbour's. It is asked each time, so no address that comes or goes is missed. Other systems, and a
# Linux that does not answer, tell only of their own addresses. What a router in front of us calls us, no system
# knows.


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
"""Wider networks are no neighbourhood: a tunnel that takes the whole internet, or its halves, has no gateway either."""
_DISCARD_PORT: Final = 9


def is_near(address: str) -> bool:
    """Tell whether an address belongs to this machine or to a network that it is in. Sends nothing."""
    parsed = ip_address(address)
    return _is_own(parsed) or (sys.platform == "linux" and _is_on_link(parsed))


def _is_own(address: IPv4Address | IPv6Address) -> bool:
    """Tell whether this machine has the address: only then is it also the source address of a connection to it."""
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
    """Ask the kernel for its route to an address. Raises `OSError`."""
    destination = _ATTRIBUTE.pack(_ATTRIBUTE.size + len(address.packed), _DESTINATION) + address.packed
    route = _ROUTE.pack(_family(address), address.max_prefixlen, *[0] * 6, _AS_IT_IS_KEPT) + destination
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as asking:
        asking.setblocking(False)  # it is answered before `send` returns
        asking.send(_HEADER.pack(_HEADER.size + len(route), _GET_ROUTE, _REQUEST, 1, 0) + route)
        return asking.recv(_ANSWER_BYTES_MAX)


def _attributes(answer: bytes) -> Iterator[int]:
    """Yield the kinds of the attributes of a route."""
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


# From a host's name to a connection that was judged: the address that is checked is the address that is used.
#
# For callers that reach the internet without our HTTP client. No name is resolved twice, so none can
# point elsewhere in between.


_WELL_KNOWN_PORTS: Final = frozenset({80, 443})
_USER_PORTS_FROM: Final = 1024
"""Below are mail, file and login servers, which take an HTTP request for a command."""

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]


class Unreachable(ToolError):
    """The host is not on the public web, or does not answer."""


def is_on_public_web(address: str, port: int) -> bool:
    """Tell whether an address may be reached by anybody, is neither of this machine nor of its networks, and has a port
    that only web servers use."""
    is_web_port = port in _WELL_KNOWN_PORTS or port >= _USER_PORTS_FROM
    return is_web_port and is_public(address) and not any(map(is_near, addresses_inside(address)))


async def resolved(host: str, port: int) -> Sequence[str]:
    """Resolve a name to its addresses, or an address to itself. Raises `OSError`."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(place[0]) for *_, place in found))


class PublicConnector:
    """Connects to the public web and nowhere else.

    `exempt` are (address, port) pairs that are let through all the same, `resolve` replaces the resolver: both
    for tests, which have no internet."""

    def __init__(self, *, exempt: Iterable[tuple[str, int]] = (), resolve: Resolve = resolved) -> None:
        self._exempt = frozenset(exempt)
        self._resolve = resolve

    async def connect(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to one of the host's addresses. Raises `Unreachable`."""
        try:
            async with asyncio.timeout(WEB_CONNECT_S):
                addresses = await self._resolve(host, port)
                allowed = [address for address in addresses if self._is_allowed(address, port)]
                if not allowed:
                    raise Unreachable(f"{host} port {port} is not on the public web")
                return await self._first(allowed, port)
        except (OSError, UnicodeError, TimeoutError) as error:
            raise Unreachable(f"{host} port {port} cannot be reached") from error

    async def _first(self, addresses: Sequence[str], port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        complaint = OSError("no address")
        for address in addresses:
            try:
                return await asyncio.open_connection(address, port)
            except OSError as error:
                complaint = error
        raise complaint

    def _is_allowed(self, address: str, port: int) -> bool:
        return (address, port) in self._exempt or is_on_public_web(address, port)
