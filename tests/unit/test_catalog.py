"""The catalog of sub-agents: thirteen rows, each with words of its own, changed by configuration and operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from agent.limits import SUB_TYPES_SEEN_WITHIN_S, SUBAGENT_DEPTH_MAX, SUBAGENT_RESULT_CHARS_MAX, SUBAGENTS_LIVE_MAX
from agent.prompts.library import PROFILES, PROMPTS
from agent.subagents.catalog import NOT_AT_THE_BOTTOM, Catalog, SubType
from agent.subagents.protocol import LINE_BYTES_MAX
from agent.tools.files.workspace import Workspaces
from agent.tools.toolbox import open_toolbox
from gateway.clock import SystemClock
from gateway.config.subagents import SubagentSettings
from gateway.config.tools import ToolSettings
from gateway.contracts.ids import WORKSPACES
from gateway.contracts.messages import CleanText, literal_text
from gateway.contracts.profiles import (
    BUILT_IN,
    CONVERSING,
    DELEGATING,
    EVERY_TOOL,
    FILES,
    PROFILE_ROWS,
    RUNNING,
    SEARCHING,
    SUB_TYPE_ROWS,
    changed_rows,
)
from gateway.contracts.subagents import Audited, SubTypeChange
from gateway.limits import (
    SUB_TYPE_DESCRIPTION_CHARS_MAX,
    SUB_TYPE_LABEL_CHARS_MAX,
    SUB_TYPE_PROMPT_CHARS_MAX,
    SUB_TYPE_ROUNDS_MAX,
    SUBTASKS_KEPT,
)
from gateway.scrub import Scrubber
from gateway.store.foreign import ForeignDatabases
from tests.parts.sub_types import CATALOG

DESIGN = """
explore    6   file_read file_search file_list file_tree file_info
general    12  *
plan       8   file_read file_search file_list file_tree file_info
code       10  file_read file_write file_edit file_patch file_delete file_rename file_list file_tree file_info
               file_search file_undo file_redo shell code_exec
research   8   web_search web_fetch file_read file_list file_tree
security   10  file_read file_search file_list file_tree file_info web_search
debug      12  file_read file_write file_edit file_patch file_search file_list file_tree file_info shell code_exec
architect  10  file_read file_search file_list file_tree file_info
devops     12  file_read file_write file_edit file_search file_list file_tree file_info shell web_search
data       12  file_read file_search file_list shell code_exec db_query web_search
ui         12  file_read file_write file_edit file_patch file_search file_list file_tree shell web_search browser
               code_exec
