"""The servers that a redis.url names, and clients for them.

    redis:// rediss:// unix://                         one server
    redis+sentinel://host:port,host:port/service/0     the primary of `service`, wherever it is now
    redis+cluster://host:port,host:port                any nodes of a Cluster; the others are learned

Each has a form with TLS (`rediss+…`). No message of this module ever contains a password.

A role has ordered connections for its commands (`PipelinedConnection`) and a pool for what blocks: waits, stream
reads, subscriptions; its heartbeat has connections of its own, in threads of its own.

redis-py finds the server, connects, encrypts and logs in. Then a `ServerConnection` takes the socket over, because
redis-py's way of a command, with a task, a pipeline and a timer for each, costs several times what the command does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

import hiredis
import redis
from redis._parsers.response_callbacks import get_response_callbacks
from redis.asyncio import Connection, ConnectionPool, Redis, Sentinel
from redis.asyncio.connection import DefaultParser, parse_url
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import SentinelConnectionPool
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError, DataError, RedisError, TimeoutError
from redis.retry import Retry as BlockingRetry

from gateway.bus.scripts import Command, all_scripts
from gateway.contracts.errors import ConfigError
from gateway.limits import BUS_CONNECT_TIMEOUT_S, BUS_WAIT_MAX_S, COMMAND_TIMEOUT_S, DISCOVERY_TIMEOUT_S
from gateway.tasks import cancel_reliably

_PORT: Final = 6379
_SENTINEL_PORT: Final = 26379
_POOL_MAX: Final = 64  # subscriptions of one role: a handful per channel or worker
_PLAIN: Final[dict[str, Any]] = {"driver_info": None, "protocol": 2}
_SHAPES: Final = get_response_callbacks(user_protocol=2, legacy_responses=True)
_T = TypeVar("_T")
_LOGIN_OPTIONS: Final = {"sentinel_username": "username", "sentinel_password": "password"}


class Arrangement(StrEnum):
    """The arrangement of the servers of a URL."""

    ONE = "one server"
    SENTINEL = "primary of a Sentinel set"
    CLUSTER = "Cluster"


_SCHEMES: Final = {
    "redis": Arrangement.ONE,
    "rediss": Arrangement.ONE,
    "unix": Arrangement.ONE,
    "redis+sentinel": Arrangement.SENTINEL,
    "rediss+sentinel": Arrangement.SENTINEL,
    "redis+cluster": Arrangement.CLUSTER,
    "rediss+cluster": Arrangement.CLUSTER,
}


class ServerNode(NamedTuple):
    """One listening server."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Address:
    """A URL, understood. `where` is it without user and password, fit for any log.

    `nodes` are the Sentinels, or some nodes of the Cluster; none for one server. `login` and `query` are
    those parts of the URL as they are there."""

    url: str
    where: str
    arrangement: Arrangement
    is_tls: bool
    nodes: tuple[ServerNode, ...]
    service: str
    database: int
    login: str
    query: str
    sentinel_login: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, url: str) -> Address:
        """Parse a URL. Raises `ConfigError` for a URL that cannot be used."""
        parts = _split(url)
        arrangement = _SCHEMES.get(parts.scheme)
        if arrangement is None:
            raise ConfigError(
                "redis.url must begin with redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://"
            )
        login, _, hosts = parts.netloc.rpartition("@")
        nodes = () if arrangement is Arrangement.ONE else _nodes(hosts, arrangement)
        service, database = _service_and_database(parts, arrangement)
        _check_options(parts, arrangement)
        return cls(
            url=url,
            where=_where(parts, nodes),
            arrangement=arrangement,
            is_tls=parts.scheme.startswith("rediss"),
            nodes=nodes,
            service=service,
            database=database,
            login=login,
            query="&".join(word for word in parts.query.split("&") if not word.startswith("sentinel_")),
            sentinel_login=tuple(
                (_LOGIN_OPTIONS[option], values[0])
                for option, values in parse_qs(parts.query).items()
                if option in _LOGIN_OPTIONS
            ),
        )

    def url_of(self, node: ServerNode) -> str:
        """Return the URL of one data server among several, with the same user, password and options."""
        login = f"{self.login}@" if self.login else ""
        scheme = "rediss" if self.is_tls else "redis"
        return f"{scheme}://{login}{node}/{self.database}{'?' if self.query else ''}{self.query}"


