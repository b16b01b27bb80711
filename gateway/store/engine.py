"""One database with two verbs: `write` a transaction, `read` a statement; and the class whose methods are one each.

What is read and written are plain functions of a synchronous connection, the same for both databases. Only how they are
run differs: on PostgreSQL inside SQLAlchemy's greenlet, on SQLite on a thread (`gateway.store.sqlite`). A process on
SQLite loads nothing of PostgreSQL, of the ORM or of greenlets.

Durability. With WAL, `synchronous=NORMAL` survives the death of any process; `FULL` survives a power cut, too, at one
fdatasync per commit. The bus forgets a message once its turn is committed, and syncs its own log at every write, so a
turn is committed with FULL. What the bus would bring again (a turn that has begun, a reply marked as published) is not:
`write_unsynced`.

Errors leave in our words: one sentence with the remedy, never a password or a text.

    locked, unreachable, starting, overloaded   StoreUnavailable   retried by the caller
    tables or columns that are not there        SchemaMismatch     `trivet migrate`
    wrong password, database, file, rights      ConfigError        the operator; retried where it worked before
    anything else                               StoreError         a defect of ours
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractContextManager
from dataclasses import fields
from enum import Enum
from functools import cache, wraps
from importlib import import_module
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Final,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from sqlalchemy import ColumnElement, Dialect, Executable, Row, Table
from sqlalchemy import Connection as SqlalchemyConnection
from sqlalchemy.dialects import sqlite
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from gateway.config.derived import check_installed
from gateway.contracts.envelope import address_from_text, address_to_text
from gateway.contracts.errors import ConfigError
from gateway.contracts.ids import ReplyAddress, SessionKey
from gateway.contracts.messages import CleanText
from gateway.contracts.ports import Clock
from gateway.store.sqlite import SqliteDatabase
from gateway.store.statements import FetchedRows

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql

    from gateway.store.postgres import PostgresDatabase

T = TypeVar("T")
V = TypeVar("V")
A = TypeVar("A", bound="Aggregate")
P = ParamSpec("P")

Insert: TypeAlias = "sqlite.Insert | postgresql.Insert"


class InsertInto(Protocol):
    """`sqlalchemy.dialects.<dialect>.insert`."""

    def __call__(self, table: Table, /) -> Insert: ...


class Connection(Protocol):
    """The connection of a transaction, in the manner of SQLAlchemy's `Connection`; both databases have their own."""

    @property
    def dialect(self) -> Dialect:
        """Return what the database speaks."""

    def execute(self, statement: Executable, parameters: Any = None, /) -> FetchedRows:
        """Run a statement, with a list of parameters once for each of them."""

    def exec_driver_sql(self, statement: str, /) -> FetchedRows:
        """Run a statement in the database's own words."""

    def as_sqlalchemy(self) -> AbstractContextManager[SqlalchemyConnection]:
        """Lend SQLAlchemy's own connection in the same transaction, for what looks at the schema or changes it."""


def per_dialect(describe: Callable[[InsertInto], Executable]) -> Callable[[Connection], Executable]:
    """Return the statement that `describe` builds, for the dialect of a connection."""

    @cache
    def built(dialect: str) -> Executable:
        return describe(import_module(f"sqlalchemy.dialects.{dialect}").insert)

    @wraps(describe)
    def for_connection(connection: Connection) -> Executable:
        return built(connection.dialect.name)

    return for_connection


def upsert(
    table: Table,
    *names: str,
    where: ColumnElement[bool] | None = None,
    returning: Sequence[ColumnElement[Any]] = (),
    **computed: ColumnElement[Any],
) -> Callable[[Connection], Executable]:
    """Describe an INSERT that gives a row with the same key, if it is as `where` says, new values of these columns; a
    `computed` one is worked out of the row that is there."""

    def describe(insert: InsertInto) -> Executable:
        statement = insert(table)
        new = {name: statement.excluded[name] for name in names} | computed
        changed = statement.on_conflict_do_update(index_elements=list(table.primary_key.columns), set_=new, where=where)
        return changed.returning(*returning) if returning else changed

    return per_dialect(describe)


