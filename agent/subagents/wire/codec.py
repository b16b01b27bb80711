"""The wire form of frames: one JSON object a line, `{"type": …}`, in UTF-8. Pure, and without any input or output.

What we write is exact. What we read may come from strangers' programs: fields that may be missing have defaults,
fields that we do not know are passed over, and what is no frame becomes a value with a reason. No reason quotes what
was read: it may hold anything.

    {"type":"init","protocol":1,
     "config":{"task_id":"…","workspace":"…","rounds_max":6,"limits":{…},"confinement":"…"},
     "agent_config":{"sub_type":"…","system":"…","messages":[…],"tools":[…],"wrap_up":"…"}}
    {"type":"done","result":{"success":true,"response":"…","tokens_in":0,"tokens_out":0,"cost_usd":0.0,"duration_ms":0}}

All others have the fields of their class beside `type`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from itertools import islice
from typing import Any, Final, Never

from agent.limits import SUBAGENT_ROUNDS
from agent.subagents.wire.frames import (
    LINE_BYTES_MAX,
    LINE_PARTS_MAX,
    PROTOCOL,
    Call,
    Cancel,
    Chunk,
    Done,
    Failed,
    Frame,
    Init,
    Limits,
    ModelCall,
    ModelDelta,
    ModelResult,
    OfferedTool,
    Ready,
    Said,
    ToolCall,
    ToolOutcome,
)
from agent.subagents.wire.rows import BadRow, Row
from gateway.contracts.errors import TrivetError

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
