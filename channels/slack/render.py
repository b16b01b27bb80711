"""CommonMark for Slack, as mrkdwn in `text`.

Slack also takes real Markdown (`markdown_text`, the `markdown` block). We do not use it: what it renders
differs between workspaces, it cannot be combined with `text`, and a finished message is edited under the
4000-character limit of `chat.update` anyway. mrkdwn in `text` works in every workspace.

Facts: `& < >` are escaped everywhere, in code too, which also takes the power from `<!channel>` and `<@U…>`;
nothing else can be escaped; signs work only at word borders and within a line; a link's label is plain.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from typing import Final, TypeAlias

from channels.slack.growing import streamable
from channels.text.chunking import split
from channels.text.emphasis import ZERO_WIDTH_SPACE, Piece, weave
from channels.text.inlines import URL_CHARS_MAX
from channels.text.layout import Line, Style, lay_out, linked_text, spans
from channels.text.markdown import parse
from channels.text.tables import fit_tables
from channels.text.tree import Blocks, Fence, Mark, Run, plain_text
from gateway.contracts.messages import Choice, CleanText

TEXT_CHARS_MAX: Final = 3900  # escaped; Slack splits silently a little above 4000
TABLE_WIDTH_MAX: Final = 80

STYLE: Final = Style(bullets=("• ", "◦ ", "▪ "), indent="    ", rule="———", gap_after_level=0)
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
    """One file that is shared with a comment, which is escaped. `upload_id` is Slack's name for what was put up."""

    name: str
    content: bytes = field(repr=False)
    comment: str
    upload_id: str = ""


SlackPart: TypeAlias = SlackChunk | SlackFile


def file_part(name: str, content: bytes, caption: str) -> SlackFile:
    """The message that shows a file with its caption."""
    return SlackFile(name, content, _literal(caption, is_line_start=True))


def render(text: CleanText) -> tuple[SlackChunk, ...]:
    """The messages that show `text`, in order; none for a text in which there is nothing to see."""
    blocks = fit_tables(parse(text), TABLE_WIDTH_MAX)
    chunks = tuple(_chunk(part) for part in split(blocks, _load, chars_max=TEXT_CHARS_MAX))
    return (replace(chunks[0], source=streamable(text)),) if len(chunks) == 1 else chunks


def under(line: str, chunk: SlackPart) -> SlackPart:
    """The chunk below a line of its own."""
    if isinstance(chunk, SlackFile):
        return replace(chunk, comment=f"{line}\n{chunk.comment}".strip())
    return replace(chunk, text=f"{line}\n{chunk.text}", plain=f"{line}\n{chunk.plain}")


def _load(blocks: Blocks) -> float:
    return len(_text(lay_out(blocks, STYLE))) / TEXT_CHARS_MAX


def _chunk(blocks: Blocks) -> SlackChunk:
    lines = lay_out(blocks, STYLE)
    return SlackChunk(_text(lines), _escaped(linked_text(lines).strip()))


def _escaped(text: str) -> str:
    return escape(text, quote=False)


def _text(lines: Sequence[Line]) -> str:
    return "\n".join(text for line in _unquoted_gaps(lines) for text in _written(line)).strip()


def _unquoted_gaps(lines: Sequence[Line]) -> Iterator[Line]:
    """Slack cannot quote a fence: it stands between the quoted lines, and so do the gaps beside it."""
    for before, line, after in zip((None, *lines), lines, (*lines[1:], None), strict=False):
        is_gap = line.is_blank and any(beside and beside.fence for beside in (before, after))
        yield Line() if is_gap else line


def _written(line: Line) -> Iterator[str]:
    if line.fence:
        yield from _fence_lines(line.fence)
        return
    prefix = "> " if line.is_quoted else ""
    more = frozenset({Mark.BOLD}) if line.level else frozenset[Mark]()
    pieces = [_piece(span, more, is_first=not index) for index, span in enumerate(spans(line.runs))]
    yield prefix + line.lead + weave(pieces, _SIGNS, needs_border=_is_word)


def _fence_lines(fence: Fence) -> Iterator[str]:
    yield "```"
    yield _escaped(fence.text).replace("```", f"`{ZERO_WIDTH_SPACE}`{ZERO_WIDTH_SPACE}`")
    yield "```"


def _is_word(char: str) -> bool:
    return char.isalnum() or unicodedata.category(char).startswith("M")


def _piece(span: Sequence[Run], more: frozenset[Mark], *, is_first: bool) -> Piece:
    run = span[0]
    marks = frozenset.intersection(*(part.marks for part in span)) | more
    label = plain_text(span)
    if Mark.BARE_URL in run.marks or (run.url and label == run.url):
        return Piece(_escaped(label), marks)
    if run.url:
        return Piece(_link(run.url, label), marks)
    if Mark.CODE in marks and "`" not in label:
        return Piece(f"`{_escaped(label)}`", marks, is_atom=True)
    return Piece(_literal(label, is_line_start=is_first), marks)


def _link(url: str, label: str) -> str:
    address = _escaped(url)
    if len(address) > URL_CHARS_MAX:  # ampersands grow fivefold
        return f"{_escaped(label)} ({address})"
    return f"<{address}|{_escaped(label)}>"


def _literal(text: str, *, is_line_start: bool) -> str:
    """Text that Slack shows as it is: a sign that could open something is held off its word."""
    escaped = _escaped(_OPENING_SIGN.sub(rf"\1{ZERO_WIDTH_SPACE}", text))
    return ZERO_WIDTH_SPACE + escaped if is_line_start and _QUOTE_SIGN.match(text) else escaped
