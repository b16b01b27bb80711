"""Looks before the start: is a port free, does anybody answer at an address, what does a program of the agent role say.
Plain sockets and processes, nothing to import."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from gateway.contracts.errors import BusUnavailable, ConfigError

CONNECT_TIMEOUT_S: Final = 3.0
_ALWAYS_OURS: Final = "localhost"
_REDIS_PORT: Final = 6379
_SENTINEL_PORT: Final = 26379


def free_port(host: str = "127.0.0.1") -> int:
    """Return a port that nobody listens on now."""
    with socket.create_server((host, 0)) as server:
        port: int = server.getsockname()[1]
        return port


def check_port_free(host: str, port: int, key: str) -> None:
    """Raise `ConfigError` when `host:port`, the value of setting `key`, cannot be listened on."""
    with listen(host, port, key):
        return


def listen(host: str, port: int, key: str, *, is_shared: bool = False) -> socket.socket:
    """Listen on `host:port`, the value of setting `key`; several processes of ours may where `is_shared`, if the system
    lets them. Raises `ConfigError` when somebody else does."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server(
            (host, port), family=family, reuse_port=is_shared and hasattr(socket, "SO_REUSEPORT")
        )
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {at(host, port)} ({_why(error)}): stop what uses it or set {key} to another port"
        ) from error
    # Connections have it from their listener: else the second part of an answer is held back for 40 ms.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def at(host: str, port: int) -> str:
    """Write a host and a port as an address has them."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_our_name(host: str, names: Collection[str]) -> bool:
    """Tell whether a `Host` header names us. Probes of old load balancers send none; browsers always do."""
    if not host:
        return True
    try:
        name = (urlsplit(f"//{host}").hostname or "").rstrip(".")
        return name == _ALWAYS_OURS or name in names or bool(ip_address(name))
    except ValueError:
        return False


def redis_addresses(url: str) -> list[tuple[str, int] | str]:
    """Return where the servers of a Redis URL listen: (host, port), or a path for a unix socket."""
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return [unquote(parts.path)]
    port = _SENTINEL_PORT if parts.scheme.endswith("sentinel") else _REDIS_PORT
    hosts = parts.netloc.rpartition("@")[2].split(",")
    return [_host_and_port(host, port) for host in hosts]


async def check_redis_answers(url: str, shown: str) -> None:
    """Raise `BusUnavailable` when no server of the URL takes a connection. `shown` is the URL without its password."""
    reasons: list[str] = []
    for address in redis_addresses(url):
        try:
            await asyncio.wait_for(_touch(address), CONNECT_TIMEOUT_S)
        except OSError as error:  # a TimeoutError is one
            reasons.append(_why(error))
        else:
            return
    raise BusUnavailable(
        f"Redis at {shown} cannot be reached ({', '.join(dict.fromkeys(reasons))}): "
        "start it, correct redis.url, or leave redis.url empty for the built-in Valkey"
    )


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """An HTTP answer, as far as a health check looks: status and JSON body, `{}` when it is none."""

    status: int
    body: Any


async def http_get(host: str, port: int, path: str, *, timeout_s: float = CONNECT_TIMEOUT_S) -> HttpAnswer | None:
    """Make one GET request without a client library. None when nobody answers."""
    with contextlib.suppress(OSError, TimeoutError, ValueError):
        return await asyncio.wait_for(_get(host, port, path), timeout_s)
    return None


async def _get(host: str, port: int, path: str) -> HttpAnswer:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(f"GET {path} HTTP/1.0\r\nHost: {at(host, port)}\r\nConnection: close\r\n\r\n".encode())
        await writer.drain()
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    finally:
        writer.close()
    status = int(head.split(maxsplit=2)[1])
    try:
        return HttpAnswer(status, json.loads(body))
    except ValueError:
        return HttpAnswer(status, {})


async def _touch(address: tuple[str, int] | str) -> None:
    if isinstance(address, str):
        _, writer = await asyncio.open_unix_connection(address)
    else:
        _, writer = await asyncio.open_connection(*address)
    writer.close()


def _why(error: OSError) -> str:
    """Return the system's own words for an error; asyncio's repeat the address."""
    return os.strerror(error.errno).lower() if error.errno else str(error) or "no answer in time"


def _host_and_port(text: str, default: int) -> tuple[str, int]:
    parts = urlsplit(f"//{text}")
    return parts.hostname or "127.0.0.1", parts.port or default


_FOREWORD: Final = "trivet: "


async def said_by_agent(module: str, *words: str, environ: Mapping[str, str], within_s: float) -> str:
    """Run a program of the agent role and return its output. Raises `TimeoutError`, and `ConfigError` with its reason
    if it fails."""
    trying = await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, *words, env=environ, stdin=DEVNULL, stdout=PIPE, stderr=PIPE
    )
    try:
        async with asyncio.timeout(within_s):
            said, complaints = await trying.communicate()
    except TimeoutError:
        trying.kill()
        await trying.wait()
        raise
    if trying.returncode:
        raise ConfigError(complaints.decode(errors="replace").strip().rpartition("\n")[2].removeprefix(_FOREWORD))
    return said.decode().strip()