class Server:
    """The servers of one URL. `node` is asked of a Cluster only, whose nodes are clients of their own."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.where = address.where

    @classmethod
    def at(cls, url: str) -> Server:
        """Return the server of a URL. Raises `ConfigError` for a URL that cannot be used."""
        return cls(Address.of(url))

    @property
    def is_cluster(self) -> bool:
        return self.address.arrangement is Arrangement.CLUSTER

    def line_client(self, node: ServerNode | None = None) -> Redis:
        """Return a client for ordered lines, each of which needs one connection; it loads the scripts on each."""
        return self._client(node, socket_timeout=COMMAND_TIMEOUT_S, redis_connect_func=_shake_hands)

    def pool_client(self, node: ServerNode | None = None) -> Redis:
        """Return a client for reads that block up to `BUS_WAIT_MAX_S`, each on a connection of its own."""
        return self._client(node, max_connections=_POOL_MAX, socket_timeout=BUS_WAIT_MAX_S + COMMAND_TIMEOUT_S)

    def discovery_client(self, node: ServerNode) -> Redis:
        """Return a client that asks one node of a Cluster who owns what: it must answer at once or not at all."""
        return self._client(node, max_connections=1, socket_timeout=DISCOVERY_TIMEOUT_S)

    def heartbeat_client(self, node: ServerNode | None = None) -> redis.Redis:
        """Open a client for the thread of a heartbeat."""
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

    def _client(self, node: ServerNode | None, **settings: Any) -> Redis:
        settings |= {
            "client_name": "trivet",
            "retry": Retry(NoBackoff(), 0),
            "socket_connect_timeout": BUS_CONNECT_TIMEOUT_S,
            **_PLAIN,
        }
        if self.address.arrangement is Arrangement.SENTINEL:
            return _usable(lambda: self._watched(settings))
        pool: ConnectionPool = _usable(lambda: ConnectionPool.from_url(self._url(node), **settings))
        _usable(pool.make_connection)  # which looks at the options first
        return Redis.from_pool(pool)

    def _watched(self, settings: dict[str, Any]) -> Redis:
        logins = self._sentinel_settings(Retry)
        watch = Sentinel(self.address.nodes, sentinel_kwargs=logins)  # type: ignore[no-untyped-call]
        primary: Redis = watch.master_for(self.address.service, **self._shared_settings(), **settings)
        return primary

    def _url(self, node: ServerNode | None) -> str:
        return self.address.url if node is None else self.address.url_of(node)

    def _shared_settings(self) -> dict[str, Any]:
        """Return the URL's user, password, database and TLS, for a server whose host is not known yet."""
        settings: dict[str, Any] = dict(parse_url(self.address.url_of(ServerNode("any", 1))))
        for word in ("host", "port", "connection_class"):
            settings.pop(word, None)
        return settings | ({"ssl": True} if self.address.is_tls else {})

    def _sentinel_settings(self, retry: Callable[[NoBackoff, int], object]) -> dict[str, Any]:
        """Return the settings for Sentinels, which have a login of their own, by default none; TLS is as for the
        servers they watch."""
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
        raise ConfigError(f"redis.url cannot be used: unknown option or value ({type(error).__name__})") from None


async def _shake_hands(connection: Connection) -> None:
    """Shake hands, then load every script: one answered late could let a later message overtake."""
    await connection.on_connect()
    scripts = all_scripts()
    for script in scripts:
        await connection.send_command("SCRIPT", "LOAD", script.text, check_health=False)
    for _ in scripts:
        await connection.read_response()


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


def pack(command: Command) -> bytes:
    """Return a command as it travels; its first word may be two, as "SCRIPT LOAD". Raises `DataError`."""
    name, *arguments = command
    words = name.split() if isinstance(name, str) else [name]
    try:
        packed: bytes = hiredis.pack_command((*words, *arguments))
    except (TypeError, UnicodeEncodeError) as error:
        raise DataError(f"{name!r} has an argument that cannot be sent: {error}") from None
    return packed


def shaped(command: Command, answer: Any) -> Any:
    """Return the answer to a command as redis-py gives it: a hash as a dict, the entries of a stream as pairs."""
    shape = _SHAPES.get(str(command[0]))
    return answer if shape is None else shape(answer)


