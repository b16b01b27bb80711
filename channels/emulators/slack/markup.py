"""Slack's two dialects as its client shows them: mrkdwn, and real Markdown in `markdown` blocks. Safe HTML. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import escape, unescape
from typing import Final

from markdown_it import MarkdownIt

from channels.emulators.slack.mrkdwn import stored
from channels.emulators.traffic import Json

NameOf = Callable[[str], str | None]
"""The name behind a user or conversation id, or None."""

# Both with the empty line on either side: a box and a bar stand off by themselves.
_FENCE: Final = re.compile(r"\n{0,2}```\n?(.*?)\n?```\n{0,2}", re.DOTALL)
_QUOTE: Final = re.compile(r"\n{0,2}(?:^&gt; ?[^\n]*\n?)+\n?", re.MULTILINE)
_INLINE: Final = re.compile(
    r"`(?P<code>[^`\n]+)`"
    r"|<(?P<control>[^<>\n]+)>"
    r"|(?<![\w`*])\*(?P<bold>(?! )[^*\n]+(?<! ))\*(?![\w*])"
    r"|(?<![\w`_])_(?P<italic>(?! )[^_\n]+(?<! ))_(?![\w_])"
    r"|(?<![\w`~])~(?P<strike>(?! )[^~\n]+(?<! ))~(?![\w~])"
)
_TAGS: Final = {"bold": "strong", "italic": "em", "strike": "s"}
_MARKDOWN: Final = MarkdownIt("commonmark", {"html": False, "breaks": True}).enable(["table", "strikethrough"])
_MENTION: Final = re.compile(r"&lt;([@#!])([\w^]+)(?:\|[^&<>]*)?&gt;")


def mrkdwn_html(text: str, name_of: NameOf) -> str:
    """Stored mrkdwn (entities escaped) to HTML."""
    parts: list[str] = []
    end = 0
    for fence in _FENCE.finditer(text):
        parts.append(_quotes(text[end : fence.start()], name_of))
        parts.append(f"<pre><code>{_literal(fence.group(1), name_of)}</code></pre>")
        end = fence.end()
    parts.append(_quotes(text[end:], name_of))
    return "".join(parts)


def _quotes(text: str, name_of: NameOf) -> str:
    parts: list[str] = []
    end = 0
    for quote in _QUOTE.finditer(text):
        parts.append(_inline(text[end : quote.start()], name_of))
        inner = re.sub(r"^&gt; ?", "", quote.group(0).strip("\n"), flags=re.MULTILINE)
        parts.append(f"<blockquote>{_inline(inner, name_of)}</blockquote>")
        end = quote.end()
    parts.append(_inline(text[end:], name_of))
    return "".join(parts)


def _inline(text: str, name_of: NameOf) -> str:
    parts: list[str] = []
    end = 0
    for found in _INLINE.finditer(text):
        parts.append(_plain(text[end : found.start()]))
        end = found.end()
        if found.group("code"):
            parts.append(f"<code>{_literal(found.group('code'), name_of)}</code>")
        elif found.group("control"):
            parts.append(_control(found.group("control"), name_of))
        else:
            kind = next(name for name in _TAGS if found.group(name))
            parts.append(f"<{_TAGS[kind]}>{_inline(found.group(kind), name_of)}</{_TAGS[kind]}>")
    parts.append(_plain(text[end:]))
    return "".join(parts)


def _plain(text: str) -> str:
    return escape(unescape(text)).replace("\n", "<br>")


def _literal(text: str, name_of: NameOf) -> str:
    """Inside code only control sequences still mean something: a mention there pings, too."""
    return re.sub(r"<([^<>\n]+)>", lambda found: _shown(found.group(1), name_of), _entities(text))


def _entities(text: str) -> str:
    return re.sub(r'["\']', lambda found: escape(found.group(0)), text)


def _shown(control: str, name_of: NameOf) -> str:
    target, _, label = control.partition("|")
    return _control(control, name_of) if target[:1] in "@#!" else escape(unescape(label or target))


def _control(control: str, name_of: NameOf) -> str:
    target, _, label = control.partition("|")
    sign, rest = target[:1], target[1:]
    if sign in ("@", "#"):
        return _mention(sign + (name_of(rest) or label or rest))
    if sign == "!":
        return _mention(label or "@" + rest.partition("^")[0])
    if target.startswith(("http://", "https://", "mailto:")):
        shown = _plain(label or target.removeprefix("mailto:"))
        return f'<a href="{escape(unescape(target))}" rel="noreferrer noopener" target="_blank">{shown}</a>'
    return _plain(f"<{control}>")


def _mention(name: str) -> str:
    return f'<span class="mention">{escape(unescape(name))}</span>'


def markdown_html(text: str, name_of: NameOf) -> str:
    """Real Markdown; HTML in it is text; Slack's mentions work."""
    html = str(_MARKDOWN.render(text))

    def shown(found: re.Match[str]) -> str:
        return _control(unescape(found.group(1) + found.group(2)), name_of)

    return _MENTION.sub(shown, html)


