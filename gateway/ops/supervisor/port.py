"""The operator's port while nobody serves it: who asks for more than our health is held until the admin role is there.

The supervisor listens all the time, so that the port is never refused, and the admin role takes the listener over when
it starts (as an inherited descriptor) together with the connections that are held here. A connection is given up here
only when the role has said that it is ready: one that is killed while it starts loses no request. Of a request only the
first bytes are looked at, without taking them from the connection, so that the role reads and judges all of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Collection
from typing import Final

from gateway.limits import HTTP_BACKLOG, HTTP_HEAD_BYTES_MAX, HTTP_HEAD_S
from gateway.preflight import is_our_name

_HEALTH: Final = (b"GET /healthz HTTP/1.1", b"GET /healthz HTTP/1.0")
_END_OF_HEAD: Final = b"\r\n\r\n"
_BODY: Final = b'{"status":"ok"}'
_HEALTHY: Final = (
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n"
    b"content-length: %d\r\n\r\n%b" % (len(_BODY), _BODY)
)


def is_health_check(head: bytes, hosts: Collection[str]) -> bool:
    """Tell whether these are all the bytes of a request for /healthz under one of our names. Any other request, and one
    that has not come whole, is for the admin role to judge."""
    lines = head.removesuffix(_END_OF_HEAD).split(b"\r\n")
    if not head.endswith(_END_OF_HEAD) or lines[0] not in _HEALTH or b"" in lines:
        return False
    fields = [line.decode("latin-1").partition(":") for line in lines[1:]]
    names = [value.strip() for name, _, value in fields if name.lower() == "host"]
    has_body = any(name.lower() in ("content-length", "transfer-encoding") for name, _, _ in fields)
    return not has_body and len(names) <= 1 and is_our_name("".join(names), hosts)


class DormantPort:
    """A listener that answers health checks itself, and keeps connections for whoever serves it next."""

    def __init__(self, listener: socket.socket, hosts: Collection[str]) -> None:
        self._listener = listener
        self._hosts = hosts
        self._held: dict[socket.socket, asyncio.TimerHandle] = {}
        self._asked = asyncio.Event()
        listener.setblocking(False)

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Return the listener's descriptor, then those of the held connections."""
        return (self._listener.fileno(), *(connection.fileno() for connection in self._held))

    async def until_asked(self) -> None:
        """Listen until somebody asks for something that only the admin role can answer."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self._listener, self._accept)
        for connection in self._held:
            loop.add_reader(connection, self._look, connection)
        try:
            await self._asked.wait()
        finally:
            loop.remove_reader(self._listener)
            for connection, deadline in self._held.items():
                loop.remove_reader(connection)
                deadline.cancel()

    def hand_over(self) -> None:
        """Forget the connections: the process that was given them serves them."""
        self._asked.clear()
        for connection in list(self._held):
            self._drop(connection)

    def close(self) -> None:
        """Hang up on everybody, and stop listening."""
        self.hand_over()
        self._listener.close()

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:  # whoever it was has gone again, or there is no descriptor left
            return
        connection.setblocking(False)
        loop = asyncio.get_running_loop()
        while len(self._held) >= HTTP_BACKLOG:  # the one that has been waited for longest makes room
            self._drop(next(iter(self._held)))
        self._held[connection] = loop.call_later(HTTP_HEAD_S, self._drop, connection)
        loop.add_reader(connection, self._look, connection)

    def _look(self, connection: socket.socket) -> None:
        try:
            head = connection.recv(HTTP_HEAD_BYTES_MAX, socket.MSG_PEEK)
        except BlockingIOError:
            return
        except OSError:
            head = b""
        if not head:
            self._drop(connection)
        elif is_health_check(head, self._hosts):
            with contextlib.suppress(OSError):
                connection.recv(len(head))
                connection.send(_HEALTHY)
            self._drop(connection)
        else:
            self._asked.set()

    def _drop(self, connection: socket.socket) -> None:
        asyncio.get_running_loop().remove_reader(connection)
        self._held.pop(connection).cancel()
        connection.close()
