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
was read: it may hold anything."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import partial
from itertools import islice
from typing import Annotated, Any, Final, Never, cast, get_args, get_origin, get_type_hints

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

JsonText = Annotated[str, "JSON"]
"""A value as its JSON text. Where an object came instead, its text was meant."""
Speaker = Annotated[str, ("assistant", "tool", "user")]


# --- the frames. A field with a default may be missing where it is read


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool as the child offers it to its model. `runs_here`: the child runs it itself; else it asks its parent."""

    name: str
    description: str = ""
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "object"})
    runs_here: bool = False


@dataclass(frozen=True, slots=True)
class CalledTool:
    """A tool call of the model; `arguments` is its JSON text, which may be broken."""

    id: str
    name: str
    arguments: JsonText


@dataclass(frozen=True, slots=True)
class ChildMessage:
    """One message of the child's conversation. `role` is user, assistant or tool; `call_id` only of a tool's."""

    role: Speaker
    text: str = ""
    calls: tuple[CalledTool, ...] = ()
    call_id: str = ""
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """The share of the machine that the child's process may take. Its parent keeps the wall clock."""

    cpu_s: int = SUBAGENT_CPU_S
    memory_bytes: int = SUBAGENT_MEMORY_BYTES
    file_bytes: int = SUBAGENT_FILE_BYTES
    descriptors: int = SUBAGENT_DESCRIPTORS
    processes: int = SUBAGENT_PROCESSES


@dataclass(frozen=True, slots=True)
class InitFrame:
    """`config`: `task_id`, the path of its workspace ("" for none), `rounds_max`, `limits`, and the
    `confinement` it is in or has to put itself into ("": the best it can). `agent_config`: its role
    (`sub_type`, `system`), its task (`messages`), its `tools`, and what it is told after its last round
    (`wrap_up`)."""

    task_id: str = ""
    workspace: str = ""
    rounds_max: int = SUBAGENT_ROUNDS
    limits: ProcessLimits = ProcessLimits()
    confinement: str = ""
    sub_type: str = ""
    system: str = ""
    messages: tuple[ChildMessage, ...] = ()
    tools: tuple[OfferedTool, ...] = ()
    wrap_up: str = ""
    protocol: int = PROTOCOL


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """Frame `tool_result`: how tool call `id` ended in the parent."""

    id: str
    text: str = ""
    is_error: bool = False


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
    calls: tuple[CalledTool, ...] = ()
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float = 0.0
    error: str = ""
    is_too_long: bool = False
    outcomes: tuple[ToolOutcome, ...] = ()