def insert_new(table: Table) -> Callable[[Connection], Executable]:
    """Describe an INSERT that leaves a row with the same key as it is."""
    return per_dialect(lambda insert: insert(table).on_conflict_do_nothing())


VERSION_MIN: Final = (3, 35, 0)
"""The first SQLite with RETURNING."""

_FORMS: Final = "`sqlite+aiosqlite:///<file>` or `postgresql+asyncpg://user:password@host/name`"


Database: TypeAlias = "PostgresDatabase | SqliteDatabase"
"""An open database. Errors of its methods are those of `gateway.contracts.errors`."""


class Aggregate:
    """Tables of one database that belong together. Each method that is marked below is one transaction."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self.database = database
        self.clock = clock


def read(method: Callable[Concatenate[A, Connection, P], T]) -> Callable[Concatenate[A, P], Coroutine[Any, Any, T]]:
    """Run a method with no transaction around it: each statement sees one state of its own."""

    @wraps(method)
    async def run(self: A, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.database.read(lambda connection: method(self, connection, *args, **kwargs))

    return run


def write(method: Callable[Concatenate[A, Connection, P], T]) -> Callable[Concatenate[A, P], Coroutine[Any, Any, T]]:
    """Run a method in one transaction: all of it or nothing."""

    @wraps(method)
    async def run(self: A, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.database.write(lambda connection: method(self, connection, *args, **kwargs))

    return run


def reading(
    work: Callable[Concatenate[Connection, P], T],
) -> Callable[Concatenate[Aggregate, P], Coroutine[Any, Any, T]]:
    """Make a method of a function that is part of other transactions, too: `read` of that function."""

    @wraps(work)
    async def run(self: Aggregate, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.database.read(lambda connection: work(connection, *args, **kwargs))

    return run


def writing(
    work: Callable[Concatenate[Connection, P], T],
) -> Callable[Concatenate[Aggregate, P], Coroutine[Any, Any, T]]:
    """Make a method of a function that is part of other transactions, too: `write` of that function."""

    @wraps(work)
    async def run(self: Aggregate, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.database.write(lambda connection: work(connection, *args, **kwargs))

    return run


def write_unsynced(
    method: Callable[Concatenate[A, Connection, P], T],
) -> Callable[Concatenate[A, P], Coroutine[Any, Any, T]]:
    """Run a method in one transaction that survives the death of every process, but need not survive a power cut."""

    @wraps(method)
    async def run(self: A, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.database.write(lambda connection: method(self, connection, *args, **kwargs), durable=False)

    return run


def open_database(url: str, *, busy_timeout_s: float) -> Database:
    """Open a database; nothing is connected yet. Raises `ConfigError` for a URL that names no database we can use."""
    parsed = _parse(url)
    if parsed.get_backend_name() == "sqlite":
        if sqlite3.sqlite_version_info < VERSION_MIN:
            needed = ".".join(map(str, VERSION_MIN))
            raise ConfigError(f"this Python has SQLite {sqlite3.sqlite_version}, Trivet needs {needed}: update it")
        path = Path(str(parsed.database)).expanduser()
        if ":memory:" in path.name or parsed.query:
            raise ConfigError("database.url must name a plain SQLite file: nothing else keeps what people say")
        _make_private(path)
        return SqliteDatabase(parsed.set(database=str(path)), busy_timeout_s=busy_timeout_s)
    if "sslmode" in parsed.query:
        raise ConfigError("database.url has `sslmode`, which asyncpg spells `ssl`: write `?ssl=require`")
    from gateway.store.postgres import PostgresDatabase  # noqa: PLC0415 - only where there is a server

    return PostgresDatabase(parsed)


def sqlite_file(url: str) -> Path | None:
    """Return the file of a database URL; None for a database on a server. Raises `ConfigError` as `open_database`
    does."""
    parsed = _parse(url)
    return Path(str(parsed.database)).expanduser() if parsed.get_backend_name() == "sqlite" else None


def _parse(url: str) -> URL:
    try:
        parsed = make_url(url)
        (parsed.host or "").encode("idna")  # this and the next: or the connection's own error would say it
        (parsed.port or 0).to_bytes(2)
    except (ArgumentError, ValueError, OverflowError):
        raise ConfigError(f"database.url is not a database URL: write {_FORMS}") from None
    if parsed.drivername not in {"sqlite+aiosqlite", "postgresql+asyncpg"}:
        raise ConfigError(f"database.url uses {parsed.drivername[:40]!r}, which Trivet does not: write {_FORMS}")
    check_installed(parsed.get_backend_name(), "database.url")
    if not parsed.database:
        raise ConfigError(f"database.url names no database: write {_FORMS}")
    return parsed


def _make_private(path: Path) -> None:
    """Create the file and its folder, readable by their owner only; SQLite's side files inherit the mode."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.exists():
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    except OSError as error:
        raise ConfigError(
            f"the database {path} cannot be created ({error.strerror}): set data_dir or database.url to a place "
            "that Trivet may write"
        ) from error


