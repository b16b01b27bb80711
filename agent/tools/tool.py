"""What a tool is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from agent.limits import TOOL_TIMEOUT_S
from agent.model.client import Permit, ToolSpec, always
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText


class Risk(StrEnum):
    """The worst a tool can do. A call needs the permission of its risk."""

    READ = "read"
    WRITE = "write"
    EXECUTE = "execute"
    NETWORK = "network"
    SPEND = "spend"


@dataclass(frozen=True, slots=True)
class ToolContext:
    """For whom a tool runs. `owner` is whom memory and tasks belong to; `permit` is asked before each call."""

    key: SessionKey
    owner: SessionKey
    turn_id: str
    permit: Permit = field(default=always, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool. `run` returns raw text, which is scrubbed before anyone sees it; it raises `ToolError`
    for what the model did wrong. `arguments` have passed `spec.schema`. A `protected` tool's old results
    are never pruned."""

    spec: ToolSpec
    category: str
    risk: Risk
    run: Callable[[ToolContext, Mapping[str, Any]], Awaitable[str]]
    timeout_s: float = TOOL_TIMEOUT_S
    protected: bool = False


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The envelope of one result: clean, bounded, and marked by a flag, not by a prefix."""

    call_id: str
    name: str
    text: CleanText
    is_error: bool
    is_truncated: bool
    duration_ms: int