def blocks_html(blocks: list[Json], name_of: NameOf) -> str:
    """The blocks of a message, one after another."""
    return "".join(_block(block, name_of) for block in blocks)


def _block(block: Json, name_of: NameOf) -> str:
    kind = block.get("type")
    if kind == "markdown":
        return markdown_html(str(block.get("text", "")), name_of)
    if kind == "divider":
        return "<hr>"
    if kind == "header":
        return f"<h2>{_text(block.get('text'), name_of)}</h2>"
    if kind == "section":
        return "".join(
            f"<p>{_text(part, name_of)}</p>" for part in [block.get("text"), *(block.get("fields") or [])] if part
        )
    if kind == "context":
        return f"<small>{' '.join(_text(part, name_of) for part in block.get('elements') or [])}</small>"
    if kind == "actions":
        return "".join(f"<button>{_text(e.get('text'), name_of)}</button>" for e in block.get("elements") or [])
    if kind == "table":
        rows = (f"<tr>{''.join(f'<td>{_cell(cell, name_of)}</td>' for cell in row)}</tr>" for row in block["rows"])
        return f"<table>{''.join(rows)}</table>"
    return "".join(_rich(element, name_of) for element in block.get("elements") or [])


def _text(part: object, name_of: NameOf) -> str:
    if not isinstance(part, dict):
        return ""
    text = str(part.get("text", ""))
    return mrkdwn_html(stored(text), name_of) if part.get("type") == "mrkdwn" else escape(text)


def _cell(cell: Json, name_of: NameOf) -> str:
    return escape(str(cell.get("text", ""))) if cell.get("type") == "raw_text" else _rich(cell, name_of)


_RICH_TAGS: Final = {"rich_text_preformatted": "pre", "rich_text_quote": "blockquote", "rich_text_section": "div"}
_STYLES: Final = {"bold": "strong", "italic": "em", "strike": "s", "code": "code"}


def _rich(element: Json, name_of: NameOf) -> str:
    kind = element.get("type")
    inner = "".join(_rich(part, name_of) for part in element.get("elements") or [])
    if kind == "rich_text_list":
        tag = "ol" if element.get("style") == "ordered" else "ul"
        items = "".join(f"<li>{_rich(part, name_of)}</li>" for part in element.get("elements") or [])
        return f"<{tag}>{items}</{tag}>"
    if kind in _RICH_TAGS:
        return f"<{_RICH_TAGS[kind]}>{inner}</{_RICH_TAGS[kind]}>"
    if kind == "user":
        return _mention("@" + (name_of(str(element.get("user_id"))) or str(element.get("user_id"))))
    if kind == "link":
        return _control(f"{element.get('url')}|{element.get('text') or element.get('url')}", name_of)
    if kind != "text":
        return inner
    shown = escape(str(element.get("text", ""))).replace("\n", "<br>")
    for style, tag in _STYLES.items():
        if (element.get("style") or {}).get(style):
            shown = f"<{tag}>{shown}</{tag}>"
    return shown