@dataclass(frozen=True, slots=True)
class CancelFrame:
    """The child is to end; its process group is killed a moment later."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class ReadyFrame:
    """The child has begun. `confinement` names its confinement."""

    pid: int = 0
    confinement: str = ""
    protocol: int = PROTOCOL


@dataclass(frozen=True, slots=True)
class ChunkFrame:
    """A piece of what the child says, for a display."""

    delta: str


@dataclass(frozen=True, slots=True)
class ModelCall:
    """Ask the model. `messages` is the whole conversation; `tools` are the names of those it may call; `system`
    is the role that the child was given. A parent that knows the role need not believe it."""

    id: str
    messages: tuple[ChildMessage, ...] = ()
    tools: tuple[str, ...] = ()
    system: str = ""


@dataclass(frozen=True, slots=True)
class ToolCallFrame:
    """Run a tool in the parent."""

    id: str
    name: str
    arguments: JsonText = ""


@dataclass(frozen=True, slots=True)
class DoneFrame:
    """Frame `done{result}`. The parent counts tokens and money itself; these are what the child was told."""

    success: bool = False
    response: str = ""
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float = 0.0
    duration_ms: int = 0


@dataclass(frozen=True, slots=True)
class FailedFrame:
    """Frame `error{error}`: the child cannot go on, for one of the reasons that children have."""

    error: str = ""


ToChild = InitFrame | ModelDelta | ModelResult | ToolOutcome | CancelFrame
ToParent = ReadyFrame | ChunkFrame | ModelCall | ToolCallFrame | DoneFrame | FailedFrame
Frame = ToChild | ToParent
_KINDS: Final[Mapping[str, type[Frame]]] = {
    "init": InitFrame,
    "model_delta": ModelDelta,
    "model_result": ModelResult,
    "tool_result": ToolOutcome,
    "cancel": CancelFrame,
    "ready": ReadyFrame,
    "chunk": ChunkFrame,
    "model_call": ModelCall,
    "tool_call": ToolCallFrame,
    "done": DoneFrame,
    "error": FailedFrame,
}
_NAMES: Final = {kind: name for name, kind in _KINDS.items()}
_MAY_MISS: Final = {(CalledTool, "id"): "", (CalledTool, "arguments"): ""}  # in what models write
_CONFIG: Final = ("task_id", "workspace", "rounds_max", "limits", "confinement")
_AGENT_CONFIG: Final = ("sub_type", "system", "messages", "tools", "wrap_up")
_NAME: Final = re.compile(r"[a-z][a-z_]{0,31}")
_PART: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[^",:\[{]++|[,:\[{]', re.DOTALL)
_WHOLE_MAX: Final = 2**63 - 1  # what every reader of JSON, database and limit of the system can hold


class FrameTooLong(TrivetError):
    """A frame that no reader would take: it was not sent."""

    def __init__(self, kind: str, size_bytes: int) -> None:
        most = f"{LINE_BYTES_MAX} bytes or {LINE_PARTS_MAX} parts"
        super().__init__(f"a frame {kind} of {size_bytes} bytes has more than {most}")


@dataclass(frozen=True, slots=True)
class Unread:
    """A line that is no frame, and why."""

    reason: str


class BadField(Exception):
    """A field that is missing or something else than it should be; the message names the field, never its value."""


# --- writing


def encoded(frame: Frame) -> bytes:
    """Encode the frame as one line with its end. Raises `FrameTooLong`."""
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
        case InitFrame():
            config = {name: getattr(frame, name) for name in _CONFIG}
            agent_config = {name: getattr(frame, name) for name in _AGENT_CONFIG}
            return {"protocol": frame.protocol, "config": config, "agent_config": agent_config}
        case DoneFrame():
            return {"result": _plain(frame)}
        case _:
            return _plain(frame)


def _plain(value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    return {field.name: getattr(value, field.name) for field in fields(value)}


# --- reading


class FrameReader:
    """Makes frames of bytes, however they were split. Of a line that is too long it remembers only that it was
    too long."""

    def __init__(self) -> None:
        self._line = bytearray()
        self._skips = False

    def feed(self, piece: bytes) -> list[Frame | Unread]:
        """Return the frames that this piece completes, in order."""
        found: list[Frame | Unread] = []
        *ended, rest = piece.split(b"\n")
        for part in ended:
            self._take(part, found)
            self._finish(found)
        self._take(rest, found)
        return found

    def end(self) -> list[Frame | Unread]:
        """Return the rest as a last line, because nothing follows."""
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
    """Tell whether a line has so many parts that it would take seconds and hundreds of megabytes to parse, whatever
    they are."""
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
    if kind not in _KINDS:
        return Unread(f"a frame of the unknown type {kind}")
    try:
        return _frame(_KINDS[kind], value)
    except BadField as error:
        return Unread(f"a frame {kind} in which {error}")
    except RecursionError:
        return Unread(f"a frame {kind} that is nested too deeply")


def _refuse(_constant: str) -> Never:
    """Refuse NaN and the infinities, which are not JSON."""
    raise ValueError


# --- reading, field by field: what has a default may be missing or null, everything else is exact


def _frame(kind: type[Frame], value: Mapping[str, Any]) -> Frame:
    if kind is DoneFrame:
        value = _inner(value, "result")
    elif kind is InitFrame:
        config, agent = _inner(value, "config"), _inner(value, "agent_config")
        found = {name: config.get(name) for name in _CONFIG} | {name: agent.get(name) for name in _AGENT_CONFIG}
        value = {**found, "protocol": value.get("protocol")}
    return cast(Frame, _made(kind, value))


def _made(kind: type[Any], value: Mapping[str, Any]) -> Any:
    """Build a value of one of our classes from an object. Raises `BadField`."""
    readers = _READERS.get(kind) or _READERS.setdefault(kind, _readers(kind))
    return kind(*(read(value.get(name)) for name, read in readers))


_READERS: Final[dict[type[Any], tuple[tuple[str, Callable[[Any], Any]], ...]]] = {}


def _readers(kind: type[Any]) -> tuple[tuple[str, Callable[[Any], Any]], ...]:
    """List the reader of each field of a class, in their order."""
    hints = get_type_hints(kind, include_extras=True)
    return tuple((each.name, partial(_field, kind, each, _reader(hints[each.name]))) for each in fields(kind))


def _field(kind: type[Any], of: Any, read: Callable[[str, Any], Any], value: Any) -> Any:
    if value is not None:
        return read(of.name, value)
    if of.default_factory is not MISSING:
        return of.default_factory()
    default = _MAY_MISS.get((kind, of.name), of.default)
    if default is MISSING:
        raise BadField(f"{of.name} is missing")
    return default


def _reader(hint: Any) -> Callable[[str, Any], Any]:
    """Return the reader for values of this type; it takes the name of the field and the value."""
    if is_dataclass(hint):
        return lambda name, value: _made(cast("type[Any]", hint), _object(name, value))
    if get_origin(hint) is tuple:
        return partial(_list, get_args(hint)[0])
    if get_origin(hint) is Annotated:
        known = hint.__metadata__[0]
        return _json_text if known == "JSON" else partial(_one_of, known)
    readers: Mapping[Any, Callable[[str, Any], Any]] = {str: _text, int: _whole, float: _amount, bool: _claim}
    return readers.get(hint, _object)


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise BadField(f"{name} is no text")
    return value


def _json_text(name: str, value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else _text(name, value)


def _one_of(known: tuple[str, ...], name: str, value: Any) -> str:
    if _text(name, value) not in known:
        raise BadField(f"{name} is none of {', '.join(known)}")
    return str(value)


def _amount(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadField(f"{name} is no number")
    if not 0 <= value <= _WHOLE_MAX:
        raise BadField(f"{name} is out of bounds")
    return value


def _whole(name: str, value: Any) -> int:
    if not float(_amount(name, value)).is_integer():
        raise BadField(f"{name} is no whole number")
    return int(value)


def _claim(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise BadField(f"{name} is neither true nor false")
    return value


def _object(name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise BadField(f"{name} is no object")
    return value


def _inner(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return {} if value.get(name) is None else _object(name, value[name])


def _list(of: Any, name: str, value: Any) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise BadField(f"{name} is no list")
    if not all(isinstance(each, str if of is str else Mapping) for each in value):
        raise BadField(f"{name} is no list of {'texts' if of is str else 'objects'}")
    return tuple(value) if of is str else tuple(_made(of, each) for each in value)
