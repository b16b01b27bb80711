"""Tools that go together, by name: what profiles and types of sub-agents are made of."""

from __future__ import annotations

from typing import Final

EVERY_TOOL: Final = "*"
"""In a list of tools: all that whoever is above may use."""

READING: Final = ("file_read", "file_search", "file_list", "file_tree", "file_info")
WRITING: Final = ("file_write", "file_edit", "file_patch", "file_delete", "file_rename", "file_undo", "file_redo")
FILES: Final = (*READING, *WRITING)
RUNNING: Final = ("shell", "code_exec")
SEARCHING: Final = ("web_search", "web_fetch")
DELEGATING: Final = ("sub_agent", "sub_agent_spawn", "sub_agent_wait", "sub_agent_cancel", "orchestrate")
CONVERSING: Final = (
    *("plan", "schedule"),  # a plan is approved, and a reminder is wanted, by the person in the conversation
    "send_file",  # goes out with an answer to a person; a sub-agent's goes to its parent, which may send the file
    "todo_write",  # the list is the conversation's, and writing it replaces it whole: under its parent, by several
    *("sub_agent_spawn", "sub_agent_wait", "sub_agent_cancel"),  # what outlives its task would have nobody to wake
)
"""What belongs to a conversation with a person: no sub-agent has it, whatever its type and whoever configured it."""

TALKING: Final = (
    *("todo_read", "todo_write", "remember", "recall", "load_skill", "read_more"),
    *("schedule", "send_file", "plan"),
)
"""What belongs to talking with somebody, whatever the work is."""

BUILT_IN: Final = frozenset({*FILES, *RUNNING, *SEARCHING, "browser", "db_query", *DELEGATING, *TALKING})
"""Every tool that is ours, wherever some of them are off."""
MCP_PREFIX: Final = "mcp_"
"""In front of the names of all others, which come and go with their servers."""


def is_tool(name: str) -> bool:
    """True for the name of a tool that there is, or may be once its server is up."""
    return name in BUILT_IN or name.startswith(MCP_PREFIX)
