"""The wire form of everything on the bus: one JSON object, `{"v": 1, "t": <type>, …}`.

Golden files in `tests/golden/envelopes` pin it. A reader ignores fields it does not know, so that two
releases can run side by side; it refuses a version it does not know, so that nothing is half understood. What
a newer release wrote is `NewerEnvelope`, which nobody buries."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

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
_Fields: TypeAlias = Mapping[str, Any]


def encode(value: Wire) -> bytes:
    """Encode a value as UTF-8 JSON without spaces, keys in a fixed order."""
    name, fields = _ENCODERS[type(value)](value)
    body = {"v": VERSION, "t": name, **fields}
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def decode(data: bytes) -> Wire:
    """Decode the bytes that `encode` made. Raises `BadEnvelope` for anything else."""
    try:
        body = json.loads(data)
        version = body.get("v") if isinstance(body, dict) else None
        if type(version) is int and version > VERSION:
            raise NewerEnvelope(f"envelope of version {version}, this release reads {VERSION} ({len(data)} bytes)")
        if type(version) is not int or version != VERSION:
            raise BadEnvelope(f"envelope of an unknown version ({len(data)} bytes)")
        return _DECODERS[body["t"]](body)
    except (ValueError, KeyError, TypeError, BadSessionKey) as error:
        raise BadEnvelope(f"malformed envelope ({len(data)} bytes, {type(error).__name__})") from error


def decode_inbound(data: bytes) -> messages.InboundMessage:
    """Decode an entry of a mailbox, which may hold only inbound messages."""
    value = decode(data)
    if not isinstance(value, messages.InboundMessage):
        raise BadEnvelope(f"expected an inbound message, found {type(value).__name__}")
    return value


def decode_reply(data: bytes) -> messages.Reply:
    """Decode an entry of an outbound stream."""
    value = decode(data)
    if not isinstance(value, messages.Reply):
        raise BadEnvelope(f"expected a reply, found {type(value).__name__}")
    return value


def inbound_prefix(message_id: str) -> bytes:
    """Return the bytes that begin the envelope of the inbound message with this id, and no other envelope.

    The id comes first and JSON escapes its quotes, so nothing that a person writes can imitate it."""
    head = {"v": VERSION, "t": "inbound", "id": message_id}
    return json.dumps(head, ensure_ascii=False, separators=(",", ":")).encode()[:-1] + b","


def files_to_text(files: Sequence[messages.ReplyFile]) -> str:
    """Encode the files of a reply as one JSON string, for a database column."""
    return json.dumps([_file(file) for file in files], ensure_ascii=False, separators=(",", ":"))


def files_from_text(text: str) -> tuple[messages.ReplyFile, ...]:
    """Decode the string that `files_to_text` made. Raises `BadEnvelope`."""
    try:
        return tuple(map(_to_file, json.loads(text)))
    except (ValueError, KeyError, TypeError) as error:
        raise BadEnvelope("malformed files of a reply") from error


def address_to_text(address: ReplyAddress) -> str:
    """Encode a reply address as one JSON string, for a database column."""
    return json.dumps(_address(address), ensure_ascii=False, separators=(",", ":"))


def address_from_text(text: str) -> ReplyAddress:
    """Decode the string that `address_to_text` made. Raises `BadEnvelope`."""
    try:
        return _to_address(json.loads(text))
    except (ValueError, KeyError, TypeError) as error:
        raise BadEnvelope("malformed reply address") from error


def _address(address: ReplyAddress) -> dict[str, Any]:
    return {"channel": address.channel, "lane": address.lane, "target": address.target}


def _to_address(fields: _Fields) -> ReplyAddress:
    return ReplyAddress(_text(fields, "channel"), _text(fields, "lane"), _text(fields, "target"))


def _text(fields: _Fields, name: str) -> str:
    value = fields[name]
    if not isinstance(value, str):
        raise TypeError(name)
    return value


def _clean(fields: _Fields, name: str) -> messages.CleanText:
    return messages.CleanText(_text(fields, name))


def _inbound(message: messages.InboundMessage) -> dict[str, Any]:
    return {
        "id": message.id,
        "key": str(message.key),
        "address": _address(message.address),
        "text": message.text,
        "author_id": message.author_id,
        "author_name": message.author_name,
        "is_private": message.is_private,
        "sent_at_ms": message.sent_at_ms,
        "received_at_ms": message.received_at_ms,
        "attachments": [_attachment(attachment) for attachment in message.attachments],
        "removed": [{"kind": removed.kind, "count": removed.count} for removed in message.removed],
    } | (
        ({"language": message.language} if message.language else {})
        | ({"quotes": [_quote(quote) for quote in message.quotes]} if message.quotes else {})
        | ({"place": list(message.place)} if message.place else {})
        | ({"realm": message.realm} if message.realm else {})
        | ({"is_aside": True} if message.is_aside else {})
        | ({"wakes": message.wakes} if message.wakes else {})
        | ({"is_nameable": True} if message.is_nameable else {})
    )


def _attachment(attachment: messages.Attachment) -> dict[str, Any]:
    return {
        "kind": attachment.kind.value,
        "reference": attachment.reference,
        "name": attachment.name,
        "media_type": attachment.media_type,
        "size_bytes": attachment.size_bytes,
    }


def _to_attachment(fields: _Fields) -> messages.Attachment:
    return messages.Attachment(
        kind=messages.AttachmentKind(fields["kind"]),
        reference=_text(fields, "reference"),
        name=_clean(fields, "name"),
        media_type=_clean(fields, "media_type"),
        size_bytes=fields["size_bytes"],
    )


def _quote(quote: messages.Quote) -> dict[str, Any]:
    return {
        "kind": quote.kind.value,
        "author_name": quote.author_name,
        "text": quote.text,
        "attachments": [_attachment(attachment) for attachment in quote.attachments],
    }


def _to_quote(fields: _Fields) -> messages.Quote:
    return messages.Quote(
        kind=messages.QuoteKind(fields["kind"]),
        author_name=_clean(fields, "author_name"),
        text=_clean(fields, "text"),
        attachments=tuple(map(_to_attachment, fields["attachments"])),
    )


def _to_inbound(fields: _Fields) -> messages.InboundMessage:
    return messages.InboundMessage(
        id=_text(fields, "id"),
        key=SessionKey.parse(_text(fields, "key")),
        address=_to_address(fields["address"]),
        text=_clean(fields, "text"),
        author_id=_text(fields, "author_id"),
        author_name=_clean(fields, "author_name"),
        is_private=bool(fields["is_private"]),
        sent_at_ms=int(fields["sent_at_ms"]),
        received_at_ms=int(fields["received_at_ms"]),
        attachments=tuple(map(_to_attachment, fields["attachments"])),
        removed=tuple(messages.RemovedSecrets(_text(item, "kind"), int(item["count"])) for item in fields["removed"]),
        language=str(fields.get("language", "")),
        quotes=tuple(map(_to_quote, fields.get("quotes", ()))),
        place=tuple(map(str, fields.get("place", ()))),
        realm=str(fields.get("realm", "")),
        is_aside=bool(fields.get("is_aside", False)),
        wakes=int(fields.get("wakes", 0)),
        is_nameable=bool(fields.get("is_nameable", False)),
    )


def _file(file: messages.ReplyFile) -> dict[str, Any]:
    return {"name": file.name, "media_type": file.media_type, "size_bytes": file.size_bytes, "caption": file.caption}


def _to_file(fields: _Fields) -> messages.ReplyFile:
    return messages.ReplyFile(
        name=_clean(fields, "name"),
        media_type=_text(fields, "media_type"),
        size_bytes=int(fields["size_bytes"]),
        caption=_clean(fields, "caption"),
    )


def _reply(reply: messages.Reply) -> dict[str, Any]:
    of_some: dict[str, Any] = {}
    if bool(reply.choices or reply.amends) or reply.kind is messages.ReplyKind.QUESTION:
        of_some["choices"] = [{"label": choice.label, "command": choice.command} for choice in reply.choices]
        of_some["amends"] = reply.amends
    if reply.files:
        of_some["files"] = [_file(file) for file in reply.files]
    if reply.language:
        of_some["language"] = reply.language
    return {
        "id": reply.id,
        "turn_id": reply.turn_id,
        "key": str(reply.key),
        "address": _address(reply.address),
        "text": reply.text,
        "kind": reply.kind.value,
        "created_at_ms": reply.created_at_ms,
        "title": reply.title,
        **of_some,
    }


def _to_reply(fields: _Fields) -> messages.Reply:
    return messages.Reply(
        id=_text(fields, "id"),
        turn_id=_text(fields, "turn_id"),
        key=SessionKey.parse(_text(fields, "key")),
        address=_to_address(fields["address"]),
        text=_clean(fields, "text"),
        kind=messages.ReplyKind(fields["kind"]),
        created_at_ms=int(fields["created_at_ms"]),
        title=None if fields["title"] is None else _clean(fields, "title"),
        choices=tuple(
            messages.Choice(_clean(item, "label"), _clean(item, "command")) for item in fields.get("choices", ())
        ),
        amends=str(fields.get("amends", "")),
        files=tuple(map(_to_file, fields.get("files", ()))),
        language=str(fields.get("language", "")),
    )


def _control(request: messages.ControlRequest) -> dict[str, Any]:
    return {
        "kind": request.kind.value,
        "message": _inbound(request.message),
        "dropped": request.dropped,
        "was_running": request.was_running,
        "stopped_fence": request.stopped_fence,
        **({"is_press": True} if request.is_press else {}),
    }


def _to_control(fields: _Fields) -> messages.ControlRequest:
    return messages.ControlRequest(
        kind=messages.ControlKind(fields["kind"]),
        message=_to_inbound(fields["message"]),
        dropped=int(fields["dropped"]),
        was_running=bool(fields["was_running"]),
        stopped_fence=int(fields["stopped_fence"]),
        is_press=bool(fields.get("is_press", False)),
    )


def _receipt(receipt: messages.Receipt) -> dict[str, Any]:
    record = receipt.record
    return {
        "reply_id": record.reply_id,
        "state": record.state.value,
        "attempt": record.attempt,
        "next_chunk": record.next_chunk,
        "chunks": record.chunks,
        "platform_ids": list(record.platform_ids),
        "updated_at_ms": record.updated_at_ms,
        "reason": record.reason,
        "placeholder": record.placeholder,
        "marked": list(record.marked),
        "published_at_ms": record.published_at_ms,
        "begun_at_ms": record.begun_at_ms,
        "key": str(receipt.key),
        "channel": receipt.channel,
    }


def _to_receipt(fields: _Fields) -> messages.Receipt:
    record = messages.DeliveryRecord(
        reply_id=_text(fields, "reply_id"),
        state=messages.DeliveryState(fields["state"]),
        attempt=int(fields["attempt"]),
        next_chunk=int(fields["next_chunk"]),
        chunks=int(fields["chunks"]),
        platform_ids=tuple(str(item) for item in fields["platform_ids"]),
        updated_at_ms=int(fields["updated_at_ms"]),
        reason=_clean(fields, "reason"),
        placeholder=_text(fields, "placeholder"),
        marked=tuple(int(item) for item in fields["marked"]),
        published_at_ms=int(fields["published_at_ms"]),
        begun_at_ms=int(fields["begun_at_ms"]),
    )
    return messages.Receipt(record, SessionKey.parse(_text(fields, "key")), _text(fields, "channel"))


def _activity(activity: messages.Activity) -> dict[str, Any]:
    return {
        "address": _address(activity.address),
        "turn_id": activity.turn_id,
        "for_s": activity.for_s,
        "ended": activity.ended,
    }


def _to_activity(fields: _Fields) -> messages.Activity:
    return messages.Activity(
        _to_address(fields["address"]), _text(fields, "turn_id"), float(fields["for_s"]), bool(fields["ended"])
    )


def _draft(draft: messages.Draft) -> dict[str, Any]:
    return {
        "address": _address(draft.address),
        "key": str(draft.key),
        "turn_id": draft.turn_id,
        "reply_id": draft.reply_id,
        "text": draft.text,
    } | ({"language": draft.language} if draft.language else {})


def _to_draft(fields: _Fields) -> messages.Draft:
    return messages.Draft(
        address=_to_address(fields["address"]),
        key=SessionKey.parse(_text(fields, "key")),
        turn_id=_text(fields, "turn_id"),
        reply_id=_text(fields, "reply_id"),
        text=_clean(fields, "text"),
        language=str(fields.get("language", "")),
    )


def _preview(preview: messages.Preview) -> dict[str, Any]:
    return {
        "address": _address(preview.address),
        "key": str(preview.key),
        "turn_id": preview.turn_id,
        "reply_id": preview.reply_id,
        "messages": list(preview.messages),
        "opening": preview.opening,
        "begun_at_ms": preview.begun_at_ms,
    }


def _to_preview(fields: _Fields) -> messages.Preview:
    return messages.Preview(
        address=_to_address(fields["address"]),
        key=SessionKey.parse(_text(fields, "key")),
        turn_id=_text(fields, "turn_id"),
        reply_id=_text(fields, "reply_id"),
        messages=tuple(map(str, fields["messages"])),
        opening=_clean(fields, "opening"),
        begun_at_ms=int(fields["begun_at_ms"]),
    )


_ENCODERS: Final[Mapping[type, Callable[[Any], tuple[str, dict[str, Any]]]]] = {
    messages.InboundMessage: lambda value: ("inbound", _inbound(value)),
    messages.Reply: lambda value: ("reply", _reply(value)),
    messages.ControlRequest: lambda value: ("control", _control(value)),
    messages.Receipt: lambda value: ("receipt", _receipt(value)),
    messages.Activity: lambda value: ("activity", _activity(value)),
    messages.Draft: lambda value: ("draft", _draft(value)),
    messages.Preview: lambda value: ("preview", _preview(value)),
}
_DECODERS: Final[Mapping[str, Callable[[_Fields], Wire]]] = {
    "inbound": _to_inbound,
    "reply": _to_reply,
    "control": _to_control,
    "receipt": _to_receipt,
    "activity": _to_activity,
    "draft": _to_draft,
    "preview": _to_preview,
}
