"""In which line of a TOML text each key stands. Pure; `tomllib` parses values but forgets places."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from typing import Any


def flatten(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys and values of all leaves; an empty table is a leaf of its own."""
    for name, value in table.items():
        if isinstance(value, Mapping) and value:
            yield from flatten(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def lines_of_keys(text: str) -> dict[str, int]:
    """Dotted key -> line, counted from 1, of a valid TOML text.

    Each statement of TOML is a valid document by itself, so lines are gathered until they parse.
    """
    found: dict[str, int] = {}
    prefix, gathered, start = "", "", 1
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        if not gathered:
            start = number
        gathered += line
        try:
            statement = tomllib.loads(gathered)
        except tomllib.TOMLDecodeError:
            continue
        if gathered.lstrip().startswith("["):
            prefix = "".join(f"{name}." for name in _path(statement))
            found.setdefault(prefix[:-1], start)
        else:
            found.update((prefix + key, start) for key, _ in flatten(statement))
        gathered = ""
    return found


def _path(header: Mapping[str, Any]) -> Iterator[str]:
    """The names in `[a.b.c]`, from what it parses to."""
    table: Any = header
    while isinstance(table, Mapping) and table:
        name, table = next(iter(table.items()))
        yield name
