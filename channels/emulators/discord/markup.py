"""Discord's Markdown subset as its client shows it: message text to safe HTML. Pure.

Known: bold, italic, underline, strike, spoiler, code, fences, headings 1-3, small print, quotes, lists, masked
and bare links, mentions, timestamps. Everything else, tables and images too, is shown as it was typed.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from html import escape
from typing import Final

NameOf = Callable[[str], str | None]
"""What a mention shows: `@42`, `@&42` or `#42` to a name, or None when nobody is called so."""

DEPTH_MAX: Final = 8  # marks inside marks; deeper ones are shown as they were typed
LIST_DEPTH_MAX: Final = 5  # lists inside lists; deeper items stand below those of this depth, as the style sheet has it

_FENCE: Final = re.compile(r"```(?:([\w+#.-]+)\n)?\n?(.*?)\n?```", re.DOTALL)
_HEADING: Final = re.compile(r"(#{1,3}) +(\S.*)")
_SMALL: Final = re.compile(r"-# +(\S.*)")
_ITEM: Final = re.compile(r"( *)(?:[-*]|(\d+)\.) +(\S.*)")
_INLINE: Final = re.compile(
    r"""
      \\(?P<literal>[^\w\s]|_)
    | (?<!`)(?P<ticks>`{1,2})(?!`)(?P<code>.+?)(?<!`)(?P=ticks)(?!`)
    | \*\*(?P<bold>(?:\\.|[^\\])+?)\*\*(?!\*)
    | __(?P<underline>(?:\\.|[^\\])+?)__(?!_)
    | ~~(?P<strike>.+?)~~
    | \|\|(?P<spoiler>.+?)\|\|
    | \*(?P<star>(?![\s*])(?:\\.|\*\*(?:\\.|[^\\*])+?\*\*|[^\\*])+?(?<!\s))\*(?!\*)
    | (?<!\w)_(?P<italic>(?:\\.|__(?:\\.|[^\\_])+?__|[^\\_])+?)_(?!\w)
    | \[(?P<label>[^\[\]\n]+)\]\(<?(?P<target>https?://[^\s<>()]*(?:\([^\s<>()]*\)[^\s<>()]*)*)>?(?:\ "[^"]*")?\)
    | <(?P<quiet>https?://[^\s<>]+)>
    | (?P<bare>https?://[^\s<>]*[^\s<>.,:;"')\]*_~|])
    | <(?P<mention>@&|@!?|\#)(?P<id>\d+)>
    | (?P<everyone>@everyone|@here)
    | <t:(?P<moment>-?\d{1,13})(?::[tTdDfFsSR])?>
    | <a?:(?P<emoji>\w+):\d+>
    """,
    re.VERBOSE | re.DOTALL,
)


def to_html(text: str, name_of: NameOf) -> str:
    """HTML with everything the person typed escaped; no attribute but a checked link's `href` comes from them."""
    parts: list[str] = []
    end = 0
    for fence in _FENCE.finditer(text):
        if not fence.group(2).strip():
            continue
        parts.append(_blocks(text[end : fence.start()].removesuffix("\n"), name_of))
        language = f' class="language-{escape(fence.group(1))}"' if fence.group(1) else ""
        parts.append(f"<pre><code{language}>{escape(fence.group(2))}</code></pre>")
        end = fence.end() + text[fence.end() :].startswith("\n")
    parts.append(_blocks(text[end:], name_of))
    return "".join(parts)


def _blocks(text: str, name_of: NameOf, *, may_quote: bool = True) -> str:
    """Quotes do not nest: `> >` is a quote that begins with a sign."""
    parts: list[str] = []
    lines = deque(text.split("\n") if text else ())
    while lines:
        line = lines.popleft()
        if may_quote and line.startswith(">>> "):
            parts.append(_quote([line[4:], *lines], name_of))
            break
        if may_quote and line.startswith("> "):
            quoted = [line[2:]]
            while lines and lines[0].startswith("> "):
                quoted.append(lines.popleft()[2:])
            parts.append(_quote(quoted, name_of))
        elif block := _block(line, name_of):
            parts.append(block)
        else:
            paragraph = [line]
            while lines and not _starts_block(lines[0]):
                paragraph.append(lines.popleft())
            parts.append(_inline("\n".join(paragraph), name_of))
    return "".join(parts)


def _quote(lines: list[str], name_of: NameOf) -> str:
    return f"<blockquote>{_blocks(chr(10).join(lines), name_of, may_quote=False)}</blockquote>"


def _starts_block(line: str) -> bool:
    return line.startswith(("> ", ">>> ")) or any(p.fullmatch(line) for p in (_HEADING, _SMALL, _ITEM))


def _block(line: str, name_of: NameOf) -> str | None:
    if heading := _HEADING.fullmatch(line):
        level = len(heading.group(1))
        return f"<h{level}>{_inline(heading.group(2), name_of)}</h{level}>"
    if small := _SMALL.fullmatch(line):
        return f"<small>{_inline(small.group(1), name_of)}</small>"
    if item := _ITEM.fullmatch(line):
        indent, number, body = item.groups()
        depth = min(len(indent) // 2, LIST_DEPTH_MAX)
        sign = f"{number}." if number else ("•", "◦", "▪")[min(depth, 2)]
        return f'<div class="item depth-{depth}">{sign} {_inline(body, name_of)}</div>'
    return None


def _inline(text: str, name_of: NameOf, depth: int = 0) -> str:
    if depth > DEPTH_MAX:
        return _plain(text)
    parts: list[str] = []
    end = 0
    for found in _INLINE.finditer(text):
        parts.append(_plain(text[end : found.start()]))
        parts.append(_mark(found, name_of, depth + 1))
        end = found.end()
    parts.append(_plain(text[end:]))
    return "".join(parts)


def _plain(text: str) -> str:
    return escape(text).replace("\n", "<br>")


_TAGS: Final = {
    "bold": ("<strong>", "</strong>"),
    "underline": ("<u>", "</u>"),
    "strike": ("<s>", "</s>"),
    "spoiler": ('<span class="spoiler">', "</span>"),
    "star": ("<em>", "</em>"),
    "italic": ("<em>", "</em>"),
}


def _mark(found: re.Match[str], name_of: NameOf, depth: int) -> str:
    groups = found.groupdict()
    for kind, (opening, closing) in _TAGS.items():
        if groups[kind] is not None:
            return opening + _inline(groups[kind], name_of, depth) + closing
    if groups["literal"]:
        return escape(groups["literal"])
    if groups["code"]:
        return f"<code>{escape(groups['code'])}</code>"
    if groups["label"]:
        return _link(groups["target"], _inline(groups["label"], name_of, depth))
    if url := groups["quiet"] or groups["bare"]:
        return _link(url, escape(url))
    if groups["mention"]:
        return _mention(groups["mention"], groups["id"], found.group(0), name_of)
    if groups["everyone"]:
        return f'<span class="mention">{groups["everyone"]}</span>'
    if groups["moment"]:
        return f"<time>{_moment(int(groups['moment']), found.group(0))}</time>"
    return escape(f":{groups['emoji']}:")


def _link(url: str, label: str) -> str:
    return f'<a href="{escape(url)}" rel="noreferrer noopener" target="_blank">{label}</a>'


def _mention(sign: str, target: str, typed: str, name_of: NameOf) -> str:
    sign = sign.replace("!", "")
    name = name_of(sign + target)
    if name is None:
        return escape(typed)
    return f'<span class="mention">{escape(sign[0] + name)}</span>'


def _moment(seconds: int, typed: str) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%d %B %Y %H:%M UTC")
    except (OverflowError, ValueError, OSError):  # a year that no calendar has
        return escape(typed)
