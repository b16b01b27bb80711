"""A text that is still being written, as if it were closed: characters whose meaning the next ones may change are
held back, and open emphasis and code are closed.

An open fence needs nothing: CommonMark closes it at the end of the text, and so do our renderers. Guesses may be
wrong, for a text that goes on may mean anything; then a marker is seen for a moment. The final answer is rendered
without any guess."""

from __future__ import annotations

import itertools
import re
from typing import Final, NamedTuple

from gateway.contracts.messages import CleanText, clipped, joined, literal_text

HELD_CHARS_MAX: Final = 2_000  # of one link or address; what goes on for longer is none, and is shown as it is
_ROUNDS_MAX: Final = 16  # if more is nested in the part held back, its whole paragraph is held back

_FENCE: Final = re.compile(r"(?:[ \t>]|[-+*][ \t]|\d{1,9}[.)][ \t])*(`{3,}(?=[^`]*$)|~{3,})")
_FENCE_BEGUN: Final = re.compile(r"(?:[ \t>]|[-+*][ \t]|\d{1,9}[.)][ \t])*(?:`{1,}|~{1,})\Z")
_CLOSING_BEGUN: Final = re.compile(r"[ \t>]*(?:`+|~+)[ \t]*\Z")
_MARKER_ALONE: Final = re.compile(r"[ \t]*(?:[-+*=_#> \t]+|\d{1,9}[.)]?|:)[ \t]*\Z")
_DELIMITER_ROW: Final = re.compile(r"[ \t>]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*\Z")
_ROW: Final = re.compile(r"[ \t>]*\|")
_TAIL: Final = re.compile(
    r"""(?:(?:
        &\#?[0-9A-Za-z]{0,31}+              # an entity
      | (?<!\\)(?:\\\\)*\\                  # an escape of what is still to come
      | <[A-Za-z/][^<>\s]*+                 # an address in angle brackets, or a tag
      | (?<!\]\()(?:https?|ftp):[^\s<>]*+   # an address that may go on
      | !                                   # an image
      | [*_~`]                              # emphasis or code that begins or ends
    )[ \t]*+)++\Z""",
    re.VERBOSE | re.IGNORECASE,
)
_LINK: Final = re.compile(r"\](?:\([^()\s]*(?:\([^()]*\)[^()\s]*)*(?:\s[^()]*)?)?\Z")
_RUNS: Final = re.compile(r"\\.|`+|\*+|_+|~~|\[[^\]\[]*\]\([^()\s]*\)|(?:https?|ftp):[^\s<>]+", re.DOTALL)
_BLANK_LINE: Final = re.compile(r"\n[ \t]*\n")

_CLOSERS: Final = {
    "*": literal_text("*"),
    "**": literal_text("**"),
    "***": literal_text("***"),
    "_": literal_text("_"),
    "__": literal_text("__"),
    "___": literal_text("___"),
    "~~": literal_text("~~"),
    "`": literal_text("`"),
    "``": literal_text("``"),
}


def as_if_closed(text: CleanText) -> CleanText:
    """Close an unfinished text after the part that can be shown: any renderer takes the result, and closing it again
    changes nothing."""
    signs: list[str] = []
    for done in itertools.count():  # before the part held back there may be another to be held back
        kept = clipped(text, _kept(text) if done != _ROUNDS_MAX else _paragraph_at(text))
        signs = _open_signs(kept)
        kept = clipped(kept, len(kept.rstrip())) if signs else kept
        if kept == text:
            break
        text = kept
    return joined(text, *(_CLOSERS[sign] for sign in signs))


def _kept(text: str) -> int:
    """Count the characters from the front that can be shown."""
    end = len(text.rstrip())
    line_at = text.rfind("\n", 0, end) + 1
    is_line_open = end == len(text) or "\n" not in text[end:]
    last = text[line_at:end]
    fence = _fences(text[:line_at]).opened
    if fence is not None:
        is_closing = is_line_open and _CLOSING_BEGUN.fullmatch(last) and len(last.strip(" \t>")) < len(fence)
        return line_at if is_closing else len(text)
    if is_line_open and (_FENCE.match(last) or _FENCE_BEGUN.match(last) or _MARKER_ALONE.match(last)):
        return line_at
    table_at = _unfinished_table_at(text, line_at, is_line_open=is_line_open)
    if table_at is not None:
        return table_at
    if not is_line_open:
        return len(text)
    start = _paragraph_at(text[:end])
    return start + _inline_kept(text[start:end])


