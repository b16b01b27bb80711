"""From a host's name to a connection that was judged: the address that is checked is the address that is used.

For whoever has no HTTP client of ours between himself and the internet. No name is resolved twice, so none can
point elsewhere in between.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final

from agent.limits import WEB_CONNECT_S
from agent.tools.web.addresses import is_public, led_to
from agent.tools.web.neighbourhood import is_near
from gateway.contracts.errors import ToolError

_WELL_KNOWN_PORTS: Final = frozenset({80, 443})
_USER_PORTS_FROM: Final = 1024
"""Below are mail, file and login servers, which take an HTTP request for a command."""

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]


class Unreachable(ToolError):
    """Not on the public web, or not there."""


def is_on_public_web(address: str, port: int) -> bool:
    """True for an address that anybody may reach and that is not of this machine or beside it, on a port on which
    nothing but web servers is expected."""
    is_web_port = port in _WELL_KNOWN_PORTS or port >= _USER_PORTS_FROM
    return is_web_port and is_public(address) and not any(map(is_near, led_to(address)))


async def resolved(host: str, port: int) -> Sequence[str]:
    """The addresses of a name, or of itself. Raises `OSError`."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(place[0]) for *_, place in found))


class Reach:
    """Connects to the public web and nowhere else.

    `exempt` are (address, port) pairs that are let through all the same, `resolve` stands in for the resolver:
    both for tests, which have no internet.
    """

    def __init__(self, *, exempt: Iterable[tuple[str, int]] = (), resolve: Resolve = resolved) -> None:
        self._exempt = frozenset(exempt)
        self._resolve = resolve

    async def connect(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to one of the host's addresses. Raises `Unreachable`."""
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
