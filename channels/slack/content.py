"""Content of a Slack message: its words, its files, and the words of others that come with it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import Final

from channels.core.message import FileReference, Raw, RawQuote, apart, canonical, integer, mapping, mappings, text
from gateway.contracts.messages import AttachmentKind, QuoteKind

TOKEN: Final = re.compile(r"<([^<>\s|][^<>|]*)(?:\|([^<>]*))?>")
"""The content of angle brackets: a mention, a channel, a call, a link; and its label."""

_SHOWN_BY_NAME: Final = ("@", "#", "!")
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)


def readable(content: str, names: Mapping[str, str]) -> str:
    """Replace mentions by names and links by their addresses, and only then the entities: an escaped `<@U1>` that a
    person typed is no mention."""

    def shown(match: re.Match[str]) -> str:
        if not match[1].startswith(_SHOWN_BY_NAME) and not _SCHEME.match(match[1]):
            return match[0]  # a tag of somebody's XML: a slash command's text comes as it was typed
        words = _token(match[1], match[2] or "", names)
        return apart(words, match) if match[1].startswith(_SHOWN_BY_NAME) else words

    return unescaped(TOKEN.sub(shown, content))


def unescaped(content: str) -> str:
    """Replace the three entities; Slack escapes nothing else."""
    return content.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def _token(link: str, label: str, names: Mapping[str, str]) -> str:
    sign, name = link[:1], link[1:]
    if sign == "@":
        return f"@{label or names.get(name, name)}"
    if sign == "#":
        return f"#{label or name}"
    if sign == "!":
        return label or "@" + name.partition("^")[0]
    if link == f"http://{label}":  # Slack takes any word with a dot for an address: this is what was typed
        return label
    address = link.removeprefix("mailto:").removeprefix("tel:")
    is_same = label in ("", link, address, link.removeprefix("https://"))
    return address if is_same else f"{label} ({address})"


def mentioned(content: str) -> Iterator[str]:
    """Yield the ids of the people named in a text."""
    return (match[1][1:] for match in TOKEN.finditer(content) if match[1].startswith("@"))


# The words of a message: its `text`, or where that is empty its blocks, in the spelling that `text` has. Pure.
#
# A person's client sends both, and other programs may send blocks alone. Never raises on any JSON.

_INDENT: Final = "    "
_INDENT_MAX: Final = 8  # levels that Slack shows


def said_in(message: Raw) -> str:
    """Return the words with mentions and links as Slack writes them, its three entities escaped."""
    words = text(message.get("text"))
    return words if words.strip() else "\n".join(filter(None, map(_block, mappings(message.get("blocks")))))


def _block(block: Raw) -> str:
    match block.get("type"):
        case "rich_text":
            return "\n".join(line for part in mappings(block.get("elements")) for line in _part(part))
        case "section":
            return "\n".join(map(_text_object, (mapping(block.get("text")), *mappings(block.get("fields"))))).strip()
        case "header":
            return _text_object(mapping(block.get("text")))
        case "context":
            return " ".join(map(_text_object, mappings(block.get("elements")))).strip()
        case "markdown":
            return text(block.get("text"))
        case _:
            return ""


def _text_object(shown: Raw) -> str:
    words = text(shown.get("text"))
    return words if shown.get("type") == "mrkdwn" else escape(words, quote=False)


def _part(part: Raw) -> Iterator[str]:
    """Yield the lines of one part of rich text."""
    match part.get("type"):
        case "rich_text_list":
            yield from _items(part)
        case "rich_text_preformatted":
            yield from ("```", _line(part), "```")
        case "rich_text_quote":
            yield from (f"&gt; {line}" for line in _line(part).split("\n"))
        case _:
            yield _line(part)


def _items(part: Raw) -> Iterator[str]:
    indent = _INDENT * max(0, min(integer(part.get("indent")) or 0, _INDENT_MAX))
    first = 1 + (integer(part.get("offset")) or 0)
    for number, item in enumerate(mappings(part.get("elements")), start=first):
        yield f"{indent}{f'{number}.' if part.get('style') == 'ordered' else '•'} {_line(item)}"


def _line(part: Raw) -> str:
    return "".join(map(_piece, mappings(part.get("elements")))).strip("\n")


def _piece(piece: Raw) -> str:
    match piece.get("type"):
        case "text":
            return escape(text(piece.get("text")), quote=False)
        case "link":
            url, label = (escape(text(piece.get(name)), quote=False) for name in ("url", "text"))
            return f"<{url}|{label}>" if label else f"<{url}>"
        case "user":
            return f"<@{text(piece.get('user_id'))}>"
        case "channel":
            return f"<#{text(piece.get('channel_id'))}>"
        case "usergroup":
            return f"<!subteam^{text(piece.get('usergroup_id'))}>"
        case "broadcast":
            return f"<!{text(piece.get('range'))}>"
        case "emoji":
            tone = integer(piece.get("skin_tone"))
            return f":{text(piece.get('name'))}:" + (f":skin-tone-{tone}:" if tone else "")
        case _:
            return escape(text(piece.get("fallback")) or text(piece.get("value")), quote=False)


# The files of a message, by reference. Pure.

_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_GONE: Final = ("tombstone", "hidden_by_limit")


def references(event: Raw) -> Iterator[FileReference]:
    """Yield the files that still exist; an address of a file is never kept."""
    for file in mappings(event.get("files")):
        file_id = text(file.get("id"))
        if not _ID.fullmatch(file_id) or file.get("mode") in _GONE:
            continue
        media_type = text(file.get("mimetype")) or "application/octet-stream"
        yield FileReference(
            kind=_kind(file, media_type),
            reference=canonical({"id": file_id}),
            name=text(file.get("name")) or text(file.get("title")) or file_id,
            media_type=media_type,
            size_bytes=integer(file.get("size")),
        )


def _kind(file: Raw, media_type: str) -> AttachmentKind:
    if file.get("subtype") == "slack_audio":
        return AttachmentKind.VOICE
    kinds = {"image": AttachmentKind.IMAGE, "audio": AttachmentKind.AUDIO, "video": AttachmentKind.VIDEO}
    return kinds.get(media_type.partition("/")[0], AttachmentKind.DOCUMENT)


# Words of others that come along with a message: those its author passes on, and those of its thread. Pure.

_SPOKEN: Final = frozenset({"", "file_share", "thread_broadcast", "me_message", "bot_message"})


def forwarded(event: Raw, names: Mapping[str, str]) -> Iterator[RawQuote]:
    """Yield the Slack messages that the author shared or linked to. A preview of a page is none."""
    for shared in mappings(event.get("attachments")):
        if _is_message(shared):
            author = names.get(text(shared.get("author_id"))) or text(shared.get("author_name"))
            words = readable(text(shared.get("text")) or text(shared.get("fallback")), names)
            files = tuple(references(shared))
            if words.strip() or files:
                yield RawQuote(QuoteKind.FORWARD, author or text(shared.get("author_subname")), words, files)


def said_before(thread: Iterable[Raw], ts: str, names: Mapping[str, str], *, quotes_max: int) -> tuple[RawQuote, ...]:
    """Quote the messages of a thread before the message `ts`, oldest first: its root, and the newest of the others."""
    spoken = [
        quote for message in thread if _order(text(message.get("ts"))) < _order(ts) for quote in _spoken(message, names)
    ]
    return (*spoken[:1], *spoken[1:][-(quotes_max - 1) :])


def people_in(event: Raw) -> Iterator[str]:
    """Yield the ids of the people who wrote a message, are named in it, or are passed on."""
    yield from filter(None, (text(event.get("user")), *mentioned(said_in(event))))
    for shared in mappings(event.get("attachments")):
        yield from filter(None, (text(shared.get("author_id")),))


def _is_message(shared: Raw) -> bool:
    if shared.get("is_share") is True or shared.get("is_msg_unfurl") is True:
        return True
    return bool(shared.get("from_url") and shared.get("author_id") and shared.get("channel_id"))


def _spoken(message: Raw, names: Mapping[str, str]) -> Iterator[RawQuote]:
    if text(message.get("subtype")) not in _SPOKEN or message.get("hidden") is True:
        return
    words, files = readable(said_in(message), names), tuple(references(message))
    if not words.strip():
        words = "\n".join(readable(text(part.get("fallback")), names) for part in mappings(message.get("attachments")))
    if words.strip() or files:
        yield RawQuote(QuoteKind.THREAD, _author(message, names), words, files)


def _author(message: Raw, names: Mapping[str, str]) -> str:
    user, profile = text(message.get("user")), mapping(message.get("bot_profile"))
    return text(profile.get("name")) or names.get(user) or text(message.get("username")) or user


def _order(ts: str) -> tuple[int, int]:
    """Turn a timestamp into a value to compare; anything else comes last."""
    seconds, _, fraction = ts.partition(".")
    is_one = seconds.isascii() and seconds.isdigit() and fraction.isascii() and (fraction.isdigit() or not fraction)
    return (int(seconds), int(fraction or 0)) if is_one and len(ts) <= 32 else (2**63, 0)
