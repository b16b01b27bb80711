"""The values that travel between the roles. All are frozen; all text is clean."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from hashlib import blake2b
from typing import Any, LiteralString, NewType

from gateway.contracts.errors import Code, Reason
from gateway.contracts.ids import ReplyAddress, SessionKey

CleanText = NewType("CleanText", str)
"""Text that has been through the scrubber. Only `gateway.scrub` makes it from raw text; the
envelope and the store, which hold nothing else, restore it. A test pins who may call this name."""


def literal_text(text: LiteralString) -> CleanText:
    """Mark a sentence of our own, a literal in the source, as clean: it holds no secret. A test checks that it is a
    literal."""
    return CleanText(text)


def literal_code(code: Reason | Code) -> CleanText:
    """Mark a code of ours as clean: we counted its figures ourselves, so it holds no secret."""
    return CleanText(str(code))


def joined(*parts: CleanText, by: LiteralString = "") -> CleanText:
    """Clean parts put together are clean."""
    return CleanText(by.join(parts))


def clipped(text: CleanText, chars_max: int) -> CleanText:
    """Return the beginning of a clean text, which is clean too."""
    return CleanText(text[:chars_max])


def is_visible(text: str) -> bool:
    """Tell whether a reader would see anything of it: platforms refuse blank messages."""
    return any(not (char.isspace() or unicodedata.category(char) in {"Cc", "Cf"}) for char in text)


def portion(text: CleanText, start: int, end: int) -> CleanText:
    """Return any part of a clean text, which is clean too."""
    return CleanText(text[start:end])


def rewritten(text: CleanText, pattern: re.Pattern[str], by: CleanText) -> CleanText:
    """Replace parts of a clean text by a clean text. `by` is inserted literally."""
    return CleanText(pattern.sub(lambda _found: by, text))


def stop_command(key: SessionKey) -> CleanText:
    """Spell the command of a button that stops the answer of a lane: in a shared place it names the lane, which a press
    does not tell."""
    return CleanText(f"/stop {key}" if key.place else "/stop")


def in_digits(number: int) -> CleanText:
    """Format a number that we have counted ourselves."""
    return CleanText(str(number))


class AttachmentKind(StrEnum):
    IMAGE = "image"
    AUDIO = "audio"
    VOICE = "voice"
    VIDEO = "video"
    DOCUMENT = "document"


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that came with a message, by reference: the bus never carries media.

    `reference` is opaque to everyone but the channel that wrote it."""

    kind: AttachmentKind
    reference: str
    name: CleanText
    media_type: CleanText = CleanText("application/octet-stream")
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """One secret found: which rule, and where in the text. Never the secret."""

    rule: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class RemovedSecrets:
    """The number of secrets of one kind that intake removed from a message."""

    kind: str
    count: int


class QuoteKind(StrEnum):
    """Why words that somebody else may have written come along with a message."""

    REPLY = "reply"
    """The message answers this one."""
    EXCERPT = "excerpt"
    """The author marked this part of the message that is answered."""
    FORWARD = "forward"
    """The author passes this on."""
    THREAD = "thread"
    """It was said in the thread before the bot was called; oldest first."""


@dataclass(frozen=True, slots=True)
class Quote:
    """Words that came along with a message as context. They are no instruction of its author."""

    kind: QuoteKind
    author_name: CleanText
    text: CleanText
    attachments: tuple[Attachment, ...] = ()


