"""db_query: questions to the operator's databases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from agent.limits import QUERIES_MAX, QUERIES_OWNER_MAX
from agent.model.client import ToolSpec
from agent.running.slots import Slots
from agent.tools.permissions import Risk
from agent.tools.tool import AbsentTool, Tool, ToolContext
from gateway.contracts.errors import QueryRefused, ToolError
from gateway.limits import FOREIGN_STATEMENT_CHARS_MAX

if TYPE_CHECKING:
    from gateway.store.foreign import ForeignDatabases, Rows  # its SQLAlchemy would make the start slow

_NAME: Final = "db_query"
_CATEGORY: Final = "databases"


def database_tools(databases: ForeignDatabases) -> tuple[Sequence[Tool], Sequence[AbsentTool]]:
    """db_query, if a database is configured. It is no reading in the policy's sense: the operator's data is not
    every guest's."""
    if not databases.names:
        return (), (AbsentTool(_NAME, _CATEGORY, "no database is configured", Risk.READ),)
    spec = ToolSpec(
        _NAME,
        "Ask a database with one SQL statement that only reads: SELECT, WITH or VALUES.",
        {
            "type": "object",
            "properties": {
                "database": {"type": "string", "enum": list(databases.names)},
                "statement": {"type": "string", "minLength": 1, "maxLength": FOREIGN_STATEMENT_CHARS_MAX},
            },
            "required": ["database", "statement"],
        },
    )

    slots = Slots(QUERIES_MAX, QUERIES_OWNER_MAX)

    async def run(context: ToolContext, arguments: Mapping[str, Any]) -> str:
        try:
            async with slots.held(context.owner):
                return as_table(await databases.ask(arguments["database"], arguments["statement"]))
        except QueryRefused as error:
            raise ToolError(str(error)) from error

    return (Tool(spec, _CATEGORY, Risk.NETWORK, run, foreign=True),), ()


def as_table(found: Rows) -> str:
    """Rows as a Markdown table, with a last line that counts them."""
    if not found.columns:
        return "The statement gave no rows."
    lines = [_line(found.columns), _line(["---"] * len(found.columns)), *map(_line, found.rows)]
    count = f"{len(found.rows)} {'row' if len(found.rows) == 1 else 'rows'}"
    return "\n".join([*lines, "", f"({'only the first ' if found.is_cut else ''}{count})"])


def _line(cells: Sequence[str | None]) -> str:
    shown = ("NULL" if cell is None else cell.replace("|", "\\|").replace("\n", " ") for cell in cells)
    return f"| {' | '.join(shown)} |"
