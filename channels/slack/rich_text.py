"""What a message says: its `text`, or where that is empty its blocks, in the spelling that `text` has. Pure.

A person's client sends both, and other programs may send blocks alone. Never raises on any JSON.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Final

from channels.raw import Raw, integer, mapping, mappings, text

_INDENT: Final = "    "
_INDENT_MAX: Final = 8  # levels that Slack shows


def said_in(message: Raw) -> str:
    """The words with mentions and links as Slack writes them, its three entities escaped."""
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
    """The lines of one part of rich text."""
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