@dataclass(frozen=True, slots=True)
class InboundMessage:
    """One message that Trivet answers: normalized, scrubbed, bounded.

    `id` is unique for ever and equal for every redelivery of the same platform message:
    `<channel>:<account>:<place>:<platform message id>`. Times are Unix milliseconds. `language` is what the platform
    says of its author, as an IETF tag (`de`, `pt-BR`), empty where it says nothing. `quotes` is what came along.
    `place` is where it was said, where the key does not hold that: the ids of the chat and of the thread in it; `realm`
    is the server or workspace that the place belongs to, empty where there is none. `is_aside`: a button was pressed
    under a message that one person alone sees, and the answer is for them alone, at this address. `wakes`: how
    many messages of ended sub-agents, this one included, have led to one another since a person spoke; 0: one speaks.
    `is_nameable`: the place at this address may have a name that is ours to give, as threads and topics have; who
    cannot know says that it may."""

    id: str
    key: SessionKey
    address: ReplyAddress
    text: CleanText
    author_id: str
    author_name: CleanText
    is_private: bool
    sent_at_ms: int
    received_at_ms: int
    attachments: tuple[Attachment, ...] = ()
    removed: tuple[RemovedSecrets, ...] = ()
    language: str = ""
    quotes: tuple[Quote, ...] = ()
    place: tuple[str, ...] = ()
    realm: str = ""
    is_aside: bool = False
    wakes: int = 0
    is_nameable: bool = False

    @property
    def author(self) -> SessionKey:
        """Return the key of the person who wrote the message, also if the session key names only a place."""
        key = self.key
        return key.owner if key.user else SessionKey(key.channel, self.author_id)

    @property
    def spoken_in(self) -> tuple[str, ...]:
        """Return the ids of the chat and of the thread in it, none in a direct message."""
        return self.key.place or self.place

    @property
    def author_shown(self) -> CleanText:
        """Return the author's name for display: a name, or the platform's id of the person."""
        return self.author_name or CleanText(self.author_id)

    @property
    def is_text(self) -> bool:
        """Tell whether the message is text and nothing else."""
        return not self.attachments and not self.quotes


STATUS_PREFIX = "status:"
"""The prefix of the ids of status lines, and of what is edited into them."""
TITLE_PREFIX = "title:"
"""The prefix of the ids of titles on their way; the turn that made it follows."""


class ReplyKind(StrEnum):
    ANSWER = "answer"
    NOTICE = "notice"
    ERROR = "error"
    QUESTION = "question"
    STATUS = "status"
    """The progress of work that an answer waits for, in a line that is edited in place: silent, given up rather than
    late, and never in an answer's way."""
    TITLE = "title"
    """The conversation's new title: no message, but the name of the thread or topic that it has to itself, where there
    is one. Naming may be repeated, comes late or not at all, and never in an answer's way."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One button under a reply. A press of it says `command`: an answer to a question, as if the person had written
    it, or PRESS with the token of a `Button`; at most 64 bytes, which is what Telegram takes."""

    label: CleanText
    command: CleanText


@dataclass(frozen=True, slots=True)
class ReplyFile:
    """A file that goes out after a reply's text, by reference: the bytes are in SQL until the delivery has
    ended, under the reply's id and the file's position in it. `name` is fit for any platform; `caption` is
    plain text, "" for none."""

    name: CleanText
    media_type: str
    size_bytes: int
    caption: CleanText


@dataclass(frozen=True, slots=True)
class Reply:
    """One committed answer, as CommonMark, on its way to a channel.

    `id` is the outbox id: the same for every repetition of the same answer. `choices` become buttons under its
    last message, where the platform has them. With `amends`, the id of an earlier reply to the same address, it is
    no new message: it takes the place of that reply's last one. `files` go out after the text, in their order.
    `language` is what its reader is spoken to in (a `gateway.i18n.Language`), for what a channel adds to it.
    One of kind TITLE says nothing but `title`; no other has one."""

    id: str
    turn_id: str
    key: SessionKey
    address: ReplyAddress
    text: CleanText
    kind: ReplyKind
    created_at_ms: int
    title: CleanText | None = None
    choices: tuple[Choice, ...] = ()
    amends: str = ""
    files: tuple[ReplyFile, ...] = ()
    language: str = ""