reviewer   10  file_read file_search file_list file_tree file_info web_search
writer     10  file_read file_write file_edit file_search file_list file_tree shell web_search
"""
"""The table as it was designed, spelled a second time on purpose."""

INTENTS: Mapping[str, Sequence[str]] = {
    "explore": ("broad to narrow", "path:line"),
    "general": ("whatever tools you were given",),
    "plan": ("S1", "dependencies", "risks", "rollback"),
    "code": ("Read first", "smallest change", "run the tests"),
    "research": ("two sources", "date", "fact", "opinion"),
    "security": ("severity", "place", "fix", "CWE"),
    "debug": ("History", "Reproduce", "Isolate", "Fix", "Verify", "regression test"),
    "architect": ("two or three options", "numbers", "ADR"),
    "devops": ("Observe first", "least privilege", "reversible"),
    "data": ("Define", "Present", "caveats"),
    "ui": ("WCAG 2.1 AA", "all the states"),
    "reviewer": ("BLOCKER", "SUGGESTION", "NITPICK", "QUESTION"),
    "writer": ("never invent an API",),
}


def designed() -> Mapping[str, tuple[int, frozenset[str]]]:
    """Rounds and tools by type."""
    found: dict[str, tuple[int, frozenset[str]]] = {}
    for line in DESIGN.strip().splitlines():
        name, rounds, *tools = line.split() if not line.startswith(" ") else ("", "", *line.split())
        if name:
            found[name] = (int(rounds), frozenset(tools))
        else:
            last = next(reversed(found))
            found[last] = (found[last][0], found[last][1] | set(tools))
    return found


class Book:
    """`SubTypeStore`, in memory."""

    def __init__(self) -> None:
        self.changed: dict[str, SubTypeChange] = {}
        self.looks = 0

    async def changes(self) -> Mapping[str, SubTypeChange]:
        self.looks += 1
        return dict(self.changed)

    async def put(self, name: str, change: SubTypeChange, *, audited: Audited) -> None:
        self.changed[name] = change

    async def audit(self, *, subject: CleanText | None = None, limit: int) -> Sequence[Audited]:
        return ()


class Hand:
    """A clock whose hand the test moves."""

    def __init__(self) -> None:
        self.at_s = 1_000.0

    def now_ms(self) -> int:
        return int(self.at_s * 1000)

    def monotonic_s(self) -> float:
        return self.at_s

    def new_id(self) -> str:
        return "1"

    def code(self, length: int) -> str:
        return "A" * length


def test_the_rows_are_those_of_the_design() -> None:
    rows = {name: (row.rounds_max, frozenset(row.tools)) for name, row in SUB_TYPE_ROWS.items()}
    assert rows == designed()
    assert len(rows) == 13


def test_the_bounds_are_those_of_the_design() -> None:
    """Spelled a second time, too: the other tests use the names, and would follow a slip of the pen."""
    assert (SUBAGENT_DEPTH_MAX, SUBAGENTS_LIVE_MAX, SubagentSettings().limit_s) == (3, 9, 300)
    assert (SUBAGENT_RESULT_CHARS_MAX, LINE_BYTES_MAX, SUBTASKS_KEPT) == (4_000, 8 * 1024 * 1024, 100)


@pytest.mark.parametrize("sub_type", CATALOG.values(), ids=lambda sub_type: sub_type.name)
def test_a_type_is_told_what_it_is_for_and_what_every_sub_agent_has_to_know(sub_type: SubType) -> None:
    for words in (
        *INTENTS[sub_type.name],
        "goes to the agent that gave you this task",
        "never an instruction",
        "Be brief",
    ):
        assert words in sub_type.prompt
    own = sub_type.prompt.removesuffix(PROMPTS.delegated)
    assert 5 <= len(own.strip().splitlines()) <= 15


def test_there_is_one_prompt_file_for_each_type_and_no_other() -> None:
    files = {file.name for file in resources.files("agent.prompts").joinpath("subagents").iterdir()}
    assert files == {f"{name}.md" for name in CATALOG}
    assert len({sub_type.prompt for sub_type in CATALOG.values()}) == 13


def test_the_rows_keep_the_bounds_that_people_have_to_keep() -> None:
    for row in SUB_TYPE_ROWS.values():
        assert 0 < len(row.label) <= SUB_TYPE_LABEL_CHARS_MAX
        assert 0 < len(row.description) <= SUB_TYPE_DESCRIPTION_CHARS_MAX
        assert 0 < row.rounds_max <= SUB_TYPE_ROUNDS_MAX
        assert len(CATALOG[row.name].prompt) <= SUB_TYPE_PROMPT_CHARS_MAX


async def test_the_rows_name_tools_that_there_are(tmp_path: Path) -> None:
    """Present here, or absent with a reason; a slip of the pen would be a tool that no sub-agent can have."""
    async with open_toolbox(
        ToolSettings(),
        workspaces=Workspaces(tmp_path / WORKSPACES),
        own=(),
        databases=ForeignDatabases({}),
        scrubber=Scrubber(),
        clock=SystemClock(),
    ) as tools:
        named = {tool for row in SUB_TYPE_ROWS.values() for tool in row.tools} - {EVERY_TOOL}
        assert named <= tools.names
        assert {*FILES, *RUNNING, *SEARCHING} <= tools.names <= BUILT_IN


def test_only_the_generalist_has_what_its_parent_has() -> None:
    assert [name for name, sub_type in CATALOG.items() if sub_type.tools is None] == ["general"]
    assert all(EVERY_TOOL not in (sub_type.tools or ()) for sub_type in CATALOG.values())


def test_who_may_delegate_may_do_all_of_it() -> None:
    """And half of a family is no family: who may spawn may wait and cancel."""
    delegating = {name for name, row in PROFILE_ROWS.items() if set(DELEGATING) <= set(row.tools)}
    assert delegating == {"developer", "researcher", "architect", "analyst", "devops"}
    for name in PROFILES.keys() - delegating - {"assistant"}:
        assert set(DELEGATING).isdisjoint(PROFILE_ROWS[name].tools)
    assert set(DELEGATING) >= {*NOT_AT_THE_BOTTOM, *(name for name in CONVERSING if name.startswith("sub_agent"))}


def test_a_change_counts_field_by_field_and_one_of_no_type_not_at_all() -> None:
    changes = {"code": SubTypeChange(rounds_max=3, tools=("file_read",)), "juggler": SubTypeChange(rounds_max=1)}
    rows = changed_rows(SUB_TYPE_ROWS, changes)
    assert list(rows) == list(SUB_TYPE_ROWS)
    assert (rows["code"].rounds_max, rows["code"].tools) == (3, ("file_read",))
    assert rows["code"].label == SUB_TYPE_ROWS["code"].label
    assert all(rows[name] == SUB_TYPE_ROWS[name] for name in rows if name != "code")


class TestCurrent:
    async def test_what_an_operator_said_wins_over_the_configuration(self) -> None:
        book = Book()
        configured = changed_rows(SUB_TYPE_ROWS, {"code": SubTypeChange(rounds_max=3, label=literal_text("Smith"))})
        book.changed["code"] = SubTypeChange(rounds_max=5)
        current = await catalog(book, rows=configured).current()
        assert (current["code"].rounds_max, current["code"].label) == (5, "Smith")
        assert list(current) == list(CATALOG)

    async def test_nothing_said_is_the_table(self) -> None:
        assert await catalog(Book()).current() == CATALOG

    async def test_a_prompt_that_somebody_wrote_keeps_what_every_sub_agent_has_to_know(self) -> None:
        book = Book()
        book.changed["writer"] = SubTypeChange(prompt=literal_text("You write in verse."))
        prompt = (await catalog(book).current())["writer"].prompt
        assert prompt.startswith("You write in verse.\n")
        assert prompt.endswith(PROMPTS.delegated)

    async def test_every_tool_is_what_the_parent_has(self) -> None:
        book = Book()
        book.changed["code"] = SubTypeChange(tools=(EVERY_TOOL,))
        assert (await catalog(book).current())["code"].tools is None

    async def test_the_book_is_asked_once_in_a_while_and_an_edit_is_seen_then(self) -> None:
        book, clock = Book(), Hand()
        rows = catalog(book, clock)
        await rows.current()
        book.changed["code"] = SubTypeChange(rounds_max=1)
        assert (await rows.current())["code"].rounds_max == 10
        assert book.looks == 1
        clock.at_s += SUB_TYPES_SEEN_WITHIN_S
        assert (await rows.current())["code"].rounds_max == 1
        assert book.looks == 2

    async def test_a_tool_that_nobody_knows_is_told_to_the_log_once_and_kept(self) -> None:
        """MCP servers come and go, and their tools with them."""
        book, clock = Book(), Hand()
        book.changed["code"] = SubTypeChange(tools=("sub_agent", "mcp_docs_search"))
        rows = catalog(book, clock)
        with capture_logs() as logs:
            for _ in range(3):
                await rows.current()
                clock.at_s += SUB_TYPES_SEEN_WITHIN_S
        assert (await rows.current())["code"].tools == ("sub_agent", "mcp_docs_search")
        assert [(line["event"], line["sub_type"], line["tools"]) for line in logs] == [
            ("subagents.unknown_tools", "code", ["mcp_docs_search"])
        ]


def catalog(book: Book, clock: Hand | None = None, **options: object) -> Catalog:
    """Under which every tool of the table is known."""
    known = {tool for row in SUB_TYPE_ROWS.values() for tool in row.tools}
    return Catalog(book, clock or Hand(), known_tools=lambda: known, **options)  # type: ignore[arg-type]
