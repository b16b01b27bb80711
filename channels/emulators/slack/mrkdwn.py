"""Slack's text as it is stored: what `&`, `<` and `>` become, what is a mention, where long text is cut. Pure."""

from __future__ import annotations

import re
from html import unescape
from typing import Final

TEXT_MAX: Final = 40_000  # beyond, Slack truncates
SPLIT_OVER: Final = 4040  # observed: up to here a text stays one message
SPLIT_AT: Final = 4000

_CONTROL: Final = re.compile(
    r"<(?:[@#][UWCSBDG][A-Z0-9]+(?:\|[^<>]*)?|!(?:here|channel|everyone|subteam\^[A-Z0-9]+|date\^[^<>]+)(?:\|[^<>]*)?"
    r"|(?:https?://|mailto:|tel:)[^<>|\s]+(?:\|[^<>]*)?)>"
)
_ENTITY: Final = re.compile(r"&(?!(?:amp|lt|gt);)")
_BARE_LINK: Final = re.compile(r"(?<![<|\w])https?://[^\s<>|]*[^\s<>|.,:;!?'\")\]]")
_CODE: Final = re.compile(r"```.*?```|`[^`\n]+`", re.DOTALL)
_USER: Final = re.compile(r"<@([UWB][A-Z0-9]+)(?:\|[^<>]*)?>")


def stored(text: str, *, links: bool = True) -> str:
    """The text an app posted, normalized: control sequences kept, other brackets and ampersands escaped.

    Bare web addresses become links, outside code.
    """
    parts: list[str] = []
    end = 0
    for control in _CONTROL.finditer(text):
        parts.append(_escaped(text[end : control.start()], links=links))
        parts.append(control.group(0))
        end = control.end()
    parts.append(_escaped(text[end:], links=links))
    return "".join(parts)


def _escaped(text: str, *, links: bool) -> str:
    text = _ENTITY.sub("&amp;", text).replace("<", "&lt;").replace(">", "&gt;")
    if not links:
        return text
    parts: list[str] = []
    end = 0
    for code in _CODE.finditer(text):
        parts += [_BARE_LINK.sub(r"<\g<0>>", text[end : code.start()]), code.group(0)]
        end = code.end()
    return "".join(parts) + _BARE_LINK.sub(r"<\g<0>>", text[end:])


def typed(text: str) -> str:
    """What a person's client sends for what they typed: everything escaped, but a mention stays a mention."""
    parts: list[str] = []
    end = 0
    for mention in _USER.finditer(text):
        parts.append(text[end : mention.start()].replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"))
        parts.append(mention.group(0))
        end = mention.end()
    rest = text[end:].replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "".join(parts) + _BARE_LINK.sub(r"<\g<0>>", rest)


def mentioned(text: str) -> list[str]:
    """User ids the text names, in order, each once."""
    return list(dict.fromkeys(_USER.findall(text)))


def plain(text: str) -> str:
    """Entities resolved; control sequences stay as they are."""
    return unescape(text)


def cut(text: str) -> list[str]:
    """Truncated to 40 000 characters and cut into pieces of at most about 4000, at white space where there is some."""
    text = text[:TEXT_MAX]
    if len(text) <= SPLIT_OVER:
        return [text]
    pieces: list[str] = []
    while len(text) > SPLIT_AT:
        space = max(text.rfind("\n", 0, SPLIT_AT), text.rfind(" ", 0, SPLIT_AT))
        at = space if space > SPLIT_AT // 2 else SPLIT_AT
        pieces.append(text[:at])
        text = text[at:].lstrip("\n ") if at == space else text[at:]
    return [*pieces, text] if text else pieces
