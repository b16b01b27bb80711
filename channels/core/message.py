"""The message that every platform's `normalize` makes, and the reading of vendors' JSON without trusting it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, TypeAlias

from gateway.contracts.commands import Command
from gateway.contracts.errors import BadEnvelope
from gateway.contracts.ids import ReplyAddress, SessionKey, SessionScope
from gateway.contracts.messages import AttachmentKind, QuoteKind
from gateway.contracts.ports import Position

Raw: TypeAlias = Mapping[str, Any]

_NOTHING: Final[Raw] = {}
_ID_MAX: Final = 2**63


def mapping(value: object) -> Raw:
    """Return the object, or an empty one."""
    return value if isinstance(value, dict) else _NOTHING


def mappings(value: object) -> Sequence[Raw]:
    """Return the objects in an array; everything else in it is left out."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list | tuple) else []


def text(value: object) -> str:
    """Return the string, or an empty one."""
    return value if isinstance(value, str) else ""


def integer(value: object) -> int | None:
    """Return a whole number that fits 64 bits; JSON's true and false are none."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < _ID_MAX:
        return value
    return None


TARGETS_KEPT: Final = 1_024  # one message's is read some six times on its way


def fields_of(target: Any) -> dict[str, Any]:
    """Return the fields of a target by name: `dataclasses.asdict` would copy what they hold, for each message."""
    return {name: getattr(target, name) for name in target.__slots__}


def canonical(fields: Raw) -> str:
    """Write one JSON text per meaning: sorted keys, no spaces, nothing that is None or false."""
    kept = {name: value for name, value in fields.items() if value is not None and value is not False}
    return json.dumps(kept, sort_keys=True, separators=(",", ":"))


def target_fields(target: str) -> Raw:
    """Read the fields that `canonical` wrote. Raises `BadEnvelope`."""
    try:
        fields = json.loads(target)
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        raise BadEnvelope("a reply target that is no JSON object")
    return fields


# The result of every platform's `normalize`: a message for intake, or the reason why it is none.
#
# Text and names are raw here; intake scrubs them. Nothing in this module knows a platform.

OWN_QUOTE_CHARS_MAX: Final = 500
"""Of a message of ours that somebody answers: the conversation holds all of it, this says which it was."""

_AFTER_GREETING: Final = re.compile(r"\s*[,:;]?\s*")
_CLOSING: Final = (",", ".", "!", "?", ";", ":", ")", "\n")


class Addressing(StrEnum):
    """Why a message is meant for the bot, or that it is not."""

    PRIVATE = "private"
    MENTION = "mention"
    COMMAND = "command"
    REPLY = "reply"
    THREAD = "thread"
    NOT_ADDRESSED = "not_addressed"


class IgnoreReason(StrEnum):
    """The reason why an update needs no answer. The value is written to the log."""

    MALFORMED = "malformed"
    UNSUPPORTED = "unsupported"
    SERVICE = "service"
    EMPTY = "empty"
    OWN = "own"
    BOT = "bot"
    OTHER_BOT = "other_bot"
    AUTOMATIC_FORWARD = "automatic_forward"
    NOT_AN_EDIT = "not_an_edit"


@dataclass(frozen=True, slots=True)
class Ignored:
    reason: IgnoreReason


@dataclass(frozen=True, slots=True)
class Migrated:
    """A chat has another id now; both ids are texts in the form of a place."""

    old: str
    new: str


@dataclass(frozen=True, slots=True)
class FileReference:
    """A file by reference, its name and its type still raw. Only the channel that wrote `reference` can read it. It
    holds ids of the platform and no address, because an address of a file has its name in it, and often a signature."""

    kind: AttachmentKind
    reference: str
    name: str
    media_type: str = "application/octet-stream"
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class RawQuote:
    """Words that came along with a message as context, still raw; `gateway.contracts.messages.Quote` is the clean
    form."""

    kind: QuoteKind
    author_name: str
    text: str
    attachments: tuple[FileReference, ...] = ()


@dataclass(frozen=True, slots=True)
class Incoming:
    """One message a person wrote, on any platform.

    `id` is `<channel>:<account>:<place>:<platform message id>`, the same for every redelivery and for every
    edit of a message. `place` is empty in a direct message, else the ids of the chat and of the thread or
    topic in it. `text` has the bot's own mention removed (unless it is all there is) and other mentions made
    readable. `sent_at_ms` is 0 where the platform does not say. `edited_at_ms` is set if this is a later
    version of the message. `album_id` joins the parts of an album; `may_continue` says that the sender's
    client may have split one text in two here. `language` is what the platform says of the author (an IETF tag), empty
    where it says nothing. `realm` is what the place belongs to, a server of Discord or a workspace of Slack: its id,
    empty where there is none; `roles` are the ids of those that the author has there. `quotes` is what came along as
    context. `is_bot`: another bot wrote it, one that the operator named. `is_aside` and
    `is_nameable` are those of `InboundMessage`. `position` is true of its platform once the bus has the message."""

    id: str
    channel: str
    account: str
    user_id: str
    author_name: str
    place: tuple[str, ...]
    is_private: bool
    addressing: Addressing
    text: str
    address: ReplyAddress
    sent_at_ms: int = 0
    edited_at_ms: int | None = None
    attachments: tuple[FileReference, ...] = ()
    command: Command | None = None
    album_id: str = ""
    may_continue: bool = False
    language: str = ""
    realm: str = ""
    roles: tuple[str, ...] = ()
    quotes: tuple[RawQuote, ...] = ()
    is_bot: bool = False
    is_aside: bool = False
    is_nameable: bool = False
    position: Position | None = None

    @property
    def is_addressed(self) -> bool:
        return self.addressing is not Addressing.NOT_ADDRESSED

    @property
    def is_edit(self) -> bool:
        return self.edited_at_ms is not None

    @property
    def is_control(self) -> bool:
        """Tell whether this is a command that never waits for work."""
        return self.command is not None and self.command.control is not None and not self.is_edit

    def key(self, scope: SessionScope) -> SessionKey:
        """Return the lane of this message under the configured scope."""
        return SessionKey.scoped(self.channel, self.user_id, self.place, scope)


@dataclass(frozen=True, slots=True)
class Retraction:
    """A message was deleted. `id` is the one its `Incoming` had; some platforms do not say whose it was."""

    id: str
    channel: str
    place: tuple[str, ...]
    user_id: str = ""

    def key(self, scope: SessionScope) -> SessionKey | None:
        """Return the lane in which the deleted message was said, None if nobody knows the author."""
        return SessionKey.scoped(self.channel, self.user_id, self.place, scope) if self.user_id else None


def apart(name: str, mention: re.Match[str]) -> str:
    """Return the name that a mention becomes, kept apart from the word that follows: that word may be a key, and a key
    is not recognized in the middle of a longer word."""
    behind = mention.string[mention.end() : mention.end() + 1]
    return f"{name} " if behind.isascii() and behind.isalnum() else name


def without(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """Return `text` without the given ranges (the bot's mentions), and without the gap each of them leaves.

    "@bot: hello" becomes "hello", "hey @bot, hello" becomes "hey, hello"."""
    ranges = sorted(spans, reverse=True)
    for start, end in ranges:
        before, after = text[:start], text[end:]
        if not before.strip():
            text = after[_greeting_end(after) :]
        elif not after.strip():
            text = before.rstrip()
        elif before[-1].isspace() and after.startswith(_CLOSING):
            text = before.rstrip(" ") + after
        elif before[-1].isspace() and after[0].isspace():
            text = before + after.lstrip(" ")
        else:
            text = before + after
    return text.strip() if ranges else text


def _greeting_end(text: str) -> int:
    match = _AFTER_GREETING.match(text)
    return match.end() if match else 0
