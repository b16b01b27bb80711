"""The language between a sub-agent's process and its parent: JSON lines in UTF-8, one frame each. Pure and light.

    parent -> child   init · model_delta · model_result · tool_result · cancel
    child -> parent   ready · chunk · model_call · tool_call · done · error

A child sends `ready` when it has read `init` and is confined, asks for model calls and for the tools that run in its
parent, and ends with `done` or `error`. A line is one object `{"type": …}` with the fields of its class, but for two:

    {"type":"init","protocol":1,
     "config":{"task_id":"…","workspace":"…","rounds_max":6,"limits":{…},"confinement":"…"},
     "agent_config":{"sub_type":"…","system":"…","messages":[…],"tools":[…],"wrap_up":"…"}}
    {"type":"done","result":{"success":true,"response":"…","tokens_in":0,"tokens_out":0,"cost_usd":0.0,"duration_ms":0}}

What we write is exact. What we read may come from strangers' programs: fields that may be missing have defaults,
fields that we do not know are passed over, and what is no frame becomes a value with a reason. No reason quotes what
was read: it may hold anything.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, fields
from itertools import islice
from typing import Any, Final, Never, TypeVar

from agent.limits import (
    SUBAGENT_CPU_S,
    SUBAGENT_DESCRIPTORS,
    SUBAGENT_FILE_BYTES,
    SUBAGENT_MEMORY_BYTES,
    SUBAGENT_PROCESSES,
    SUBAGENT_ROUNDS,
)
from gateway.contracts.errors import TrivetError

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


_Made = TypeVar("_Made")
_WHOLE_MAX: Final = 2**63 - 1
"""What every reader of JSON, database and limit of the system can hold."""


class BadRow(Exception):
    """A field that is missing or something else than it should be; the message names the field, never its value."""


class Row:
    """One object. Every reading raises `BadRow`; a `default` is for a field that is missing or null."""

    def __init__(self, found: Mapping[str, Any]) -> None:
        self._found = found

    def text(self, name: str, default: str | None = None) -> str:
        """A text, which may be empty."""
        value = self._value(name, default)
        if not isinstance(value, str):
            raise BadRow(f"{name} is no text")
        return value

    def one_of(self, name: str, known: Set[str]) -> str:
        """One of these words."""
        value = self.text(name)
        if value not in known:
            raise BadRow(f"{name} is none of {', '.join(sorted(known))}")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts; none if it is missing."""
        values = self._list(name)
        if not all(isinstance(value, str) for value in values):
            raise BadRow(f"{name} is no list of texts")
        return tuple(values)

    def json_text(self, name: str) -> str:
        """A value as its JSON text. Whoever wrote an object instead meant its text; "" if it is missing."""
        value = self._value(name, "")
        return json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else self.text(name, "")

    def whole(self, name: str, default: int) -> int:
        """A whole number that is not negative."""
        value = self.amount(name, default)
        if not float(value).is_integer():
            raise BadRow(f"{name} is no whole number")
        return int(value)

    def amount(self, name: str, default: float) -> float:
        """A number that is not negative."""
        value = self._value(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise BadRow(f"{name} is no number")
        if not 0 <= value <= _WHOLE_MAX:
            raise BadRow(f"{name} is out of bounds")
        return value

    def claim(self, name: str, *, otherwise: bool) -> bool:
        """True or false."""
        value = self._value(name, otherwise)
        if not isinstance(value, bool):
            raise BadRow(f"{name} is neither true nor false")
        return value

    def mapping(self, name: str, default: Mapping[str, Any]) -> Mapping[str, Any]:
        """An object as it is."""
        value = self._value(name, default)
        if not isinstance(value, Mapping):
            raise BadRow(f"{name} is no object")
        return value

    def inner(self, name: str) -> Row:
        """An object to be read on; an empty one if it is missing."""
        return Row(self.mapping(name, {}))

    def each(self, name: str, read: Callable[[Row], _Made]) -> tuple[_Made, ...]:
        """A list of objects, each read; none if it is missing."""
        values = self._list(name)
        if not all(isinstance(value, Mapping) for value in values):
            raise BadRow(f"{name} is no list of objects")
        return tuple(read(Row(value)) for value in values)

    def _list(self, name: str) -> list[Any]:
        value = self._value(name, [])
        if not isinstance(value, list):
            raise BadRow(f"{name} is no list")
        return value

    def _value(self, name: str, default: object) -> Any:
        value = self._found.get(name)
        if value is not None:
            return value
        if default is None:
            raise BadRow(f"{name} is missing")
        return default


_CONFIG: Final = ("task_id", "workspace", "rounds_max", "limits", "confinement")
_AGENT_CONFIG: Final = ("sub_type", "system", "messages", "tools", "wrap_up")
_ROLES: Final = frozenset({"user", "assistant", "tool"})
_NAME: Final = re.compile(r"[a-z][a-z_]{0,31}")
_PART: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[^",:\[{]++|[,:\[{]', re.DOTALL)
_ANY_OBJECT: Final = {"type": "object"}


class FrameTooLong(TrivetError):
    """A frame that no reader would take: it was not sent."""

    def __init__(self, kind: str, size_bytes: int) -> None:
        most = f"{LINE_BYTES_MAX} bytes or {LINE_PARTS_MAX} parts"
        super().__init__(f"a frame {kind} of {size_bytes} bytes has more than {most}")


@dataclass(frozen=True, slots=True)
class Unread:
    """A line that is no frame, and why."""

    reason: str


# --- writing


def encoded(frame: Frame) -> bytes:
    """The frame as one line, its end included. Raises `FrameTooLong`."""
    row = {"type": _NAMES[type(frame)], **_body(frame)}
    # Half a surrogate pair, which UTF-8 does not have, becomes the escape that JSON has for it.
    line = json.dumps(row, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain).encode(
        errors="backslashreplace"
    )
    if len(line) > LINE_BYTES_MAX or _has_too_many_parts(line):
        raise FrameTooLong(row["type"], len(line))
    return line + b"\n"


def _body(frame: Frame) -> dict[str, Any]:
    match frame:
        case Init():
            config = {name: getattr(frame, name) for name in _CONFIG}
            agent_config = {name: getattr(frame, name) for name in _AGENT_CONFIG}
            return {"protocol": frame.protocol, "config": config, "agent_config": agent_config}
        case Done():
            return {"result": _plain(frame)}
        case _:
            return _plain(frame)


def _plain(value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    return {field.name: getattr(value, field.name) for field in fields(value)}


# --- reading


class FrameReader:
    """Makes frames of bytes, however they were split. Of a line that is too long it keeps nothing but that it was."""

    def __init__(self) -> None:
        self._line = bytearray()
        self._skips = False

    def feed(self, piece: bytes) -> list[Frame | Unread]:
        """What has come to its end with this piece, in order."""
        found: list[Frame | Unread] = []
        *ended, rest = piece.split(b"\n")
        for part in ended:
            self._take(part, found)
            self._finish(found)
        self._take(rest, found)
        return found

    def end(self) -> list[Frame | Unread]:
        """Nothing follows: what is left is a line, too."""
        found: list[Frame | Unread] = []
        self._finish(found)
        return found

    def _take(self, part: bytes, found: list[Frame | Unread]) -> None:
        if self._skips:
            return
        if len(self._line) + len(part) > LINE_BYTES_MAX:
            self._skips = True
            self._line.clear()
            found.append(Unread(f"a line of more than {LINE_BYTES_MAX} bytes"))
            return
        self._line += part

    def _finish(self, found: list[Frame | Unread]) -> None:
        line, skipped = bytes(self._line).strip(), self._skips
        self._line.clear()
        self._skips = False
        if line and not skipped:
            found.append(_read(line))


def _has_too_many_parts(line: bytes) -> bool:
    """True for a line that would take seconds and hundreds of megabytes to read, whatever stands in it."""
    if len(line) <= LINE_PARTS_MAX:
        return False
    return any(True for _ in islice(_PART.finditer(line), LINE_PARTS_MAX, None))


def _read(line: bytes) -> Frame | Unread:
    if _has_too_many_parts(line):
        return Unread(f"a line of more than {LINE_PARTS_MAX} parts")
    try:
        value = json.loads(line.decode("utf-8"), parse_constant=_refuse)
    except UnicodeDecodeError:
        return Unread("a line that is no UTF-8")
    except (ValueError, RecursionError):
        return Unread("a line that is no JSON")
    if not isinstance(value, dict):
        return Unread("a line that is no JSON object")
    kind = value.get("type")
    if not isinstance(kind, str) or not _NAME.fullmatch(kind):
        return Unread("an object without a type")
    if kind not in _READERS:
        return Unread(f"a frame of the unknown type {kind}")
    try:
        return _READERS[kind](Row(value))
    except BadRow as error:
        return Unread(f"a frame {kind} in which {error}")
    except RecursionError:
        return Unread(f"a frame {kind} that is nested too deeply")


def _refuse(_constant: str) -> Never:
    """NaN and the infinities, which are no JSON."""
    raise ValueError


def _init(row: Row) -> Init:
    config, agent = row.inner("config"), row.inner("agent_config")
    return Init(
        task_id=config.text("task_id", ""),
        workspace=config.text("workspace", ""),
        rounds_max=config.whole("rounds_max", SUBAGENT_ROUNDS),
        limits=_limits(config.inner("limits")),
        confinement=config.text("confinement", ""),
        sub_type=agent.text("sub_type", ""),
        system=agent.text("system", ""),
        messages=agent.each("messages", _said),
        tools=agent.each("tools", _offered),
        wrap_up=agent.text("wrap_up", ""),
        protocol=row.whole("protocol", PROTOCOL),
    )


def _limits(row: Row) -> Limits:
    usual = Limits()
    return Limits(*(row.whole(field.name, getattr(usual, field.name)) for field in fields(Limits)))


def _said(row: Row) -> Said:
    return Said(
        row.one_of("role", _ROLES),
        row.text("text", ""),
        row.each("calls", _call),
        row.text("call_id", ""),
        row.claim("is_error", otherwise=False),
    )


def _call(row: Row) -> Call:
    return Call(row.text("id", ""), row.text("name"), row.json_text("arguments"))


def _offered(row: Row) -> OfferedTool:
    schema = row.mapping("schema", _ANY_OBJECT)
    return OfferedTool(row.text("name"), row.text("description", ""), schema, row.claim("runs_here", otherwise=False))


def _model_result(row: Row) -> ModelResult:
    return ModelResult(
        row.text("id"),
        row.text("text", ""),
        row.each("calls", _call),
        row.whole("tokens_in", 0),
        row.whole("tokens_out", 0),
        row.amount("cost_usd", 0.0),
        row.text("error", ""),
        row.claim("is_too_long", otherwise=False),
        row.each("outcomes", _tool_outcome),
    )


def _tool_outcome(row: Row) -> ToolOutcome:
    return ToolOutcome(row.text("id"), row.text("text", ""), row.claim("is_error", otherwise=False))


def _ready(row: Row) -> Ready:
    return Ready(row.whole("pid", 0), row.text("confinement", ""), row.whole("protocol", PROTOCOL))


def _model_call(row: Row) -> ModelCall:
    return ModelCall(row.text("id"), row.each("messages", _said), row.texts("tools"), row.text("system", ""))


def _done(row: Row) -> Done:
    result = row.inner("result")
    return Done(
        result.claim("success", otherwise=False),
        result.text("response", ""),
        result.whole("tokens_in", 0),
        result.whole("tokens_out", 0),
        result.amount("cost_usd", 0.0),
        result.whole("duration_ms", 0),
    )


_READERS: Final[Mapping[str, Callable[[Row], Frame]]] = {
    "init": _init,
    "model_delta": lambda row: ModelDelta(row.text("id"), row.text("delta")),
    "model_result": _model_result,
    "tool_result": _tool_outcome,
    "cancel": lambda row: Cancel(row.text("reason", "")),
    "ready": _ready,
    "chunk": lambda row: Chunk(row.text("delta")),
    "model_call": _model_call,
    "tool_call": lambda row: ToolCall(row.text("id"), row.text("name"), row.json_text("arguments")),
    "done": _done,
    "error": lambda row: Failed(row.text("error", "")),
}
_NAMES: Final[Mapping[type[Frame], str]] = {
    Init: "init",
    ModelDelta: "model_delta",
    ModelResult: "model_result",
    ToolOutcome: "tool_result",
    Cancel: "cancel",
    Ready: "ready",
    Chunk: "chunk",
    ModelCall: "model_call",
    ToolCall: "tool_call",
    Done: "done",
    Failed: "error",
}
