"""The wire form of everything on the bus: one JSON object, `{"v": 1, "t": <type>, …}`.

A value is written field by field, in the order of its dataclass; what most values do not have is left out where it is
empty. Golden files in `tests/golden/envelopes` pin all of it. A reader ignores fields it does not know, so that two
releases can run side by side; it refuses a version it does not know, so that nothing is half understood. What
a newer release wrote is `NewerEnvelope`, which nobody buries."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache, partial
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

from gateway.contracts import messages
from gateway.contracts.errors import BadEnvelope, BadSessionKey, NewerEnvelope
from gateway.contracts.ids import ReplyAddress, SessionKey

VERSION: Final = 1
"""The version that this release writes and reads."""

Wire: TypeAlias = (
    messages.InboundMessage
    | messages.Reply
    | messages.ControlRequest
    | messages.Receipt
    | messages.Activity
    | messages.Draft
    | messages.Preview
)
_KINDS: Final[Mapping[str, type[Wire]]] = {
    "inbound": messages.InboundMessage,
    "reply": messages.Reply,
    "control": messages.ControlRequest,
    "receipt": messages.Receipt,
    "activity": messages.Activity,
    "draft": messages.Draft,
    "preview": messages.Preview,
}
_NAMES: Final = {kind: name for name, kind in _KINDS.items()}
_OF_SOME: Final[Mapping[type, frozenset[str]]] = {
    messages.InboundMessage: frozenset({"language", "quotes", "place", "realm", "is_aside", "wakes", "is_nameable"}),
    messages.Reply: frozenset({"choices", "amends", "files", "language"}),
    messages.ControlRequest: frozenset({"is_press"}),
    messages.DeliveryRecord: frozenset({"shown"}),
    messages.Draft: frozenset({"language"}),
}
"""What is left out where it is empty."""
_text: Final[Callable[[Any], str]] = str.__str__  # what is no text is a `TypeError`
_json: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode  # `json.dumps` makes one each time
_scan: Final = json.JSONDecoder().raw_decode

T = TypeVar("T")
W = TypeVar("W", bound=Wire)


def encode(value: Wire) -> bytes:
    """Encode a value as UTF-8 JSON without spaces, keys in a fixed order."""
    match value:
        case messages.Reply():
            said = _written(value)
            if value.choices or value.amends or value.kind is messages.ReplyKind.QUESTION:
                # one of the three brings the others along
                rest = {name: said.pop(name) for name in ("amends", "files", "language") if name in said}
                said.setdefault("choices", [])
                said |= {"amends": value.amends} | rest
        case messages.Receipt(record, key, channel):
            said = _written(record) | {"key": str(key), "channel": channel}
            said.pop("shown", None)
        case _:
            said = _written(value)
    written = _json({"v": VERSION, "t": _NAMES[type(value)], **said})
    try:
        return written.encode()
    except UnicodeEncodeError:  # JSON can say half of a surrogate pair; two halves that came one by one are a whole
        return written.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


def decode(data: bytes) -> Wire:
    """Decode the bytes that `encode` made. Raises `BadEnvelope` for anything else."""
    try:
        text = data.decode()
        body, end = _scan(text)
        if text[end:].strip():
            raise ValueError("an envelope is one object")
        version = body.get("v") if isinstance(body, dict) else None
        if type(version) is int and version > VERSION:
            raise NewerEnvelope(f"envelope of version {version}, this release reads {VERSION} ({len(data)} bytes)")
        if type(version) is not int or version != VERSION:
            raise BadEnvelope(f"envelope of an unknown version ({len(data)} bytes)")
        kind = _KINDS[body["t"]]
        if kind is messages.Receipt:
            record, key = _read(messages.DeliveryRecord, body), SessionKey.parse(_text(body["key"]))
            return messages.Receipt(record, key, _text(body["channel"]))
        return _read(kind, body)
    except (ValueError, KeyError, TypeError, BadSessionKey) as error:
        raise BadEnvelope(f"malformed envelope ({len(data)} bytes, {type(error).__name__})") from error


def decode_as(kind: type[W], data: bytes) -> W:
    """Decode what may be of one kind only, as an entry of a mailbox or of an outbound stream. Raises `BadEnvelope`."""
    value = decode(data)
    if not isinstance(value, kind):
        raise BadEnvelope(f"expected {kind.__name__}, found {type(value).__name__}")
    return value


def inbound_prefix(message_id: str) -> bytes:
    """Return the bytes that begin the envelope of the inbound message with this id, and no other envelope.

    The id comes first and JSON escapes its quotes, so nothing that a person writes can imitate it."""
    head = {"v": VERSION, "t": "inbound", "id": message_id}
    return _json(head).encode()[:-1] + b","


def files_to_text(files: Sequence[messages.ReplyFile]) -> str:
    """Encode the files of a reply as one JSON string, for a database column."""
    return _json([_written(file) for file in files])


def files_from_text(text: str) -> tuple[messages.ReplyFile, ...]:
    """Decode the string that `files_to_text` made. Raises `BadEnvelope`."""
    try:
        return tuple(_read(messages.ReplyFile, file) for file in json.loads(text))
    except (ValueError, KeyError, TypeError) as error:
        raise BadEnvelope("malformed files of a reply") from error


def address_to_text(address: ReplyAddress) -> str:
    """Encode a reply address as one JSON string, for a database column."""
    return _json(_written(address))


def address_from_text(text: str) -> ReplyAddress:
    """Decode the string that `address_to_text` made. Raises `BadEnvelope`."""
    try:
        return _read(ReplyAddress, json.loads(text))
    except (ValueError, KeyError, TypeError) as error:
        raise BadEnvelope("malformed reply address") from error


class _Field(NamedTuple):
    """One field on the wire; None: it is written as it is. `is_of_some`: it is left out where it is empty."""

    name: str
    write: Callable[[Any], Any] | None
    read: Callable[[Any], Any]
    is_of_some: bool


def _fields_of(kind: Any) -> Sequence[_Field]:
    hints, of_some = get_type_hints(kind), _OF_SOME.get(kind, ())
    return [_Field(each.name, *_ways(hints[each.name]), each.name in of_some) for each in fields(kind)]


def _readers_of(kind: Any) -> Sequence[Sequence[tuple[str, Callable[[Any], Any]]]]:
    """Return how the fields that all values have are read, which are the first ones, and how the others are."""
    return [[(each.name, each.read) for each in _form(kind) if each.is_of_some is is_some] for is_some in (False, True)]


_form: Final[Callable[[Any], Sequence[_Field]]] = cache(_fields_of)
_readers: Final[Callable[[Any], Sequence[Sequence[tuple[str, Callable[[Any], Any]]]]]] = cache(_readers_of)


def _written(value: Any) -> dict[str, Any]:
    found = {}
    for name, write, _, is_of_some in _form(type(value)):
        part = getattr(value, name)
        if part or not is_of_some:
            found[name] = part if write is None else write(part)
    return found


def _read(kind: type[T], said: Any) -> T:
    of_all, of_some = _readers(kind)
    some = {name: read(said[name]) for name, read in of_some if name in said}
    return kind(*[read(said[name]) for name, read in of_all], **some)


def _ways(hint: Any) -> tuple[Callable[[Any], Any] | None, Callable[[Any], Any]]:
    """Return how a value of this type is written, and how it is read. Reading raises `ValueError`, `TypeError`,
    `KeyError` and `BadSessionKey`."""
    if get_origin(hint) in (Union, UnionType):
        ((write, read),) = (_ways(each) for each in get_args(hint) if each is not NoneType)
        assert write is None  # only plain values may be missing
        return None, lambda said: None if said is None else read(said)
    if get_origin(hint) is tuple:
        write, read = _ways(get_args(hint)[0])
        return (list if write is None else partial(_each, write)), lambda said: tuple(map(read, said))
    if hint is SessionKey:
        return str, lambda said: SessionKey.parse(_text(said))
    if isinstance(hint, type) and is_dataclass(hint):
        return _written, partial(_read, hint)
    if hint in (str, messages.CleanText):
        return None, _text
    return (attrgetter("value") if issubclass(hint, Enum) else None), hint


def _each(write: Callable[[Any], Any], values: Sequence[Any]) -> list[Any]:
    return [write(value) for value in values]
