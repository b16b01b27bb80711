"""Committed replies on their way to the platforms, and what is known of the places they go to."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import (
    Activity,
    DeliveryRecord,
    Draft,
    Preview,
    Receipt,
    Reply,
)


@dataclass(frozen=True, slots=True)
class PendingReply:
    """A reply taken from the outbound stream, with the ledger's word on it."""

    entry_id: str
    reply: Reply
    record: DeliveryRecord


@dataclass(frozen=True, slots=True)
class WantedFile:
    """A committed file that a channel is about to send: `Reply.files[position]`."""

    key: SessionKey
    reply_id: str
    position: int


@dataclass(frozen=True, slots=True)
class TokenWish:
    """A token of a bucket that gains `per_s`, up to `burst`. What may be left undone asks with `spare`, the tokens that
    must remain for what may not."""

    bucket: str
    per_s: float
    burst: int
    spare: float = 0


class DeliveryBus(Protocol):
    """The outbound stream and the delivery ledger of one channel. Raises `BusUnavailable`."""

    async def replies(self, channel: str, consumer: str, *, count: int, wait_s: float) -> Sequence[PendingReply]:
        """New replies; first those that other consumers left behind. Only the holder of the channel's
        delivery lease may ask, so whatever another consumer still has is left behind."""
        ...

    async def record(self, channel: str, entry_id: str, record: DeliveryRecord) -> bool:
        """Write the ledger row: called with SENDING before each platform call. False, and nothing is written:
        another process took the entry over."""
        ...

    async def delivered(self, key: SessionKey, reply_id: str) -> DeliveryRecord:
        """What the ledger says of a reply; PENDING when it says nothing (any more)."""
        ...

    def put_back(self, channel: str) -> None:
        """Whatever was handed out and is not finished is handed out again, to whoever asks next."""
        ...

    async def finish(self, channel: str, entry_id: str, receipt: Receipt) -> None:
        """Write the last state, hand the receipt over and drop the stream entry, atomically."""
        ...

    def activities(self, channel: str) -> AsyncIterator[Activity]:
        """Running turns of this channel's addresses, as they are announced."""
        ...

    def drafts(self, channel: str) -> AsyncIterator[Draft]:
        """Answers of this channel's addresses while they are made. Lossy on purpose."""
        ...

    async def note_preview(self, channel: str, preview: Preview) -> bool:
        """Write down what shows a draft: before each message that is begun, and again with its id. False, and nothing
        is written: the delivery of the reply has begun."""
        ...

    async def preview(self, channel: str, key: SessionKey, reply_id: str) -> Preview | None:
        """What shows the draft of a reply."""
        ...

    async def previews(self, channel: str) -> Sequence[Preview]:
        """All that show drafts, whoever began them."""
        ...

    async def drop_preview(self, channel: str, preview: Preview) -> None:
        """Its messages are the reply's, or gone."""
        ...

    async def publish_notice(self, reply: Reply) -> None:
        """A reply that no turn made (queue full, pairing code); deduplicated by its id."""
        ...

    async def borrow_file(self, wanted: WantedFile, *, wait_s: float) -> bytes | None:
        """The bytes of a file, from whichever agent process answers; empty when nobody keeps them any more, None
        when nobody answered in time. May be repeated."""
        ...

    async def hold(self, name: str, holder: str, *, ttl_s: float) -> bool:
        """Take or renew a named lease (one poller per bot token). False: someone else holds it."""
        ...

    async def release(self, name: str, holder: str) -> None: ...

    async def take_send_tokens(self, account: str, wishes: Sequence[TokenWish]) -> float:
        """Spend one token of each of these buckets of an account, which all processes share, or none at all; seconds
        to wait first (0 = go)."""
        ...

    async def pause_bucket(self, account: str, bucket: str, *, for_s: float) -> None:
        """A 429 said how long everybody has to wait."""
        ...


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is known of an address before something is sent to it."""

    dead_because: str = ""
    is_account_unsure: bool = False


class PlaceBus(Protocol):
    """What all processes of the channels role know about accounts and places. Raises `BusUnavailable`.

    Names begin with the account, `<channel>:<account id>`, and are the adapter's own.
    """

    async def outlook(self, account: str, place: str) -> Outlook:
        """What is known of a place, and whether the account had a send of unknown outcome lately."""
        ...

    async def bury(self, account: str, place: str, *, reason: str) -> int:
        """Remember that a place takes nothing any more; how many refusals the account met lately."""
        ...

    async def revive(self, place: str) -> None:
        """Somebody spoke there: it may be written to again."""
        ...

    async def doubt(self, account: str) -> None:
        """A send had an unknown outcome: for a while every process sends more carefully."""
        ...

    async def note_sent(self, place: str, ids: Sequence[str]) -> None:
        """Messages of ours in a place, as the platform numbers them."""
        ...

    async def sent_lately(self, place: str) -> frozenset[str]:
        """Every message of ours in a place that was noted within the last hours."""
        ...

    async def note_move(self, channel: str, old: str, new: str) -> None:
        """A chat has another id from now on, for ever."""
        ...

    async def newest_ids(self, channel: str, chats: Sequence[str]) -> Sequence[str]:
        """Where each of these chats lives now; itself when it never moved."""
        ...

    async def first_ids(self, channel: str, chats: Sequence[str]) -> Sequence[str]:
        """The id under which each of these chats was known at first: session keys keep it."""
        ...

    async def moved(self, channel: str) -> Mapping[str, str]:
        """Every other id that a chat of this channel has had since its first, and that first one."""
        ...

    async def keep_link(self, name: str, url: str, *, ttl_s: float) -> None:
        """Keep an address that a platform gave us for a few answers to one person, for as long as it is good. Whoever
        has it can speak in our name: it is in no message and in no log."""
        ...

    async def link(self, name: str) -> str:
        """The address, empty once it is good no more."""
        ...

    async def introduce(self, platform: str, bots: Sequence[str]) -> None:
        """These bots are ours: no account of ours hears them."""
        ...

    async def hear_bot(self, room: str, message_id: str, *, speaker: str) -> bool:
        """Whether a message of another bot is to be heard: not when it is one of ours, nor after BOT_TURNS_MAX of them
        in the room (its name begins with the platform) since a person spoke. What comes again counts once."""
        ...

    async def person_spoke(self, room: str) -> None:
        """Bots are heard there again."""
        ...

    async def may_name(self, place: str, *, conversation: str, is_first: bool) -> bool:
        """Whether a place bears the title of this conversation: the one that named it `is_first`, and no other for
        NAMER_TTL_S since."""
        ...

    async def count_ambiguous(self, channel: str) -> None:
        """A chunk was sent again although an earlier attempt may have arrived."""
        ...