class _Fences(NamedTuple):
    opened: str | None
    """The backticks or tildes of the fence that is open at the end; its own line is whole."""
    closed_at: int
    """The end of the last one that was closed."""


def _fences(text: str) -> _Fences:
    opened: str | None = None
    closed_at = at = 0
    for line in text.split("\n"):
        at += len(line) + 1
        if opened is None:
            opening = _FENCE.match(line)
            opened = opening[1] if opening else None
        else:
            bare = line.strip(" \t>")
            if len(bare) >= len(opened) and not bare.strip(opened[0]):
                opened, closed_at = None, min(at, len(text))
    return _Fences(opened, closed_at)


def _unfinished_table_at(text: str, line_at: int, *, is_line_open: bool) -> int | None:
    """Find the beginning of a row that is not whole, or of the header of a table that may become one."""
    start = _paragraph_at(text[:line_at]) if line_at else 0
    lines = text[start:].rstrip().split("\n")
    rows = [number for number, line in enumerate(lines) if number and _is_delimiter_row(line)]
    if rows and (rows[0] < len(lines) - 1 or not is_line_open):
        return line_at if is_line_open and "|" in lines[-1] else None
    first = next((number for number, line in enumerate(lines) if _ROW.match(line)), None)
    if first is None or len(lines) - first > 2 or any(not _may_be_row(line) for line in lines[first:]):
        return None
    return start + sum(len(line) + 1 for line in lines[:first])


def _is_delimiter_row(line: str) -> bool:
    return "|" in line and bool(_DELIMITER_ROW.match(line))


def _may_be_row(line: str) -> bool:
    return bool(_ROW.match(line) or _DELIMITER_ROW.match(line))


def _paragraph_at(text: str) -> int:
    """Find the beginning of the last paragraph: nothing inline reaches over a blank line or a block of code."""
    start = _fences(text).closed_at
    for blank in _BLANK_LINE.finditer(text.rstrip(), start):
        start = blank.end()
    return start


def _inline_kept(paragraph: str) -> int:
    """Count the characters of a paragraph that can be shown."""
    tail = _TAIL.search(paragraph, max(0, len(paragraph) - HELD_CHARS_MAX))
    bracket: int | None = None
    least = max(0, len(paragraph) - HELD_CHARS_MAX)
    link = _LINK.search(paragraph, least)
    depth = 0
    for at in range((link.start() if link else len(paragraph)) - 1, least - 1, -1):
        if paragraph[at] == "]":
            depth += 1
        elif paragraph[at] == "[":
            if depth:
                depth -= 1
            else:
                bracket = at - 1 if at and paragraph[at - 1] == "!" else at
    return min(tail.start() if tail else len(paragraph), bracket if bracket is not None else len(paragraph))


def _open_signs(text: str) -> list[str]:
    """List the signs that are still to be closed, innermost first; none in a table, whose rows are whole."""
    paragraph = text[_paragraph_at(text) :]
    if _fences(text).opened is not None or any(map(_is_delimiter_row, paragraph.split("\n"))):
        return []
    opened: list[str] = []
    code: str | None = None
    for run in _RUNS.finditer(paragraph):
        sign, before, after = run[0], paragraph[: run.start()][-1:], paragraph[run.end() :][:1]
        if sign[0] == "`":
            code = None if code == sign else code or sign
        elif code is None and sign in _CLOSERS:
            _turn(opened, sign, before, after)
    is_code_open = code in _CLOSERS and bool(paragraph[paragraph.rindex(code) + len(code) :].strip())
    return [*([code] if code is not None and is_code_open else []), *reversed(opened)]


def _turn(opened: list[str], sign: str, before: str, after: str) -> None:
    """Let a run of signs close what it may close, or open."""
    closes = bool(before) and not before.isspace()
    opens = bool(after) and not after.isspace()
    if sign[0] == "_" and before.isalnum() and after.isalnum():
        return
    if closes and sign in opened:
        del opened[len(opened) - 1 - opened[::-1].index(sign) :]
    elif opens:
        opened.append(sign)
