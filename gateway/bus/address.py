"""What a redis.url says: one server, a set watched by Sentinels, or a Cluster. No I/O.

    redis:// rediss:// unix://                         one server
    redis+sentinel://host:port,host:port/service/0     the primary of `service`, wherever it is now
    redis+cluster://host:port,host:port                any nodes of a Cluster; the others are learned

Each has a form with TLS (`rediss+…`). No message of this room ever contains a password.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from gateway.contracts.errors import ConfigError

_PORT: Final = 6379
_SENTINEL_PORT: Final = 26379
_LOGIN_OPTIONS: Final = {"sentinel_username": "username", "sentinel_password": "password"}


class Arrangement(StrEnum):
    """How the servers behind a URL stand together."""

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


class Node(NamedTuple):
    """One listening server."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Address:
    """A URL, understood. `where` is it without user and password, fit for any log.

    `nodes` are the Sentinels, or some nodes of the Cluster; none for one server. `login` and `query` are
    those parts of the URL as they stand there.
    """

    url: str
    where: str
    arrangement: Arrangement
    is_tls: bool
    nodes: tuple[Node, ...]
    service: str
    database: int
    login: str
    query: str
    sentinel_login: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, url: str) -> Address:
        """Raises `ConfigError` for a URL that cannot be used."""
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

    def url_of(self, node: Node) -> str:
        """The URL of one data server among several, with the same user, password and options."""
        login = f"{self.login}@" if self.login else ""
        scheme = "rediss" if self.is_tls else "redis"
        return f"{scheme}://{login}{node}/{self.database}{'?' if self.query else ''}{self.query}"


def _split(url: str) -> SplitResult:
    """The parts of a URL. Raises `ConfigError`."""
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


def _nodes(hosts: str, arrangement: Arrangement) -> tuple[Node, ...]:
    default = _SENTINEL_PORT if arrangement is Arrangement.SENTINEL else _PORT
    found = [_split(f"//{host}") for host in hosts.split(",") if host]
    nodes = tuple(Node(part.hostname, part.port or default) for part in found if part.hostname)
    if not nodes:
        raise ConfigError("redis.url names no host: expected host:port[,host:port…] behind ://")
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
        if not (is_login or is_database or option.startswith("ssl_")):
            raise ConfigError(
                f"redis.url: the option {option} is not supported; db and ssl_… are, "
                "and for Sentinels sentinel_username and sentinel_password"
            )


def _where(parts: SplitResult, nodes: tuple[Node, ...]) -> str:
    if nodes:
        return f"{parts.scheme}://{','.join(map(str, nodes))}{parts.path}"
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname or ''}{port}{parts.path}"