class DeliveryState(StrEnum):
    """Name the states of a delivery: pending -> sending -> sent | retry | failed | unknown."""

    PENDING = "pending"
    SENDING = "sending"
    SENT = "sent"
    RETRY = "retry"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class DeliveryRecord:
    """The ledger's row for one reply: how far delivery came.

    `reason` is a sentence of the platform's or of ours, `placeholder` the platform's id of a message that is
    in for the next chunk, or what `channels.core.attempt` writes while it is on its way. `marked` are the chunks that
    went out under a line that says "perhaps a repetition". `published_at_ms` is when the bus got the reply,
    `begun_at_ms` when the first platform call was made. `shown` are the messages that showed the draft of the reply,
    by chunk, as the platform numbers them: each is still to become its chunk, or to be taken away."""

    reply_id: str
    state: DeliveryState
    attempt: int = 0
    next_chunk: int = 0
    chunks: int = 0
    platform_ids: tuple[str, ...] = ()
    updated_at_ms: int = 0
    reason: CleanText = CleanText("")
    placeholder: str = ""
    marked: tuple[int, ...] = ()
    published_at_ms: int = 0
    begun_at_ms: int = 0
    shown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Receipt:
    """The end of a delivery, on its way to SQL."""

    record: DeliveryRecord
    key: SessionKey
    channel: str


@dataclass(frozen=True, slots=True)
class DeliveryProgress:
    """The progress of one committed reply, as SQL knows it.

    While no receipt is written the state is PENDING and no chunk counts as sent; the ledger on the bus
    knows more, for as long as it lives."""

    reply_id: str
    turn_id: str
    channel: str
    created_at_ms: int
    state: DeliveryState
    chunks_sent: int = 0
    chunks: int = 0
    attempts: int = 0
    reason: CleanText = CleanText("")
    updated_at_ms: int = 0


@dataclass(frozen=True, slots=True)
class MessageTrace:
    """One inbound message of a turn: when the turn took it, and when it was answered (0: not yet). One that was given
    up was answered with an apology; `error_reference` is what that told its author to quote."""

    message_id: str
    taken_at_ms: int
    answered_at_ms: int = 0
    is_given_up: bool = False
    error_reference: str = ""


@dataclass(frozen=True, slots=True)
class TurnTrace:
    """The record of one turn in SQL, from its messages to its replies. `finished_at_ms` is 0 while it runs.

    `started_at_ms` is 0 and `state` empty where none ever began: of a message that was given up before, and of a reply
    that no turn made, whose `turn_id` is empty."""

    turn_id: str
    key: SessionKey
    state: str
    runs: int
    error_reference: str
    started_at_ms: int
    finished_at_ms: int
    messages: tuple[MessageTrace, ...]
    replies: tuple[DeliveryProgress, ...]


class ControlKind(StrEnum):
    STOP = "stop"
    STATUS = "status"
    WHERE = "where"
    APPROVE = "approve"
    DENY = "deny"
    CLAIM = "claim"
    """Somebody sent the owner code, which the channel has compared: no word says it."""
    PRESS = "press"
    """A button says it, followed by a token: what it does is known to us alone (`gateway.contracts.messages`)."""


@dataclass(frozen=True, slots=True)
class ControlRequest:
    """A command that never waits for work. The other fields are what `stop` did.

    `stopped_fence` is the fencing token of the turn that it cancelled, 0 when none ran. `is_press`: it was said
    with a button, so the answer is for the one who pressed it alone."""

    kind: ControlKind
    message: InboundMessage
    dropped: int = 0
    was_running: bool = False
    stopped_fence: int = 0
    is_press: bool = False


@dataclass(frozen=True, slots=True)
class Activity:
    """A turn is running for this address: show a typing indicator for `for_s` seconds. Lossy."""

    address: ReplyAddress
    turn_id: str
    for_s: float
    ended: bool = field(default=False)


@dataclass(frozen=True, slots=True)
class Draft:
    """The answer of a running turn as far as it has been made, scrubbed: always the whole text so far. Lossy, and the
    last word is the reply, whose id is known before it exists. `language` is its reader's."""

    address: ReplyAddress
    key: SessionKey
    turn_id: str
    reply_id: str
    text: CleanText
    language: str = ""


@dataclass(frozen=True, slots=True)
class Preview:
    """The messages that show a draft where it leaves messages behind: written down before the platform hears of them,
    so that the process that delivers the reply makes them its own, and no other's death leaves half an answer there.

    `messages` are the platform's ids, in order. `opening` is how one more begins that may be there or not: its whole
    first text; empty when none is on its way. `begun_at_ms` is when the first one was begun."""

    address: ReplyAddress
    key: SessionKey
    turn_id: str
    reply_id: str
    messages: tuple[str, ...] = ()
    opening: CleanText = CleanText("")
    begun_at_ms: int = 0


