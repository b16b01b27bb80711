"""Messages, replies and control requests for the suites of the bus, with only what a test cares about spelled out."""

from __future__ import annotations

from gateway.contracts.ids import ReplyAddress, SessionKey
from gateway.contracts.messages import (
    CleanText,
    ControlKind,
    ControlRequest,
    DeliveryRecord,
    DeliveryState,
    InboundMessage,
    Receipt,
    Reply,
    ReplyKind,
)

ANNA = SessionKey.parse("telegram:1")
BORIS = SessionKey.parse("telegram:2")


def address(key: SessionKey = ANNA) -> ReplyAddress:
    """Where the owner of `key` is answered."""
    return ReplyAddress(key.channel, str(key), "{}")


def message(number: int | str, key: SessionKey = ANNA, text: str = "hello") -> InboundMessage:
    """Message `number` of a lane; equal numbers of equal lanes are redeliveries."""
    return InboundMessage(
        id=f"{key.channel}:bot:{'.'.join((key.user, *key.place))}:{number}",
        key=key,
        address=address(key),
        text=CleanText(text),
        author_id=key.user,
        author_name=CleanText("Anna"),
        is_private=key.is_private,
        sent_at_ms=1_700_000_000_000,
        received_at_ms=1_700_000_000_100,
    )


def reply(number: int | str, key: SessionKey = ANNA, text: str = "hello yourself") -> Reply:
    """Reply `number` of a lane."""
    return Reply(
        id=f"{key}:{number}:0",
        turn_id=f"turn-{number}",
        key=key,
        address=address(key),
        text=CleanText(text),
        kind=ReplyKind.ANSWER,
        created_at_ms=1_700_000_000_200,
    )


def control(number: int | str, key: SessionKey = ANNA, kind: ControlKind = ControlKind.STOP) -> ControlRequest:
    """A command of the lane's owner."""
    return ControlRequest(kind, message(f"control-{number}", key, text=f"/{kind.value}"))


def receipt(sent: Reply, state: DeliveryState = DeliveryState.SENT) -> Receipt:
    """The end of the delivery of `sent`."""
    record = DeliveryRecord(
        reply_id=sent.id,
        state=state,
        attempt=1,
        next_chunk=1,
        chunks=1,
        platform_ids=("42",),
        updated_at_ms=1_700_000_000_300,
    )
    return Receipt(record, sent.key, sent.address.channel)
