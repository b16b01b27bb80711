"""One question to a SQLite file, in a process of its own that can be killed: within one comparison of two long texts
SQLite looks at no clock and hears no interrupt.

`gateway.store.foreign` runs this file by its path, isolated: it imports the standard library alone and starts in some
30 ms. A JSON object comes in, with the question and its limits; out goes one with `columns` and `rows`, of which there
is one too many where there are more, or with the reason why it is `refused`.

Three locks: the file is opened read-only, `query_only` is set, and an authorizer lets nothing pass but reading (no
ATTACH, no PRAGMA, no extension)."""

from __future__ import annotations

import json
import resource
import sqlite3
import sys
from contextlib import closing, suppress
from typing import Any, Final

_READING: Final = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, 33})
"""33 is SQLITE_RECURSIVE, for which the module has no name."""

_FORBIDDEN_FUNCTIONS: Final = frozenset({"load_extension", "readfile", "writefile", "edit", "fts3_tokenizer"})
_BUSY_S: Final = 5.0  # for a writer to let go of the file
_ONE: Final = "one statement at a time"


def main() -> None:
    """Answer what comes on standard input."""
    asked = json.load(sys.stdin)
    # Take no more of the machine than is given; not every system knows every limit.
    for kind, most in ((resource.RLIMIT_CPU, asked["cpu_s"]), (resource.RLIMIT_AS, asked["memory_bytes"])):
        with suppress(ValueError, OSError):
            resource.setrlimit(kind, (most, most))
    try:
        found = _read(asked)
    except sqlite3.Error as error:
        found = {"refused": _words(error)}
    except sqlite3.Warning:
        found = {"refused": _ONE}
    except MemoryError:
        found = {"refused": "the statement needs too much memory: ask for less"}
    json.dump(found, sys.stdout)


def _read(asked: dict[str, Any]) -> dict[str, Any]:
    place = f"file:{_quoted(asked['path'])}?mode=ro"
    with closing(sqlite3.connect(place, uri=True, timeout=_BUSY_S)) as connection:
        connection.execute("PRAGMA query_only = ON")
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, asked["bytes_max"] * 16)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, asked["pattern_bytes"])
        connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        connection.set_authorizer(_authorize)
        found = connection.execute(asked["statement"])
        columns = [str(column[0]) for column in found.description or ()]
        rows: list[list[str | None]] = []
        left = asked["bytes_max"]
        for row in found:
            cells = [_cell(value, asked["cell_chars"]) for value in row]
            left -= sum(len(cell) for cell in cells if cell)
            rows.append(cells)
            if len(rows) > asked["rows_max"] or left < 0:
                break
        return {"columns": columns, "rows": rows}


def _quoted(path: str) -> str:
    return path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")


def _authorize(action: int, _one: str | None, two: str | None, _database: str | None, _source: str | None) -> int:
    if action == sqlite3.SQLITE_FUNCTION and (two or "").lower() in _FORBIDDEN_FUNCTIONS:
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK if action in _READING else sqlite3.SQLITE_DENY


def _words(error: sqlite3.Error) -> str:
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if code in (sqlite3.SQLITE_AUTH, sqlite3.SQLITE_READONLY):
        return "only reading is allowed here"
    if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_PERM, sqlite3.SQLITE_IOERR):
        return "the database cannot be opened"
    return _ONE if "one statement" in str(error) else str(error)


def _cell(value: object, chars_max: int) -> str | None:
    """Return a value as text, one character longer than may be shown, so that its reader sees that it is cut."""
    if value is None:
        return None
    return f"({len(value)} bytes)" if isinstance(value, bytes) else str(value)[: chars_max + 1]


if __name__ == "__main__":
    main()
