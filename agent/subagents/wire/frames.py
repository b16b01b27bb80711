"""The language between a sub-agent's process and its parent: JSON lines, one frame each. Pure.

    parent -> child   init · model_delta · model_result · tool_result · cancel
    child -> parent   ready · chunk · model_call · tool_call · done · error

A child sends `ready` when it has read `init` and is confined, asks for model calls and for the tools that run in its
parent, and ends with `done` or `error`. `codec` writes and reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from agent.limits import (
    SUBAGENT_CPU_S,
    SUBAGENT_DESCRIPTORS,
    SUBAGENT_FILE_BYTES,
    SUBAGENT_MEMORY_BYTES,
    SUBAGENT_PROCESSES,
)

PROTOCOL: Final = 1
PIECE_BYTES: Final = 65_536  # what a pipe holds
LINE_BYTES_MAX: Final = 8 * 1024 * 1024
LINE_PARTS_MAX: Final = 250_000  # texts, numbers and signs: a long conversation has a tenth; a line could hold millions


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool as the child offers it to its model. `runs_here`: the child runs it itself; else it asks its parent."""

    name: str
    description: str
    schema: Mapping[str, Any]
    runs_here: bool


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call of the model; `arguments` is its JSON text, which may be broken."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Said:
    """One message of the child's conversation. `role` is user, assistant or tool; `call_id` only of a tool's."""

    role: str
    text: str
    calls: tuple[Call, ...] = ()
    call_id: str = ""
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Limits:
    """What the child's process may take of the machine. The wall clock is its parent's affair."""

    cpu_s: int = SUBAGENT_CPU_S
    memory_bytes: int = SUBAGENT_MEMORY_BYTES
    file_bytes: int = SUBAGENT_FILE_BYTES
    descriptors: int = SUBAGENT_DESCRIPTORS
    processes: int = SUBAGENT_PROCESSES


@dataclass(frozen=True, slots=True)
class Init:
    """`config`: `task_id`, where its workspace lies ("" for none), `rounds_max`, `limits`, and the `confinement` it is
    in or has to put itself into ("": the best it can). `agent_config`: who it is (`sub_type`, `system`), what it is
    asked (`messages`), its `tools`, and what it is told after its last round (`wrap_up`)."""

    task_id: str
    workspace: str
    rounds_max: int
    limits: Limits
    confinement: str
    sub_type: str
    system: str
    messages: tuple[Said, ...]
    tools: tuple[OfferedTool, ...]
    wrap_up: str
    protocol: int = PROTOCOL


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """Frame `tool_result`: how tool call `id` ended in the parent."""

    id: str
    text: str
    is_error: bool


@dataclass(frozen=True, slots=True)
class ModelDelta:
    """A piece of the answer to model call `id`."""

    id: str
    delta: str


@dataclass(frozen=True, slots=True)
class ModelResult:
    """The whole answer to model call `id`. `outcomes` are of those `calls` that are not to be run: they do not fit
    their tools. `error` is a `Reason`, "" for none; `is_too_long`: the prompt was."""

    id: str
    text: str = ""
    calls: tuple[Call, ...] = ()
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float = 0.0
    error: str = ""
    is_too_long: bool = False
    outcomes: tuple[ToolOutcome, ...] = ()


@dataclass(frozen=True, slots=True)
class Cancel:
    """The child is to end; its process group is killed a moment later."""

    reason: str


@dataclass(frozen=True, slots=True)
class Ready:
    """The child has begun. `confinement` names what holds it."""

    pid: int
    confinement: str
    protocol: int = PROTOCOL


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of what the child says, for whoever watches."""

    delta: str


@dataclass(frozen=True, slots=True)
class ModelCall:
    """Ask the model. `messages` is the whole conversation; `tools` are the names of those it may call; `system` is who
    the child was told to be. A parent that knows it does not have to believe it."""

    id: str
    messages: tuple[Said, ...]
    tools: tuple[str, ...]
    system: str = ""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """Run a tool in the parent."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Done:
    """Frame `done{result}`. The parent counts tokens and money itself; these are what the child was told."""

    success: bool
    response: str
    tokens_in: int
    tokens_out: int
    cost_usd: float
    duration_ms: int


@dataclass(frozen=True, slots=True)
class Failed:
    """Frame `error{error}`: the child cannot go on, for one of the reasons that children have."""

    error: str


ToChild = Init | ModelDelta | ModelResult | ToolOutcome | Cancel
ToParent = Ready | Chunk | ModelCall | ToolCall | Done | Failed
Frame = ToChild | ToParent
