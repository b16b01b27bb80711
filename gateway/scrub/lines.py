"""Where a line ends that may go on in the next one, and what the next lines add to it.

ghp_x1…            ghp_x1…\\           ghp_x1…=           "ghp_x1…" +
    …y2                …y2            > …y2                   "…y2"
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from gateway.scrub.checks import is_wordy
from gateway.scrub.encoded import ENCODED_CHARS_MIN, decoded_end
from gateway.scrub.heads import is_beginning, open_head, token_at

_PIECE_CHARS_MAX: Final = 2048
_JOINED_CHARS_MAX: Final = 6144
"""A longer token than this is not put together; it was found in part already."""

_PIECES_MAX: Final = 64
_PIECES_DECODED: Final = 3
"""So many lines show whether what they encode ends in the middle of a secret."""

_NEAR_CHARS: Final = 96
_RANDOM_CHARS_MIN: Final = 4
"""A piece without any mark of its own may be the left part of a token whose mark comes later."""

_UNMARKED_CHARS_MAX: Final = 128
"""Without a mark, no more than this waits for one (and in any case the next line does)."""

_RUN: Final = r"A-Za-z0-9_+/=.:~\-"
_BEFORE: Final = r"\\{0,3}[\"'`]?[ \t]{0,4}(?:[=+&\\]{1,2}[ \t]{0,4})?"
_LINE: Final = r"(?:\r\n?|[\n\x0b\x0c\x85\u2028\u2029]|(?:\\{1,4}r)?\\{1,4}n|<br ?/?>)"
LINE_END: Final = re.compile(rf"(?<=[{_RUN}\"'`\\ \t]){_LINE}")
_LINE_SIGNS: Final = ("\n", "\\", "<", "\r", "\x0b", "\x0c", "\x85", "\u2028", "\u2029")
LINE_SIGN: Final = re.compile(f"[{re.escape(''.join(_LINE_SIGNS))}]")
"""What every line end begins with: to be searched for, which is many times faster."""

_GOES_ON: Final = re.compile(rf"[{_RUN} \t>|#*\"'`\\]")
"""What the next line must begin with, or a gap before it."""

_RUN_CHAR: Final = re.compile(f"[{_RUN}]")
_GAP: Final = re.compile(rf"{_BEFORE}{_LINE}[ \t>|#*/+\"'`\\]{{0,64}}")
_GAP_BEGUN: Final = re.compile(rf"{_BEFORE}\Z")
_PIECE: Final = re.compile(f"[{_RUN}]{{1,{_PIECE_CHARS_MAX + 1}}}")
_HEAD: Final = re.compile(rf"(?P<run>[{_RUN}]+){_BEFORE}\Z")
_BACKWARDS: Final = re.compile(rf"(?:[ \t]{{0,4}}[=+&\\]{{1,2}})?[ \t]{{0,4}}[\"'`]?\\{{0,3}}[{_RUN}]+")
"""A head read from its end, where nearly every line says at once that it has none."""

_TEXT_END: Final = re.compile(rf"(?<![{_RUN}])[{_RUN}]{{2,{_PIECE_CHARS_MAX}}}\Z")

_ENCODED_GAP: Final = re.compile(rf"\\?{_LINE}[ \t>|]{{0,64}}")
_ENCODED_PIECE: Final = re.compile(f"[A-Za-z0-9+/_-]{{1,{_PIECE_CHARS_MAX + 1}}}={{0,2}}")


class Head(NamedTuple):
    """The end of a line that may be the beginning of a secret."""

    start: int
    end: int
    is_marked: bool
    """An anchor says so."""
    is_encoded: bool = False
    """It says so in base64 or hex."""


class Chain(NamedTuple):
    """The pieces of consecutive lines that may be one secret, and where each begins in the text."""

    starts: tuple[int, ...]
    pieces: tuple[str, ...]
    end: int

    def end_in_text(self, at: int) -> int:
        """Where the character before `at` of the joined pieces ends in the text."""
        for start, piece in zip(self.starts, self.pieces, strict=True):
            if at <= len(piece):
                return start + at
            at -= len(piece)
        return self.end


def head_before(text: str, start: int, at: int) -> Head | None:
    """The piece that ends at `at`, up to quotes and signs of continuation, if it may go on behind it."""
    found = _head(text, start, at)
    if found is None:
        return None
    begin, end = found.span("run")
    run = text[begin:end]
    if len(run) < 2 or run.endswith("=="):
        return None
    if run.endswith("="):
        run, end = run[:-1], end - 1
    if run.isalpha() and (run.islower() or run.istitle()):
        return Head(begin, end, is_marked=True) if is_beginning(run) else None
    opened = open_head(run)
    is_web_token = opened is not None and run.startswith("eyJ", opened) and "." in run
    if len(run) >= ENCODED_CHARS_MIN and not is_web_token and (encoded := decoded_end(run)) is not None:
        return Head(begin + encoded.start, end, True, True) if _is_open(encoded.text) else None
    if opened is not None:
        return Head(begin + opened, end, is_marked=True)
    if is_beginning(run) or run.isdigit() or (len(run) >= _RANDOM_CHARS_MIN and not is_wordy(run)):
        return Head(begin, end, is_marked=False)
    return None


def may_have_line_ends(text: str) -> bool:
    """Is there a sign of one? Nine looks for one character each are faster than one for nine."""
    return any(map(text.__contains__, _LINE_SIGNS))


def goes_on(text: str, at: int, border: int) -> bool:
    """May a piece stand behind the line end that ends at `at`? A blank line and most signs say no at once."""
    return at >= border or _GOES_ON.match(text, at) is not None


def _head(text: str, start: int, at: int) -> re.Match[str] | None:
    """The whole run that ends at `at`, with what stands behind it."""
    for chars in (_NEAR_CHARS, _PIECE_CHARS_MAX):
        near = max(start, at - chars)
        backwards = _BACKWARDS.match(text[near:at][::-1])
        if backwards is None:
            return None
        begin = at - backwards.end()
        if begin > near or near == start:
            return None if begin and _RUN_CHAR.match(text, begin - 1) else _HEAD.match(text, begin, at)
    return None


def chain_from(text: str, head: Head, border: int, *, is_last: bool) -> Chain | None:
    """The head and what follows it line by line. None: that cannot be told yet."""
    gaps, shapes = (_ENCODED_GAP, _ENCODED_PIECE) if head.is_encoded else (_GAP, _PIECE)
    starts, pieces = [head.start], [text[head.start : head.end]]
    stop, chars = head.end, head.end - head.start
    while len(pieces) < _PIECES_MAX and (head.is_marked or len(pieces) == 1 or chars <= _UNMARKED_CHARS_MAX):
        gap = gaps.match(text, stop, border)
        if gap is None:
            if not is_last and _GAP_BEGUN.match(text, stop, border):
                return None
            break
        found = shapes.match(text, gap.end(), border)
        if not is_last and (found.end() if found else gap.end()) == border:
            return None
        if found is None or chars + len(found.group()) > _JOINED_CHARS_MAX:
            break
        piece, stop = found.group(), found.end()
        if not head.is_encoded:
            if token_at(piece, 0):
                break
            if piece.endswith("=") and not piece.endswith("=="):
                piece, stop = piece[:-1], stop - 1
        starts.append(found.start())
        pieces.append(piece)
        chars += len(piece)
        if _is_end(pieces, head):
            break
    return Chain(tuple(starts), tuple(pieces), stop)


def _is_end(pieces: list[str], head: Head) -> bool:
    """Does nothing go on behind these pieces?"""
    if not head.is_encoded:
        return is_wordy(pieces[-1])
    encoded = decoded_end("".join(pieces[-_PIECES_DECODED:]))
    return encoded is None or not _is_open(encoded.text)


def _is_open(text: str) -> bool:
    """Does a decoded text end in what may be a part of a secret?"""
    run = _TEXT_END.search(text)
    return run is not None and (open_head(run.group()) is not None or not is_wordy(run.group()))
