"""What the errors of Redis mean to us, and whether a server can serve us. No message ever contains the password."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from redis.asyncio import Redis
from redis.asyncio.sentinel import MasterNotFoundError, SentinelConnectionPool
from redis.exceptions import (
    AskError,
    AuthenticationError,
    AuthorizationError,
    BusyLoadingError,
    ClusterDownError,
    ConnectionError,
    DataError,
    MovedError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TimeoutError,
    TryAgainError,
)

from gateway.bus.keys import ShardKeys
from gateway.contracts.errors import BusError, BusUnavailable, ConfigError
from gateway.limits import INSTALLATION_WAIT_S

LAYOUT_VERSION: Final = 1
INSTALLATION_FIELD: Final = "installation"
"""Of `meta`: whose the bus is."""
_LOOK_EVERY_S: Final = 0.1
OLDEST_SERVER: Final = (6, 2)
_PASSING: Final = ("MISCONF", "BUSY ", "NOREPLICAS")
"""First words of a server that will serve us again without anybody changing our configuration, where redis-py
has no class for them."""
_PASSING_CLASSES: Final = (
    ConnectionError,
    TimeoutError,
    BusyLoadingError,
    ReadOnlyError,
    AskError,  # and MovedError: somebody else serves the slot
    TryAgainError,
    ClusterDownError,  # and MasterDownError
    OSError,
)


class Refused(BusError):
    """Redis understood a command and would not do it. `code` is the first word of its answer, as `NOGROUP`."""

    def __init__(self, message: str, *, code: str) -> None:
        super().__init__(message)
        self.code = code


def _unwrapped(error: Exception) -> Exception:
    """redis-py hides what a server on a unix socket refused us for in a plain `ConnectionError`."""
    cause = error.__cause__
    return cause if type(error) is ConnectionError and isinstance(cause, RedisError) else error


def is_passing(error: Exception) -> bool:
    """True when the same command may succeed in a moment, on the same or a new connection."""
    error = _unwrapped(error)
    if isinstance(error, AuthenticationError | AuthorizationError):
        return False
    if isinstance(error, _PASSING_CLASSES):
        return True
    return isinstance(error, ResponseError) and str(error).startswith(_PASSING)


def translated(error: Exception, where: str) -> BusError | ConfigError:
    """What a redis error means: `BusUnavailable` to try again, `ConfigError` for the operator, `BusError` else."""
    error = _unwrapped(error)
    if isinstance(error, AuthenticationError | AuthorizationError | NoPermissionError):
        return ConfigError(f"Redis at {where} refused us: check user, password and rights in redis.url")
    if isinstance(error, MasterNotFoundError):
        return BusUnavailable(f"the Sentinels at {where} name no primary: start it, or correct redis.url")
    if isinstance(error, MovedError):
        return ConfigError(f"Redis at {where} is a node of a Cluster: write redis+cluster:// in redis.url")
    if type(error) is RedisError:  # what redis-py says of settings it cannot work with
        return ConfigError(f"redis.url cannot be used for {where}: {_reason(error)}")
    if isinstance(error, OutOfMemoryError):
        return BusUnavailable(
            f"Redis at {where} is full: what is said waits until there is room; raise redis.memory_mb, or its maxmemory"
        )
    if is_passing(error):
        return BusUnavailable(f"Redis at {where} does not answer ({_reason(error)}): start it, or correct redis.url")
    if isinstance(error, DataError | ResponseError):
        return Refused(f"Redis at {where} refused a command: {_reason(error)}", code=str(error).partition(" ")[0])
    return BusUnavailable(f"Redis at {where} failed: {_reason(error)}")


def _reason(error: Exception) -> str:
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__


async def check_server(client: Redis, where: str, *, shards: int, installation: str | None) -> str:
    """The installation that the bus belongs to; raises as `settle_installation` does, and `ConfigError` for a server
    too old, or laid out for another number of shards."""
    version = str((await client.info("server")).get("redis_version", "0"))
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST_SERVER:
        raise ConfigError(f"Redis at {where} is version {version}; Trivet needs Redis 6.2 or newer, or Valkey")
    await check_layout(client, where, shards=shards)
    return await settle_installation(client, where, installation)


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


async def settle_installation(client: Redis, where: str, wanted: str | None) -> str:
    """The installation that the bus belongs to. The first that has a database tells it (`wanted`); those without one
    take what the bus says, and wait until it does.

    Raises `ConfigError` when it belongs to another, `BusUnavailable` when nobody has told it INSTALLATION_WAIT_S later.
    """
    meta = ShardKeys(0).meta
    if wanted is not None:
        await client.hsetnx(meta, INSTALLATION_FIELD, wanted)
    give_up_at = asyncio.get_running_loop().time() + INSTALLATION_WAIT_S
    while True:
        present: Any = await client.hget(meta, INSTALLATION_FIELD)
        if present is not None:
            refuse_foreign(present.decode(), where, wanted)
            return str(present.decode())
        if asyncio.get_running_loop().time() > give_up_at:
            raise BusUnavailable(f"Redis at {where} does not say yet whose it is: start `trivet agent`, which tells it")
        await asyncio.sleep(_LOOK_EVERY_S)


def refuse_foreign(present: str, where: str, wanted: str | None) -> None:
    """Raises `ConfigError` when the bus at `where` belongs to `present` and not to `wanted`."""
    if wanted not in (None, present):
        raise ConfigError(
            f"Redis at {where} belongs to the installation {present}, the database to {wanted}: give this Trivet a "
            "server or a database number of its own in redis.url; or, if both are its own, stop it and run "
            "`trivet installation --take-bus`"
        )


async def close_client(client: Redis) -> None:
    """Close a client and its connections; a server that is gone is no reason to fail now."""
    pool = client.connection_pool
    try:
        await client.aclose()
        await pool.disconnect()
        if isinstance(pool, SentinelConnectionPool):
            await pool.sentinel_manager.aclose()
    except (RedisError, OSError):
        return
