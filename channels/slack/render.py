"""Render CommonMark for Slack: mrkdwn in `text`, blocks, and what of it can be appended to a stream. Pure.

Slack also takes real Markdown (`markdown_text`, the `markdown` block). We do not use it: what it renders differs
between workspaces, it cannot be combined with `text`, and a finished message is edited under the 4000-character limit
of `chat.update` anyway. mrkdwn in `text` works in every workspace.

Facts: `& < >` are escaped everywhere, in code too, which also takes the power from `<!channel>` and `<@U…>`; nothing
else can be escaped; signs work only at word borders and within a line; a link's label is plain."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from html import escape, unescape
from itertools import chain, count
from typing import Any, Final, TypeAlias

from channels.markdown import layout
from channels.markdown.chunk import split
from channels.markdown.parse import URL_CHARS_MAX, parse
from channels.markdown.tree import Blocks, Fence, Mark, TextRun, plain_text
from channels.slack import limits
from gateway.contracts.messages import Choice, CleanText

# The part of a growing answer that can be appended to a stream of Slack. Pure.
#
# A stream only grows, and takes Markdown, not mrkdwn. So the text shown is the model's own, without the power to call
# anybody, and without its end as long as that may still become something else: a sign that opens or closes.

_CALL: Final = re.compile(r"<(?=[!@#])")
_LINK: Final = re.compile(r"://|\w\.[^\W\d_]{2}")
"""A whole address, or what may be the name of a host: Slack's clients make links of both."""
_UNSETTLED: Final = " \t\n*_~`|<&[]!\\#>-+="


def streamable(text: str) -> str:
    """Escape Markdown so that `<!channel>`, `<@U…>` and `<#C…>` are mere words."""
    return _CALL.sub("&lt;", text)


def has_link(markdown: str) -> bool:
    """Tell whether Slack may take anything in it for a link, in any notation of the signs."""
    return _LINK.search(unescape(markdown).replace("\\", "")) is not None


def settled(markdown: str) -> str:
    """Return the part of an unfinished text that later text leaves as it is."""
    return markdown.rstrip(_UNSETTLED)


def continuation(shown: str, markdown: str) -> str | None:
    """Return the text to append to `shown`, perhaps nothing; None for a text that does not continue it."""
    whole = settled(markdown)
    if whole.startswith(shown):
        return whole[len(shown) :]
    return "" if shown.startswith(whole) else None


TEXT_CHARS_MAX: Final = 3900  # escaped; Slack splits silently a little above 4000
TABLE_WIDTH_MAX: Final = 80

STYLE: Final = layout.Style(bullets=("• ", "◦ ", "▪ "), indent="    ", rule="———", gap_after_level=0)
_SIGNS: Final = {Mark.BOLD: "*", Mark.ITALIC: "_", Mark.STRIKE: "~"}
_OPENING_SIGN: Final = re.compile(r"(?<!\w)([*_~`])(?=\S)")
_QUOTE_SIGN: Final = re.compile(r"\s*>")


@dataclass(frozen=True, slots=True)
class SlackChunk:
    """One message's `text`, to be sent with `mrkdwn` on. `plain` is for `mrkdwn` off; both are escaped. `choices`
    are the buttons below it, `picks` is the command whose argument can be picked there. `source` is the same as
    Markdown for a stream, and empty for a part of a longer text."""

    text: str
    plain: str
    choices: tuple[Choice, ...] = ()
    source: str = ""
    picks: str = ""


@dataclass(frozen=True, slots=True)
class SlackFile:
    """One file that is shared with a comment, which is escaped. `upload_id` is Slack's name for the uploaded file."""

    name: str
    content: bytes = field(repr=False)
    comment: str
    upload_id: str = ""


SlackPart: TypeAlias = SlackChunk | SlackFile


def file_part(name: str, content: bytes, caption: str) -> SlackFile:
    """Build the message that shows a file with its caption."""
    return SlackFile(name, content, _literal(caption, is_line_start=True))


def render(text: CleanText) -> tuple[SlackChunk, ...]:
    """Render the messages that show `text`, in order; none for a text in which there is nothing to see."""
    blocks = layout.fit_tables(parse(text), TABLE_WIDTH_MAX)
    chunks = split(blocks, _chunk, _filled, chars_max=TEXT_CHARS_MAX)
    return (replace(chunks[0], source=streamable(text)),) if len(chunks) == 1 else chunks


def under(line: str, chunk: SlackPart) -> SlackPart:
    """Put the chunk below a line of its own."""
    if isinstance(chunk, SlackFile):
        return replace(chunk, comment=f"{line}\n{chunk.comment}".strip())
    return replace(chunk, text=f"{line}\n{chunk.text}", plain=f"{line}\n{chunk.plain}")


def _filled(chunk: SlackChunk) -> float:
    return len(chunk.text) / TEXT_CHARS_MAX


def _chunk(blocks: Blocks) -> SlackChunk:
    lines = layout.lay_out(blocks, STYLE)
    return SlackChunk(_text(lines), _escaped(layout.linked_text(lines).strip()))


def _escaped(text: str) -> str:
    return escape(text, quote=False)


def _text(lines: Sequence[layout.TextLine]) -> str:
    return "\n".join(text for line in _unquoted_gaps(lines) for text in _written(line)).strip()