class ServerConnection(asyncio.Protocol):
    """One socket on which commands go out as they are written, and whose answers come back in the same order.

    `listen` says who takes the answers and hears of the end. A connection that ended gives no more answers, whatever
    arrives; one that owes answers and is silent for `patience_s` is ended, for it may be half open."""

    def __init__(self, transport: asyncio.Transport, *, patience_s: float, forget: Callable[[], None]) -> None:
        """Speak over `transport`; `forget` tells redis-py, which holds it too, when it is closed."""
        self.is_open = True
        self._transport = transport
        self._patience_s = patience_s
        self._forget = forget
        self._loop = asyncio.get_running_loop()
        self._reader = hiredis.Reader(protocolError=ConnectionError, replyError=DefaultParser.parse_error)
        self._owed = 0
        self._heard_at_s = 0.0
        self._watch: asyncio.TimerHandle | None = None
        self._on_answers: Callable[[Sequence[Any]], None] = _nobody
        self._on_end: Callable[[Exception], None] = _nobody

    @classmethod
    async def to(cls, client: Redis) -> ServerConnection:
        """Connect to the server of `client`, which says with whom and how. Raises what redis and sockets raise."""
        connection: Any = client.connection_pool.make_connection()  # type: ignore[no-untyped-call]
        try:
            await cancel_reliably(connection.connect())
        except BaseException:
            connection._close()
            raise
        transport = connection._writer.transport
        taken = cls(transport, patience_s=connection.socket_timeout, forget=connection._close)
        transport.set_protocol(taken)
        return taken

    def listen(self, on_answers: Callable[[Sequence[Any]], None], on_end: Callable[[Exception], None]) -> None:
        """Give answers, errors of the server among them, to `on_answers` as they come; if the connection ends by
        itself `on_end` hears why, once."""
        self._on_answers, self._on_end = on_answers, on_end

    def write(self, packed: bytes, answers: int) -> None:
        """Send packed commands that will be answered by so many answers."""
        if not self._owed:
            self._heard_at_s = self._loop.time()
            if self._watch is None:
                self._watch = self._loop.call_later(self._patience_s, self._look)
        self._owed += answers
        self._transport.write(packed)

    def close(self) -> None:
        """Hang up, at once and without a word to the listener."""
        self.is_open = False
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        self._transport.abort()
        self._forget()

    def data_received(self, data: bytes) -> None:
        """Take what has arrived, cut anywhere."""
        if not self.is_open:
            return
        answers: list[Any] = []
        broken: Exception | None = None
        try:
            self._reader.feed(data)
            while (answer := self._reader.gets()) is not False:  # RESP2 knows no booleans
                answers.append(answer)
        except ConnectionError as error:
            broken = error
        if len(answers) > self._owed:
            broken = ConnectionError("the server gave an answer that nobody asked for")
            del answers[self._owed :]
        self._owed -= len(answers)
        self._heard_at_s = self._loop.time()
        if answers:
            self._on_answers(answers)
        if broken is not None:
            self._end(broken)

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the socket is closed."""
        self._end(ConnectionError(f"the connection was lost ({exc or 'closed by the server'})"))

    def _look(self) -> None:
        """End a connection that owes answers and is silent; one timer serves all commands of a while."""
        self._watch = None
        if not self._owed:
            return
        left_s = self._heard_at_s + self._patience_s - self._loop.time()
        if left_s <= 0:
            self._end(TimeoutError(f"no answer within {self._patience_s:g} s"))
        else:
            self._watch = self._loop.call_later(left_s, self._look)

    def _end(self, error: Exception) -> None:
        if self.is_open:
            self.close()
            self._on_end(error)


def _nobody(_: object) -> None:
    """Listen to a connection that nobody uses just now."""


def _split(url: str) -> SplitResult:
    """Split a URL into its parts. Raises `ConfigError`."""
    try:
        parts = urlsplit(url)
        if "," not in parts.netloc:
            _ = parts.port
    except ValueError:
        raise ConfigError(
            "redis.url is malformed; expected redis://[user:password@]host[:port][/number], "
            "special characters of the password written as %40 and the like"
        ) from None
    return parts


def _nodes(hosts: str, arrangement: Arrangement) -> tuple[ServerNode, ...]:
    default = _SENTINEL_PORT if arrangement is Arrangement.SENTINEL else _PORT
    found = [_split(f"//{host}") for host in hosts.split(",") if host]
    nodes = tuple(ServerNode(part.hostname, part.port or default) for part in found if part.hostname)
    if not nodes:
        raise ConfigError("redis.url names no host: expected host:port[,host:port…] after ://")
    return nodes


def _service_and_database(parts: SplitResult, arrangement: Arrangement) -> tuple[str, int]:
    words = [unquote(word) for word in parts.path.split("/") if word]
    match arrangement:
        case Arrangement.SENTINEL:
            if not 1 <= len(words) <= 2 or not all(word.isdecimal() for word in words[1:]):
                raise ConfigError(
                    "redis.url: redis+sentinel:// must name the service that the Sentinels watch, "
                    "as redis+sentinel://host:26379/mymaster[/number]"
                )
            return words[0], int(words[1]) if len(words) == 2 else 0
        case Arrangement.CLUSTER:
            if words not in ([], ["0"]):
                raise ConfigError("redis.url: a Cluster has no database but 0; give redis+cluster:// no path")
        case Arrangement.ONE:
            if parts.scheme == "unix" and not parts.path:
                raise ConfigError(
                    "redis.url: unix:// must be followed by the path of a socket, as unix:///run/redis.sock"
                )
    return "", 0


def _check_options(parts: SplitResult, arrangement: Arrangement) -> None:
    for option in parse_qs(parts.query):
        is_login = arrangement is Arrangement.SENTINEL and option in _LOGIN_OPTIONS
        is_database = arrangement is Arrangement.ONE and option == "db"
        is_tls = parts.scheme.startswith("rediss") and option.startswith("ssl_")
        if not (is_login or is_database or is_tls):
            raise ConfigError(
                f"redis.url: the option {option} is not supported; db is, with rediss ssl_…, "
                "and for Sentinels sentinel_username and sentinel_password"
            )


def _where(parts: SplitResult, nodes: tuple[ServerNode, ...]) -> str:
    if nodes:
        return f"{parts.scheme}://{','.join(map(str, nodes))}{parts.path}"
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname or ''}{port}{parts.path}"