Values = dict[str, Any]
"""Column values by name, as an INSERT takes them."""


def like(words: str) -> str:
    """Return the pattern of LIKE for a text that has these words in it, in small letters."""
    quoted = re.sub(r"([%_\\])", r"\\\1", words.strip().lower())
    return f"%{quoted}%"


def to_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def row_of(table: Table, value: object, **others: object) -> Values:
    """Make a row of a value whose fields are called as the columns of the table: keys, addresses and words of an
    enumeration become text, tuples JSON. `others` are columns that the value lacks or that are kept in another form."""
    kind: Any = type(value)
    names = _columns_of(table, kind)
    return {name: _as_kept(getattr(value, name)) for name in names if name not in others} | others


@cache
def _columns_of(table: Table, kind: Any) -> Sequence[str]:
    """List the columns whose names the values of a kind know."""
    known = {*dir(kind), *(field.name for field in fields(kind))}
    return [column.name for column in table.columns if column.name in known]


def _as_kept(found: Any) -> Any:
    match found:
        case Enum():
            return found.value
        case SessionKey():
            return str(found)
        case ReplyAddress():
            return address_to_text(found)
        case tuple():
            return to_json(found)
        case _:
            return found


def value_of(kind: type[V], row: Row[Any], **others: object) -> V:
    """Read back what `row_of` wrote. `others` are fields that are no column or were kept in another form; a field that
    the row lacks has its default."""
    kept = row._asdict()
    readers = [(name, read) for name, read in _readers(kind) if name not in others and name in kept]
    return kind(**{name: read(kept[name]) for name, read in readers}, **others)


def _readers_of(kind: Any) -> Sequence[tuple[str, Callable[[Any], Any]]]:
    hints = get_type_hints(kind)
    return [(field.name, _reader(hints[field.name])) for field in fields(kind)]


_readers: Final[Callable[[Any], Sequence[tuple[str, Callable[[Any], Any]]]]] = cache(_readers_of)


def _reader(hint: Any) -> Callable[[Any], Any]:
    if get_origin(hint) in (Union, UnionType):
        (inner,) = (_reader(each) for each in get_args(hint) if each is not NoneType)
        return lambda kept: None if kept is None else inner(kept)
    if get_origin(hint) is tuple:
        return lambda kept: tuple(json.loads(kept))
    if hint is SessionKey:
        return SessionKey.parse
    if hint is ReplyAddress:
        return address_from_text
    is_enumeration = isinstance(hint, type) and issubclass(hint, Enum)
    return hint if is_enumeration or hint in (float, CleanText) else lambda kept: kept
