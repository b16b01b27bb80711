"""Private keys in armour: `-----BEGIN … PRIVATE KEY-----`, swallowed to their END.

Public keys and certificates are left alone, and so is talk about the armour: a block counts as a key only
if something like key material follows its first line.
"""

from __future__ import annotations

import re
from typing import Final

from gateway.scrub.rules import Span
from gateway.scrub.states import Step

BEGIN: Final = "-----BEGIN"
BLOCK_CHARS_MAX: Final = 20_000
"""The largest block: a 16,384 bit RSA key with its headers takes 13 kB."""

_HEADER_CHARS_MAX: Final = 64
_GAP_CHARS_MAX: Final = 48
_MARK_CHARS_MAX: Final = 80
"""No end mark is longer; a stream decides on one only when this much text is there."""

_HEADER: Final = re.compile(r"-----BEGIN(?: [A-Z0-9]{1,12}){0,3} PRIVATE KEY(?: BLOCK)?-----", re.ASCII)
_GAP: Final = re.compile(r"(?:\\{1,2}[nr]|[\s>|\"'+*`,\\-]){0,48}")
_LINE_MARK: Final = re.compile(
    r"(?:\\{1,2}[nr]|\r?\n)(?:(?!\[redacted:)[^\n\\]){0,48}?"
    r"(?<![A-Za-z0-9+/=])(?=[A-Za-z0-9+/]{40,120}={0,2}(?:[\s\\]|\Z))",
    re.ASCII,
)
"""Line numbers, comment signs, names of containers, times: what tools put in front of each line. A placeholder is none:
the token that it stands for was too long for one, or had been taken with the whole key."""

_MARKED_CHARS_MAX: Final = 192
"""So much text behind a header shows whether its lines are marked."""

_MATERIAL: Final = re.compile(
    r"[A-Za-z0-9+/=]{16}|(?:Proc-Type|DEK-Info|Version|Comment|Hash|Charset|MessageID):", re.ASCII
)
_ENDS: Final = re.compile(
    r"(?P<mark>-----END [A-Z0-9 ]{1,40}-----)"
    r"|[\"'](?![\s,+\\nr]{0,12}[\"'][A-Za-z0-9+/=-]{16})"
    r"|(?<=\s)(?:[A-Za-z']{1,12}[ ,.]{1,2}){4}"
    r"|[\u0400-\u04ff\u3040-\u9fff\uac00-\ud7a3]",
)


class KeyBlock:
    """State: a line that begins a block was seen. Nothing of it leaves until it is known what it is."""

    __slots__ = ("_begin", "_read_until")

    RULE: Final = "pem"

    def __init__(self, begin: int) -> None:
        self._begin = begin
        self._read_until: int | None = None

    def moved(self, by: int) -> None:
        """The text lost `by` characters at its front."""
        self._begin -= by
        if self._read_until is not None:
            self._read_until -= by

    def step(self, text: str, at: int, end: int, *, is_last: bool) -> Step:
        """See `State.step`. `at` stays at the beginning of the block until there is a verdict."""
        if self._read_until is None:
            body = self._body_from(text, at, end, is_last=is_last)
            if body is None:
                return Step(at, waits=True)
            if body < 0:
                return Step(at + len(BEGIN), is_over=True)
            self._read_until = body
        return self._swallow(text, at, end, self._read_until, is_last=is_last)

    def _body_from(self, text: str, at: int, end: int, *, is_last: bool) -> int | None:
        """Where the key material begins; negative if this is no key; None if that cannot be told yet."""
        header = _HEADER.match(text, at, end)
        if header is None:
            is_decided = is_last or end - at >= _HEADER_CHARS_MAX + 16 or "\n" in text[at:end]
            return -1 if is_decided else None
        gap = _GAP.match(text, header.end(), end)
        body = gap.end() if gap else header.end()
        if _MATERIAL.match(text, body, end):
            return body
        if not (is_last or body < end or body - header.end() >= _GAP_CHARS_MAX):
            return None
        window = header.end() + _MARKED_CHARS_MAX
        if end < window and not is_last:
            return None
        marked = _LINE_MARK.match(text, header.end(), min(end, window))
        return marked.end() if marked else -1

    def _swallow(self, text: str, at: int, end: int, read_until: int, *, is_last: bool) -> Step:
        limit = self._begin + BLOCK_CHARS_MAX
        ending = _ENDS.search(text, read_until, min(end, limit + _MARK_CHARS_MAX))
        if ending is not None and (is_last or ending.start() + _MARK_CHARS_MAX <= end) and ending.start() < limit:
            stop = ending.end() if ending["mark"] else self._without_spaces(text, ending.start())
            return Step(stop, is_over=True, cut=Span(self._begin, stop, self.RULE))
        if is_last or end >= limit + _MARK_CHARS_MAX:
            stop = min(end, limit)
            return Step(stop, is_over=True, cut=Span(self._begin, stop, self.RULE))
        self._read_until = max(read_until, (ending.start() if ending else end) - _MARK_CHARS_MAX)
        return Step(at, waits=True)

    def _without_spaces(self, text: str, at: int) -> int:
        while at > self._begin and text[at - 1].isspace():
            at -= 1
        return at
