"""What a file tool is: work on one workspace, in whichever process. Light: it is loaded in sub-agents, too."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from agent.tools.files.workspace import Workspace

Work = Callable[[Workspace, Mapping[str, Any]], str]
"""Blocks; returns raw text, and raises `ToolError` for what the model did wrong."""

Locks = Callable[[Mapping[str, Any]], tuple[str, ...]]
"""As `Tool.locks`."""


@dataclass(frozen=True, slots=True)
class FileTool:
    """One of them. The arguments of its work have passed `schema`; `instead` is as `Tool` has it."""

    name: str
    description: str
    schema: Mapping[str, Any]
    work: Work
    locks: Locks
    changes_files: bool = False
    instead: str = ""
