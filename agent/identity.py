"""The system prompt of a session: who the agent is, what it can do, what is going on."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

import structlog

from agent.limits import IDENTITY_FILE_CHARS_MAX
from agent.prompts.library import PROMPTS
from agent.tools.todo import todo_line
from gateway.contracts.entries import Todo, TodoState
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText
from gateway.contracts.ports import Scrubber

IDENTITY_FILES: Final = ("AGENT.md", "IDENTITY.md", "SOUL.md", "USER.md", "SHIELD.md")
PROMPTS_KEPT: Final = 256  # the prompt of a session seldom changes, so each is scrubbed once; about 2 kB each
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class RuntimeFacts:
    """What does not change inside a session. `tools` is asked for each prompt: MCP servers come up late."""

    version: str
    channels: tuple[str, ...]
    tools: Callable[[], Mapping[str, tuple[str, ...]]]


class Identity:
    """Makes system prompts. Identity files are read from the workspace; an edit is seen at the next turn."""

    def __init__(self, workspace: Path, facts: RuntimeFacts, scrubber: Scrubber) -> None:
        self._workspace = workspace
        self._facts = facts
        self._scrubber = scrubber
        self._clean = lru_cache(maxsize=PROMPTS_KEPT)(scrubber.scrub)
        self._files: dict[Path, tuple[int, CleanText]] = {}

    def system_prompt(self, key: SessionKey, todos: Sequence[Todo]) -> CleanText:
        """Byte-stable as long as the files, the tools and the tasks stay as they are."""
        sections = [
            PROMPTS.system,
            *(text for name in IDENTITY_FILES if (text := self._file(self._workspace / name))),
            _tools_section(self._facts.tools()),
            _tasks_section(todos),
            _runtime_section(self._facts, key),
        ]
        return self._clean("\n\n".join(filter(None, sections)))

    def _file(self, path: Path) -> CleanText | None:
        """The text of an identity file; missing and empty ones are skipped, unreadable ones are logged."""
        try:
            changed_ns = path.stat().st_mtime_ns
            known = self._files.get(path)
            if known is None or known[0] != changed_ns:
                text = path.read_text("utf-8").strip()[:IDENTITY_FILE_CHARS_MAX]
                known = self._files[path] = (changed_ns, self._scrubber.scrub(text))
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            _log.warning("identity.unreadable", file=path.name, reason=type(error).__name__)
            return None
        return known[1] or None


def _tools_section(tools: Mapping[str, tuple[str, ...]]) -> str:
    return "\n".join(["# Tools", *(f"- {category}: {', '.join(names)}" for category, names in tools.items())])


def _tasks_section(todos: Sequence[Todo]) -> str:
    active = [todo_line(todo) for todo in todos if todo.state is not TodoState.DONE]
    return "\n".join(["# Active tasks", *active]) if active else ""


def _runtime_section(facts: RuntimeFacts, key: SessionKey) -> str:
    return "\n".join(
        [
            "# Runtime",
            f"- Trivet {facts.version}, Python {platform.python_version()} on {platform.system()}",
            f"- this conversation: {key}",
            f"- connected channels: {', '.join(facts.channels) or 'none'}",
        ]
    )