# The action of a button under a reply: a command, for one person, once. The platform holds nothing but a
# token.
#
# Buttons of one group exclude each other: a press of one uses all of them up, under whichever reply they hang. The
# answers to questions (`gateway.contracts.messages`) have codes of their own, which people may also write.


_DIGEST_BYTES = 10


@dataclass(frozen=True, slots=True)
class Button:
    """Made with the reply it hangs under, in the same commit. A press by `meant_for` (an owner key) says `command` on
    the lane of `key`, at `address` (or aside, at that of the press), until `expires_at_ms`. `place` and `realm` are
    those of an `InboundMessage`."""

    token: str
    group: str
    reply_id: str
    label: CleanText
    command: CleanText
    meant_for: SessionKey
    key: SessionKey
    address: ReplyAddress
    is_private: bool
    place: tuple[str, ...]
    realm: str
    expires_at_ms: int

    def said_by(self, press: InboundMessage) -> InboundMessage:
        """Build the message that pressing the button sends. Its id is the same however often and wherever it is built,
        and reveals no token."""
        digest = blake2b(self.token.encode(), digest_size=_DIGEST_BYTES).hexdigest()
        return replace(
            press,
            id=f"{self.key.channel}:button:{digest}",
            key=self.key,
            address=press.address if press.is_aside else self.address,
            text=self.command,
            is_private=self.is_private,
            place=self.place,
            realm=self.realm,
            is_nameable=True,
        )


class PressState(StrEnum):
    """The result of a press."""

    TAKEN = "taken"
    """It counts; also when the same press is looked at once more."""
    USED = "used"
    EXPIRED = "expired"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class RedeemedButton:
    """The result of a press. `reply_ids` are all replies under which the buttons of its group hang."""

    standing: PressState
    reply_ids: tuple[str, ...] = ()


# A question to a person, as the bus keeps it while somebody waits for the answer.


@dataclass(frozen=True, slots=True)
class PutQuestion:
    """`code` is what its buttons say; `replies` are what people read of it, the first where the turn was asked
    for. `asked_by` (an owner key) may answer, or any admin; None: an admin alone. `key` is the lane and `fence` that of
    the turn that waits: the answer is worth nothing to any other run. Where a sub-agent waits that outlives its turn,
    `task_id` says which; else it is "". `digest` is that of what the answer is about."""

    code: str
    key: SessionKey
    replies: tuple[Reply, ...]
    asked_by: SessionKey | None
    fence: int
    digest: str
    task_id: str = ""


@dataclass(frozen=True, slots=True)
class QuestionState:
    """The state of a question: open, settled by the command of a person (`answer`), or closed by its owner."""

    question: PutQuestion
    is_open: bool
    answer: ControlRequest | None = None


# A secret that a person sent, as it is kept for tools: sealed, named by its placeholder, for a while.


@dataclass(frozen=True, slots=True)
class SecretName:
    """The name of a secret: the one that `sent_by` sent on the lane `key`, and that `placeholder` replaces."""

    key: SessionKey
    sent_by: SessionKey
    placeholder: str


@dataclass(frozen=True, slots=True)
class SealedSecret:
    """A secret that only the holder of the vault's key can read, and only under this name and this time."""

    name: SecretName
    expires_at_ms: int
    sealed: bytes


@dataclass(frozen=True, slots=True)
class SecretUse:
    """A tool was given a secret: when, whose, which tool, in which turn. What the secret was nobody can tell."""

    name: SecretName
    tool: str
    turn_id: str
    at_ms: int


# Clean text inside of structures: every text in a document of lists and objects. Pure.


def each_text(value: Any, clean: Callable[[str], CleanText]) -> Any:
    """Clean every text in `value`, each by itself; the field names of an object are left as they are."""
    match value:
        case str():
            return clean(value)
        case Mapping():
            return {name: each_text(inner, clean) for name, inner in value.items()}
        case list() | tuple():
            return [each_text(inner, clean) for inner in value]
        case _:
            return value
