"""What the database and the logs of a fleet know of one word: for the report of a failed run."""

from __future__ import annotations

from typing import Any, Final

from tests.parts.fleet import Fleet

_LINES_MAX: Final = 40
_STATEMENTS: Final = {
    "entries": "SELECT message_id, turn_id, role, seq FROM entries WHERE text ~ $1 ORDER BY session_id, seq",
    "turns": "SELECT id, key, state, runs, error_reference FROM turns WHERE id = ANY($1::text[])",
    "consumed": "SELECT message_id, turn_id FROM consumed WHERE turn_id = ANY($1::text[])",
    "outbox": "SELECT id, state FROM outbox WHERE turn_id = ANY($1::text[])",
}


async def trace_of(fleet: Fleet, word: str) -> str:
    """Every row and log line that leads from the word to its answers."""
    entries = await fleet.database.fetch(_STATEMENTS["entries"], rf"\y{word}\y")
    turns = sorted({row["turn_id"] for row in entries if row["turn_id"]})
    lines = [f"== {word}", *_rows("entries", entries)]
    for table in ("turns", "consumed", "outbox"):
        lines += _rows(table, await fleet.database.fetch(_STATEMENTS[table], turns))
    ids = {*turns, *(row["message_id"] for row in entries if row["message_id"])}
    return "\n".join(lines + (fleet.log_lines(*ids)[:_LINES_MAX] if ids else []))


def _rows(table: str, rows: list[Any]) -> list[str]:
    return [f"  {table}: {dict(row)}" for row in rows]