def _unquoted_gaps(lines: Sequence[layout.TextLine]) -> Iterator[layout.TextLine]:
    """Take the quote away from blank lines next to a fence: Slack cannot quote a fence, which goes between the quoted
    lines."""
    for before, line, after in zip((None, *lines), lines, (*lines[1:], None), strict=False):
        is_gap = line.is_blank and any(beside and beside.fence for beside in (before, after))
        yield layout.TextLine() if is_gap else line


def _written(line: layout.TextLine) -> Iterator[str]:
    if line.fence:
        yield from _fence_lines(line.fence)
        return
    prefix = "> " if line.is_quoted else ""
    more = frozenset({Mark.BOLD}) if line.level else frozenset[Mark]()
    pieces = [_piece(span, more, is_first=not index) for index, span in enumerate(layout.spans(line.runs))]
    yield prefix + line.lead + layout.line_text(pieces, _SIGNS, needs_border=_is_word)


def _fence_lines(fence: Fence) -> Iterator[str]:
    yield "```"
    yield layout.ticks_apart(_escaped(fence.text), 3)
    yield "```"


def _is_word(char: str) -> bool:
    return char.isalnum() or unicodedata.category(char).startswith("M")


def _piece(span: Sequence[TextRun], more: frozenset[Mark], *, is_first: bool) -> layout.Piece:
    run = span[0]
    marks = frozenset.intersection(*(part.marks for part in span)) | more
    label = plain_text(span)
    if Mark.BARE_URL in run.marks or (run.url and label == run.url):
        return layout.Piece(_escaped(label), marks)
    if run.url:
        return layout.Piece(_link(run.url, label), marks)
    if Mark.CODE in marks and "`" not in label:
        return layout.Piece(f"`{_escaped(label)}`", marks, is_atom=True)
    return layout.Piece(_literal(label, is_line_start=is_first), marks)


def _link(url: str, label: str) -> str:
    address = _escaped(url)
    if len(address) > URL_CHARS_MAX:  # ampersands grow fivefold
        return f"{_escaped(label)} ({address})"
    return f"<{address}|{_escaped(label)}>"


def _literal(text: str, *, is_line_start: bool) -> str:
    """Write text that Slack shows as it is: a sign that could open something is held off its word."""
    escaped = _escaped(_OPENING_SIGN.sub(rf"\1{layout.ZERO_WIDTH_SPACE}", text))
    return layout.ZERO_WIDTH_SPACE + escaped if is_line_start and _QUOTE_SIGN.match(text) else escaped


# Block Kit, as far as our messages need it. Pure.

Block = dict[str, Any]

_FENCE: Final = "```"
_FENCE_LINE: Final = len(_FENCE) + 1
_ATOM: Final = re.compile(r"<[^<>]*>|&[a-z]+;|[^<&\s]{1,200}|[<&\s]")

PICK: Final = "pick-"
"""In front of the command that a list is for."""


def blocks_of(chunk: SlackChunk, *, plain: bool) -> list[Block]:
    """Build the chunk's text with a row of buttons and lists below it; nothing for a chunk without any, and nothing for
    one that goes out `plain`, because it could be refused once more: the words on the buttons may be typed."""
    if plain or not (chunk.choices or chunk.picks):
        return []
    buttons = [
        {
            "type": "button",
            "action_id": f"choice-{number}",
            "text": {"type": "plain_text", "text": choice.label[: limits.BUTTON_LABEL_CHARS_MAX]},
            "value": choice.command,
        }
        for number, choice in zip(count(1), chunk.choices, strict=False)
    ]
    lists = [_list(chunk.picks)] if chunk.picks else []
    elements = [*buttons[: limits.ACTIONS_MAX - len(lists)], *lists]
    sections: list[Block] = [
        {"type": "section", "text": {"type": "mrkdwn", "text": part}} for part in _parts(chunk.text)
    ]
    return [*sections, {"type": "actions", "elements": elements}]


def _parts(words: str) -> Iterator[str]:
    """Split the words into parts that sections take, between lines where that is possible; a fence is closed and opened
    anew."""
    part, is_fenced = "", False
    for line in chain.from_iterable(map(_pieces, words.split("\n"))):
        is_end = is_fenced and line == _FENCE
        if part and not is_end and len(part) + 1 + len(line) + _FENCE_LINE > limits.SECTION_CHARS_MAX:
            yield f"{part}\n{_FENCE}" if is_fenced else part
            part = _FENCE if is_fenced else ""
        part = f"{part}\n{line}" if part else line
        is_fenced ^= line == _FENCE
    yield part


def _pieces(line: str) -> Iterator[str]:
    """Split a line that is too long, never within a word, a link or an entity."""
    piece = ""
    for atom in _ATOM.findall(line):
        if piece and len(piece) + len(atom) + 2 * _FENCE_LINE > limits.SECTION_CHARS_MAX:
            yield piece
            piece = ""
        piece += atom
    yield piece


def _list(command: str) -> Block:
    """Build a list whose content Slack asks for whenever somebody opens it or types. Its language is that of
    commands."""
    return {
        "type": "external_select",
        "action_id": f"{PICK}{command}",
        "placeholder": {"type": "plain_text", "text": f"/{command} …"},
        "min_query_length": 0,
    }


def option(label: str, value: str) -> Block:
    """Build one line of a list."""
    return {"text": {"type": "plain_text", "text": label[: limits.OPTION_CHARS_MAX]}, "value": value}
