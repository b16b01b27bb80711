"""Clients for the servers behind a redis.url.

A role has ordered lines for its commands (see `line.py`) and a pool for what blocks: waits, stream
reads, subscriptions; its heartbeat has connections of its own, in threads of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import redis
from redis.asyncio import Connection, ConnectionPool, Redis, Sentinel
from redis.asyncio.connection import parse_url
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry as BlockingRetry

from gateway.bus.address import Address, Arrangement, Node
from gateway.bus.scripts import all_scripts
from gateway.contracts.errors import ConfigError
from gateway.limits import BUS_CONNECT_TIMEOUT_S, BUS_WAIT_MAX_S, COMMAND_TIMEOUT_S, DISCOVERY_TIMEOUT_S

_POOL_MAX: Final = 64  # blocking reads of one role: a handful per channel or worker
_PLAIN: Final[dict[str, Any]] = {"driver_info": None, "protocol": 2}
_T = TypeVar("_T")


class Server:
    """The servers of one URL. `node` is asked of a Cluster only, whose nodes are clients of their own."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.where = address.where

    @classmethod
    def at(cls, url: str) -> Server:
        """Raises `ConfigError` for a URL that cannot be used."""
        return cls(Address.of(url))

    @property
    def is_cluster(self) -> bool:
        return self.address.arrangement is Arrangement.CLUSTER

    def line_client(self, node: Node | None = None, *, connections_max: int = 1) -> Redis:
        """A client for ordered lines, each of which needs one connection; it loads the scripts on each."""
        return self._client(
            node, max_connections=connections_max, socket_timeout=COMMAND_TIMEOUT_S, redis_connect_func=_greet
        )

    def pool_client(self, node: Node | None = None) -> Redis:
        """A client for reads that block up to `BUS_WAIT_MAX_S`, each on a connection of its own."""
        return self._client(node, max_connections=_POOL_MAX, socket_timeout=BUS_WAIT_MAX_S + COMMAND_TIMEOUT_S)

    def discovery_client(self, node: Node) -> Redis:
        """A client that asks one node of a Cluster who owns what: it must answer at once or not at all."""
        return self._client(node, max_connections=1, socket_timeout=DISCOVERY_TIMEOUT_S)

    def heartbeat_client(self, node: Node | None = None) -> redis.Redis:
        """A client for the thread of a heartbeat."""
        settings: dict[str, Any] = {
            "client_name": "trivet-heartbeat",
            "retry": BlockingRetry(NoBackoff(), 0),
            "socket_timeout": COMMAND_TIMEOUT_S,
            "socket_connect_timeout": BUS_CONNECT_TIMEOUT_S,
            **_PLAIN,
        }
        if self.address.arrangement is Arrangement.SENTINEL:
            logins = self._sentinel_settings(BlockingRetry)
            watch = redis.Sentinel(self.address.nodes, sentinel_kwargs=logins)  # type: ignore[no-untyped-call]
            primary: redis.Redis = watch.master_for(self.address.service, **self._shared_settings(), **settings)  # type: ignore[no-untyped-call]
            return primary
        return redis.Redis.from_url(self._url(node), **settings)

    def _client(self, node: Node | None, **settings: Any) -> Redis:
        settings |= {
            "client_name": "trivet",
            "retry": Retry(NoBackoff(), 0),
            "socket_connect_timeout": BUS_CONNECT_TIMEOUT_S,
            **_PLAIN,
        }
        if self.address.arrangement is Arrangement.SENTINEL:
            return _usable(lambda: self._watched(settings))
        pool: ConnectionPool = _usable(lambda: ConnectionPool.from_url(self._url(node), **settings))
        return Redis.from_pool(pool)

    def _watched(self, settings: dict[str, Any]) -> Redis:
        logins = self._sentinel_settings(Retry)
        watch = Sentinel(self.address.nodes, sentinel_kwargs=logins)  # type: ignore[no-untyped-call]
        primary: Redis = watch.master_for(self.address.service, **self._shared_settings(), **settings)
        return primary

    def _url(self, node: Node | None) -> str:
        return self.address.url if node is None else self.address.url_of(node)

    def _shared_settings(self) -> dict[str, Any]:
        """What the URL says of user, password, database and TLS, for a server whose host is not known yet."""
        settings: dict[str, Any] = dict(parse_url(self.address.url_of(Node("any", 1))))
        for word in ("host", "port", "connection_class"):
            settings.pop(word, None)
        return settings | ({"ssl": True} if self.address.is_tls else {})

    def _sentinel_settings(self, retry: Callable[[NoBackoff, int], object]) -> dict[str, Any]:
        """Sentinels have a login of their own, by default none; TLS is as for the servers they watch."""
        tls = {name: value for name, value in self._shared_settings().items() if name.startswith("ssl")}
        return {
            **dict(self.address.sentinel_login),
            **tls,
            "socket_timeout": DISCOVERY_TIMEOUT_S,
            "socket_connect_timeout": DISCOVERY_TIMEOUT_S,
            "retry": retry(NoBackoff(), 0),
            **_PLAIN,
        }


def _usable(make: Callable[[], _T]) -> _T:
    try:
        return make()
    except (ValueError, TypeError, RedisError) as error:
        raise ConfigError(f"redis.url cannot be used: wrong value of an option ({type(error).__name__})") from None


async def _greet(connection: Connection) -> None:
    """Handshake, then load every script: one answered late could let a later message overtake."""
    await connection.on_connect()
    scripts = all_scripts()
    for script in scripts:
        await connection.send_command("SCRIPT", "LOAD", script.text, check_health=False)
    for _ in scripts:
        await connection.read_response()
