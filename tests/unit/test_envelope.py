"""The wire form, pinned by golden files: a change of one byte is a change of version."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.contracts.envelope import (
    Wire,
    address_from_text,
    address_to_text,
    decode,
    decode_as,
    encode,
    files_from_text,
    files_to_text,
    inbound_prefix,
)
from gateway.contracts.errors import BadEnvelope, NewerEnvelope
from gateway.contracts.ids import ReplyAddress, SessionKey
from gateway.contracts.messages import (
    Activity,
    Attachment,
    AttachmentKind,
    Choice,
    ControlKind,
    ControlRequest,
    DeliveryRecord,
    DeliveryState,
    Draft,
    InboundMessage,
    Preview,
    Receipt,
    RemovedSecrets,
    Reply,
    ReplyFile,
    ReplyKind,
    literal_text,
)

GOLDEN: Final = Path(__file__).parents[1] / "golden" / "envelopes"
ADDRESS: Final = ReplyAddress("telegram", "-100456/77", '{"chat_id":-100456,"message_thread_id":77}')
INBOUND: Final = InboundMessage(
    id="telegram:4242:-100456:9",
    key=SessionKey.parse("telegram:123/-100456/77"),
    address=ADDRESS,
    text=literal_text("grüß dich, 世界 👋"),
    author_id="123",
    author_name=literal_text("Ada"),
    is_private=False,
    sent_at_ms=1_800_000_000_000,
    received_at_ms=1_800_000_000_250,
    attachments=(
        Attachment(AttachmentKind.IMAGE, "file-7", literal_text("cat.jpg"), literal_text("image/jpeg"), 2_048),
    ),
    removed=(RemovedSecrets("openai", 1),),
)
REPLY: Final = Reply(
    id="t_1:1",
    turn_id="t_1",
    key=INBOUND.key,
    address=ADDRESS,
    text=literal_text("**hello**"),
    kind=ReplyKind.ANSWER,
    created_at_ms=1_800_000_001_000,
)
QUESTION: Final = replace(
    REPLY,
    id="t_1:ask:K7QM2PXA",
    text=literal_text("May I run **shell**?"),
    kind=ReplyKind.QUESTION,
    choices=(
        Choice(literal_text("Approve"), literal_text("/approve K7QM2PXA")),
        Choice(literal_text("Deny"), literal_text("/deny K7QM2PXA")),
    ),
)
STATUS: Final = replace(
    REPLY, id="status:t_1:task_1", text=literal_text("⏳ explore: the tests"), kind=ReplyKind.STATUS
)
TITLE: Final = replace(
    REPLY, id="title:t_1", text=literal_text(""), kind=ReplyKind.TITLE, title=literal_text("Größe und Gewicht")
)
FILE: Final = ReplyFile(literal_text("größe.png"), "image/png", 2_048, literal_text("today's"))
VALUES: Final[dict[str, Wire]] = {
    "inbound": INBOUND,
    "reply": REPLY,
    "wake": replace(INBOUND, id="subagent:K7QM2PXA", wakes=3, is_nameable=True),
    "reply_with_files": replace(REPLY, files=(FILE,)),
    "question": QUESTION,
    "amendment": replace(
        REPLY, id="t_1:ask:K7QM2PXA:end", text=literal_text("**Approved** by Ada."), amends=QUESTION.id
    ),
    "status": STATUS,
    "status_edited": replace(
        STATUS,
        id=f"{STATUS.id}:completed",
        text=literal_text("✓ explore: the tests (2 s, 900 tokens)"),
        amends=STATUS.id,
    ),
    "title": TITLE,
    "press": ControlRequest(
        ControlKind.APPROVE, replace(INBOUND, text=literal_text("/approve K7QM2PXA")), is_press=True
    ),
    "control": ControlRequest(ControlKind.STOP, INBOUND, dropped=2, was_running=True, stopped_fence=7),
    "receipt": Receipt(
        DeliveryRecord("t_1:1", DeliveryState.SENT, 1, 2, 2, ("11", "12"), 1_800_000_002_000), REPLY.key, "telegram"
    ),
    "activity": Activity(ADDRESS, "t_1", 6.0),
    "draft": Draft(ADDRESS, REPLY.key, "t_1", "t_1:1", literal_text("**hel"), "de"),
    "preview": Preview(ADDRESS, REPLY.key, "t_1", "t_1:1", ("11",), literal_text("and so"), 1_800_000_000_500),
}


@pytest.mark.parametrize("name", VALUES)
def test_an_envelope_is_written_as_its_golden_file_says(name: str) -> None:
    assert encode(VALUES[name]) == (GOLDEN / f"{name}.json").read_bytes().rstrip(b"\n")


@pytest.mark.parametrize("name", VALUES)
def test_a_golden_file_is_read_back_whole(name: str) -> None:
    assert decode((GOLDEN / f"{name}.json").read_bytes()) == VALUES[name]


def test_fields_of_a_newer_release_are_passed_over() -> None:
    """Two releases run side by side during an upgrade."""
    assert decode(encode(REPLY).replace(b'"v":1', b'"v":1,"colour":"green"')) == REPLY


def test_what_a_newer_release_wrote_is_no_rubbish() -> None:
    """It is left to a process that understands it."""
    with pytest.raises(NewerEnvelope):
        decode(encode(REPLY).replace(b'"v":1', b'"v":2'))


@pytest.mark.parametrize(
    ("text", "whole"),
    [("\ud83d" + "\ude00", "\U0001f600"), ("half \ud83d", "half \ufffd"), ("\ude00 half", "\ufffd half")],
)
def test_half_of_a_surrogate_pair_is_no_reason_to_refuse_a_message(text: str, whole: str) -> None:
    """JSON can say it and UTF-8 cannot: a message that nobody could put on the bus would come again for ever."""
    said = literal_text(text)
    inbound, reply = replace(INBOUND, text=said, author_name=said), replace(REPLY, text=said)
    clean = literal_text(whole)
    assert decode(encode(inbound)) == replace(inbound, text=clean, author_name=clean)
    assert decode(encode(reply)) == replace(reply, text=clean)


def test_files_fit_into_a_column() -> None:
    assert files_from_text(files_to_text((FILE, FILE))) == (FILE, FILE)
    with pytest.raises(BadEnvelope):
        files_from_text('[{"name":1}]')


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"nonsense",
        b"[]",
        b'{"v":0,"t":"reply"}',
        b'{"v":true,"t":"reply"}',
        b'{"v":"1","t":"reply"}',
        b'{"v":1,"t":"poem"}',
        b'{"v":1,"t":"reply"}',
        b"\xff\xfe",
        b"null",
    ],
)
def test_anything_else_is_refused(data: bytes) -> None:
    """Never half understood, and never another kind of error."""
    with pytest.raises(BadEnvelope):
        decode(data)


def test_a_mailbox_holds_messages_and_an_outbound_stream_replies() -> None:
    with pytest.raises(BadEnvelope):
        decode_as(InboundMessage, encode(REPLY))
    with pytest.raises(BadEnvelope):
        decode_as(Reply, encode(INBOUND))


def test_an_address_fits_into_a_column() -> None:
    assert address_from_text(address_to_text(ADDRESS)) == ADDRESS
    with pytest.raises(BadEnvelope):
        address_from_text("{}")


IDS: Final = st.text(st.characters(codec="utf-8"), min_size=1, max_size=40)
QUOTES: Final = st.sampled_from(['"', "\\", '","', '","key":"', '{"v":1,"t":"inbound","id":"a"', "\x00", "\u2028"])


@given(IDS | QUOTES, IDS | QUOTES, IDS | QUOTES)
def test_an_inbound_envelope_begins_with_its_own_id_and_no_other(this: str, other: str, text: str) -> None:
    """So that a message is found in its mailbox without reading what a person wrote."""
    said = replace(INBOUND, id=this, text=type(INBOUND.text)(text), author_id=other)
    assert encode(said).startswith(inbound_prefix(this))
    assert encode(said).startswith(inbound_prefix(other)) == (this == other)
    assert not encode(REPLY).startswith(inbound_prefix(REPLY.id))
