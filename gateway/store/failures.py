"""What the databases complain about, in our words: one sentence with the remedy, never a password or a text.

locked, unreachable, starting, overloaded   StoreUnavailable   retried by the caller
tables or columns that are not there        SchemaMismatch     `trivet migrate`
wrong password, database, file, rights      ConfigError        the operator
anything else                               StoreError         a defect of ours
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from sqlalchemy import exc
from sqlalchemy.engine import URL

from gateway.contracts.errors import ConfigError, SchemaMismatch, StoreError, StoreUnavailable, TrivetError

NOT_MIGRATED: Final = "the database has no Trivet schema of this version: run `trivet migrate`"

_SQLITE_UNAVAILABLE: Final = {
    sqlite3.SQLITE_BUSY: "is locked by another process",
    sqlite3.SQLITE_LOCKED: "is locked by another connection",
    sqlite3.SQLITE_FULL: "has no room left on its disk",
    sqlite3.SQLITE_IOERR: "cannot be read or written (disk error)",
}
_SQLITE_CONFIG: Final = {
    sqlite3.SQLITE_CANTOPEN: "cannot be opened: check the path and its permissions",
    sqlite3.SQLITE_READONLY: "may not be written: check its permissions",
    sqlite3.SQLITE_PERM: "may not be opened: check its permissions",
    sqlite3.SQLITE_AUTH: "may not be opened: check its permissions",
    sqlite3.SQLITE_NOTADB: "is not an SQLite database: name another file",
    sqlite3.SQLITE_CORRUPT: "is damaged: restore it from a backup",
}

# https://www.postgresql.org/docs/current/errcodes-appendix.html
_POSTGRES_UNAVAILABLE: Final = {
    "08": "closed the connection",
    "25P03": "ended a transaction that stood still",
    "40": "gave another transaction precedence",
    "53": "has no room left (connections, memory or disk)",
    "55": "is locked",
    "57": "is starting, stopping or busy",
}
_POSTGRES_CONFIG: Final = {
    "28": "refused the user or the password of database.url",
    "3D": "has no database of that name: create it, or change database.url",
    "42501": "does not allow this user to use Trivet's tables: grant the rights, or change the user",
}
_POSTGRES_SCHEMA: Final = frozenset({"42P01", "42703", "3F000"})  # no such table, column, schema


@contextmanager
def in_our_words(url: URL) -> Iterator[None]:
    """Every error of the database and its driver leaves as one of `gateway.contracts.errors`."""
    try:
        yield
    except TrivetError:
        raise
    except exc.TimeoutError as error:
        raise StoreUnavailable(f"{_place(url)} is overloaded: no connection became free in time") from error
    except exc.DBAPIError as error:
        raise _from_driver(error, url) from error
    except exc.SQLAlchemyError as error:
        raise StoreError(f"{_place(url)}: {type(error).__name__}") from error
    except OSError as error:
        raise StoreUnavailable(f"{_place(url)} cannot be reached ({_short(error)})") from error


def _from_driver(error: exc.DBAPIError, url: URL) -> TrivetError:
    cause = error.orig
    place = _place(url)
    if isinstance(cause, sqlite3.Error):
        return _from_sqlite(cause, place)
    state = str(getattr(cause, "sqlstate", None) or "")
    if state in _POSTGRES_SCHEMA:
        return SchemaMismatch(NOT_MIGRATED)
    for code in (state, state[:2]):
        if code in _POSTGRES_CONFIG:
            return ConfigError(f"{place} {_POSTGRES_CONFIG[code]}")
        if code in _POSTGRES_UNAVAILABLE:
            return StoreUnavailable(f"{place} {_POSTGRES_UNAVAILABLE[code]}")
    if error.connection_invalidated:
        return StoreUnavailable(f"{place} closed the connection")
    return StoreError(f"{place} refused a statement ({type(cause).__name__} {state})".rstrip())


def _from_sqlite(cause: sqlite3.Error, place: str) -> TrivetError:
    code = getattr(cause, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if code in _SQLITE_UNAVAILABLE:
        return StoreUnavailable(f"{place} {_SQLITE_UNAVAILABLE[code]}")
    if code in _SQLITE_CONFIG:
        return ConfigError(f"{place} {_SQLITE_CONFIG[code]}")
    if "no such table" in str(cause) or "no such column" in str(cause):
        return SchemaMismatch(NOT_MIGRATED)
    return StoreError(f"{place} refused a statement ({getattr(cause, 'sqlite_errorname', type(cause).__name__)})")


def _place(url: URL) -> str:
    """The database as an operator knows it, without user, password and options."""
    if url.get_backend_name() == "sqlite":
        return f"the database {url.database}"
    host = url.host or url.query.get("host") or "localhost"
    port = f":{url.port}" if url.port else ""
    return f"the database {url.database} on {host}{port}"


def _short(error: BaseException) -> str:
    return getattr(error, "strerror", None) or type(error).__name__
