"""System prompts as a process makes them, of the files in a data directory; with tools that only have names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agent.prompts.library import DEFAULT_PROFILE, Profile
from agent.prompts.skills import skill_tools
from agent.prompts.system import WORKSPACE, RuntimeFacts, SkillLayers, SystemPrompts
from agent.prompts.workspace import WorkspaceFiles
from agent.tools.policy import Policy, Risk, Visibility
from agent.tools.registry import ToolRegistry
from agent.tools.tool import AbsentTool, Tool, ToolContext
from gateway.clock import SystemClock
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText
from gateway.contracts.sessions import GrantRole, Todo
from gateway.scrub import Scrubber
from tests.parts.tooling import tool

FACTS = RuntimeFacts("1.2.3", "3.11.9", "Linux", ("telegram", "slack"))
NAMED = {"file_read": Risk.READ, "file_write": Risk.WRITE, "web_fetch": Risk.NETWORK, "todo_write": Risk.READ}


class Writer:
    """The data directory, and the prompts made of it."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        scrubber = Scrubber(placeholder_key=b"k" * 32)
        skills = SkillLayers(data_dir, scrubber)
        tools: list[Tool] = [*(tool(name, risk=risk) for name, risk in NAMED.items()), *skill_tools(skills.of)]
        absent = [AbsentTool("shell", "execution", "bubblewrap is not installed", Risk.EXECUTE)]
        self.tools = ToolRegistry(tools, scrubber, SystemClock(), policy=Policy(), absent=absent)
        self._prompts = SystemPrompts(
            data_dir, FACTS, self.tools, skills, WorkspaceFiles(data_dir / WORKSPACE, scrubber), scrubber
        )

    def file(self, path: str, text: str) -> Path:
        """Write a file of the operator."""
        place = self.data_dir / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, "utf-8")
        return place

    def prompt(
        self,
        key: str = "telegram:1",
        *,
        role: GrantRole = GrantRole.ADMIN,
        profile: Profile = DEFAULT_PROFILE,
        todos: Sequence[Todo] = (),
    ) -> CleanText:
        """The system prompt of a turn of `key`."""
        session_key = SessionKey.parse(key)
        place = Visibility.DM if session_key.is_private else Visibility.GROUP
        context = ToolContext(session_key, "turn-1", role, place, session_key.owner, ceiling=profile.ceiling)
        return self._prompts.system_prompt(context, profile, todos)
