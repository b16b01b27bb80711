"""Connections to Redis from a URL, and what its errors mean to us.

A role has one ordered line for its commands (see `line.py`) and a pool for what blocks: waits,
stream reads, subscriptions. No message of this room ever contains the password.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import SplitResult, parse_qs, urlsplit

from redis.asyncio import Connection, ConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    BusyLoadingError,
    ConnectionError,
    DataError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TimeoutError,
)

from gateway.bus.keys import ShardKeys
from gateway.bus.scripts import all_scripts
from gateway.contracts.errors import BusError, BusUnavailable, ConfigError
from gateway.limits import BUS_WAIT_MAX_S, COMMAND_TIMEOUT_S

LAYOUT_VERSION: Final = 1
OLDEST_SERVER: Final = (6, 2)
_SCHEMES: Final = ("redis", "rediss", "unix")
_NOT_YET: Final = ("redis+sentinel", "redis+cluster")
_POOL_MAX: Final = 64  # blocking reads of one role: a handful per channel or worker
_PASSING: Final = ("LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MISCONF", "BUSY ", "NOREPLICAS")
"""Answers of a server that will serve us again without anybody changing our configuration."""


@dataclass(frozen=True, slots=True)
class Server:
    """Where Redis is. `where` is the address without user and password, fit for any log."""

    url: str
    where: str

    @classmethod
    def at(cls, url: str) -> Server:
        """Raises `ConfigError` for a URL that cannot be used."""
        parts = _split(url)
        if parts.scheme in _NOT_YET:
            raise ConfigError(
                f"redis.url: {parts.scheme}:// is not supported yet; use redis://, rediss:// or unix:// to one server"
            )
        if parts.scheme not in _SCHEMES:
            raise ConfigError("redis.url must begin with redis://, rediss:// or unix://")
        if parts.scheme == "unix" and not parts.path:
            raise ConfigError("redis.url: unix:// must be followed by the path of a socket, as unix:///run/redis.sock")
        for option in parse_qs(parts.query):
            if option != "db" and not option.startswith("ssl_"):
                raise ConfigError(f"redis.url: the option {option} is not supported; db and ssl_… are")
        return cls(url, _without_secrets(parts))

    def line_client(self) -> Redis:
        """A client with exactly one connection, which loads the scripts whenever it connects."""
        return self._client(max_connections=1, socket_timeout=COMMAND_TIMEOUT_S, redis_connect_func=_greet)

    def pool_client(self) -> Redis:
        """A client for reads that block up to `BUS_WAIT_MAX_S`, each on a connection of its own."""
        return self._client(max_connections=_POOL_MAX, socket_timeout=BUS_WAIT_MAX_S + COMMAND_TIMEOUT_S)

    def _client(self, **settings: Any) -> Redis:
        try:
            pool: ConnectionPool = ConnectionPool.from_url(
                self.url,
                client_name="trivet",
                driver_info=None,
                protocol=2,
                retry=Retry(NoBackoff(), 0),
                **settings,
            )
        except (ValueError, TypeError, RedisError) as error:
            raise ConfigError(f"redis.url cannot be used: wrong value of an option ({type(error).__name__})") from None
        return Redis.from_pool(pool)


class Refused(BusError):
    """Redis understood a command and would not do it. `code` is the first word of its answer, as `NOGROUP`."""

    def __init__(self, message: str, *, code: str) -> None:
        super().__init__(message)
        self.code = code


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise ConfigError(
            "redis.url is malformed; expected redis://[user:password@]host[:port][/number], "
            "special characters of the password written as %40 and the like"
        ) from None
    return parts


def _without_secrets(parts: SplitResult) -> str:
    host = parts.hostname or ""
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{host}{port}{parts.path}"


async def _greet(connection: Connection) -> None:
    """Handshake, then load every script: one answered late could let a later message overtake."""
    await connection.on_connect()
    scripts = all_scripts()
    for script in scripts:
        await connection.send_command("SCRIPT", "LOAD", script.text, check_health=False)
    for _ in scripts:
        await connection.read_response()


def _unwrapped(error: Exception) -> Exception:
    """redis-py hides what a server on a unix socket refused us for in a plain `ConnectionError`."""
    cause = error.__cause__
    return cause if type(error) is ConnectionError and isinstance(cause, RedisError) else error


def is_passing(error: Exception) -> bool:
    """True when the same command may succeed in a moment, on the same or a new connection."""
    error = _unwrapped(error)
    if isinstance(error, AuthenticationError | AuthorizationError):
        return False
    if isinstance(error, ConnectionError | TimeoutError | BusyLoadingError | ReadOnlyError | OSError):
        return True
    return isinstance(error, ResponseError) and str(error).startswith(_PASSING)


def translated(error: Exception, where: str) -> BusError | ConfigError:
    """What a redis error means: `BusUnavailable` to try again, `ConfigError` for the operator, `BusError` else."""
    error = _unwrapped(error)
    if isinstance(error, AuthenticationError | AuthorizationError | NoPermissionError):
        return ConfigError(f"Redis at {where} refused us: check user, password and rights in redis.url")
    if type(error) is RedisError:  # what redis-py says of settings it cannot work with
        return ConfigError(f"redis.url cannot be used for {where}: {_reason(error)}")
    if isinstance(error, OutOfMemoryError):
        return BusUnavailable(f"Redis at {where} is out of memory: raise its maxmemory")
    if is_passing(error):
        return BusUnavailable(f"Redis at {where} does not answer ({_reason(error)}): start it, or correct redis.url")
    if isinstance(error, DataError | ResponseError):
        return Refused(f"Redis at {where} refused a command: {_reason(error)}", code=str(error).partition(" ")[0])
    return BusUnavailable(f"Redis at {where} failed: {_reason(error)}")


def _reason(error: Exception) -> str:
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__


async def check_server(client: Redis, where: str, *, shards: int) -> None:
    """Raises `ConfigError` for a server too old, or laid out for another number of shards."""
    version = str((await client.info("server")).get("redis_version", "0"))
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST_SERVER:
        raise ConfigError(f"Redis at {where} is version {version}; Trivet needs Redis 6.2 or newer, or Valkey")
    await check_layout(client, where, shards=shards)


async def check_layout(client: Redis, where: str, *, shards: int) -> None:
    """The first Trivet on a server writes how keys are laid out; one with another layout is refused."""
    meta = ShardKeys(0).meta
    wanted = {"shards": shards, "layout": LAYOUT_VERSION}
    for field, number in wanted.items():
        await client.hsetnx(meta, field, str(number))
        present = int(await client.hget(meta, field) or 0)
        if present != number:
            raise ConfigError(
                f"Redis at {where} holds a bus with {field} = {present}, this Trivet works with {number}: "
                "use the version that made it, or another database number in redis.url"
            )


async def close_client(client: Redis) -> None:
    """Close a client and its connections; a server that is gone is no reason to fail now."""
    try:
        await client.aclose()
        await client.connection_pool.disconnect()
    except (RedisError, OSError):
        return
