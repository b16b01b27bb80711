"""Tokens that a line break runs through, as mail programs, terminals, shells and programmers break them.

A line that ends in what may be the beginning of a token is joined with the next ones, and the rules are asked
about the joined text. Until that is decided nothing from the beginning of the token on is closed (view.py)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

from gateway.scrub.rules import Movable, SecretRule, SecretSpan, is_wordy, rule_book
from gateway.scrub.view import ENCODED_CHARS_MIN, decoded_end

# How a token begins: what may still become one when more of the text arrives.

_AT_PLACE: Final = re.compile(r"(?<![A-Za-z0-9])")
_SPOKEN: Final = re.compile(r"[a-z]*[aeiouy][a-z]*|[A-Z]?[a-z]")  # a word, not the beginning of an anchor (`ghp_`)
_PARTIAL_ANCHOR_CHARS_MIN: Final = 3


def open_head(run: str) -> int | None:
    """Return where in `run`, which ends where the text does, a token begins that may go on. None: nowhere."""
    rules = rule_book()
    at = 0
    for start, literal in rules.sites(run):
        if start < at:
            continue
        for rule in rules.beginning_with(run, start, literal):
            if rule.left or not (rule.is_glued or _AT_PLACE.match(run, start)):
                continue
            span = rule.match(run, start, 0)
            if span is None and not rule.may_go_on(run, start):
                continue
            if span is None or (span.end == len(run) and not rule.is_complete(run[start:])):
                return start
            at = max(at, span.end)
            break
    return cut_anchor(run)


def begins_token(run: str) -> bool:
    """Tell whether the run begins with a token."""
    first, rules = _first_anchor(run), rule_book()
    return bool(first) and any(rule.match(run, 0, 0) for rule in rules.beginning_with(run, 0, first))


def _is_marked(piece: str) -> bool:
    """Tell whether it begins as only a token does (`hf_`, `AKIA`), whether or not all of that is there; the middle of a
    token begins so once in many thousand lines."""
    first = _first_anchor(piece)
    return len(first) + (not first[-1:].isalnum()) >= _MARK_CHARS_MIN


def _first_anchor(run: str) -> str:
    """Return the anchor that the run begins with; empty if there is none."""
    return next((literal for at, literal in rule_book().sites(run[: _anchor_chars_max()])[:1] if not at), "")


def is_beginning(piece: str) -> bool:
    """Tell whether this is an anchor, or a part of one from its first character on."""
    return piece in _beginnings() or piece in rule_book().by_anchor


def cut_anchor(run: str) -> int | None:
    """Return where an anchor begins that the end of the run cuts in two."""
    if run[-_PARTIAL_ANCHOR_CHARS_MIN:] not in _endings():
        return None
    for start in range(max(0, len(run) - _anchor_chars_max()), len(run) - _PARTIAL_ANCHOR_CHARS_MIN + 1):
        piece = run[start:]
        if piece in _beginnings() and _AT_PLACE.match(run, start) and not _SPOKEN.fullmatch(piece):
            return start
    return None


@cache
def _beginnings() -> frozenset[str]:
    """Return the proper beginnings of all literal anchors."""
    return frozenset(anchor[:chars] for anchor in rule_book().by_anchor for chars in range(1, len(anchor)))


@cache
def _endings() -> frozenset[str]:
    """Return what the beginnings end in: most runs end otherwise."""
    return frozenset(beginning[-_PARTIAL_ANCHOR_CHARS_MIN:] for beginning in _beginnings())


@cache
def _anchor_chars_max() -> int:
    return max(map(len, rule_book().by_anchor))


# Where a line ends that may go on in the next one, and what the next lines add to it.
#
# ghp_x1…            ghp_x1…\           ghp_x1…=           "ghp_x1…" +
#     …y2                …y2            > …y2                   "…y2"

_PIECE_CHARS_MAX: Final = 2048
_JOINED_CHARS_MAX: Final = 6144  # a longer token than this is not put together; it was found in part already
_MARK_CHARS_MIN: Final = 4  # of an anchor, whose last sign counts twice
_PIECES_MAX: Final = 64
_PIECES_DECODED: Final = 3  # so many lines show whether what they encode ends in the middle of a secret
_NEAR_CHARS: Final = 96
_RANDOM_CHARS_MIN: Final = 4  # without a mark it may be the left part of a token whose mark comes later
_UNMARKED_CHARS_MAX: Final = 120  # without a mark, no more than this waits for one (and in any case the next line does)
_UNMATCHED_CHARS_MAX: Final = 384  # so many characters behind a mark that are no token will not become one
_BODY_LINE_CHARS: Final = range(56, 101)
_BODY_LINE: Final = re.compile(r"[A-Za-z0-9+/]+")
_ENCODES: Final = re.compile(r"[+/]")  # signs of base64 that stand in no left part of a token
_RUN: Final = r"A-Za-z0-9_+/=.:~\-"
_BEFORE: Final = r"\\{0,3}[\"'`]?[ \t]{0,4}(?:[=+&\\]{1,2}[ \t]{0,4})?"
_LINE: Final = r"(?:\r\n?|[\n\x0b\x0c\x85\u2028\u2029]|(?:\\{1,4}r)?\\{1,4}n|<br ?/?>)"
_LINE_SIGNS: Final = ("\n", "\\", "<", "\r", "\x0b", "\x0c", "\x85", "\u2028", "\u2029")
_LINE_SIGN: Final = re.compile(f"[{re.escape(''.join(_LINE_SIGNS))}]")  # what line ends begin with: fast to find
_AFTER: Final = rf"(?=(?!\d{{4}}-\d\d-\d\d[T\s]|- )[{_RUN} \t>|#*\"'`\\]|\Z)"
_LINE_END: Final = re.compile(rf"(?<=[{_RUN}\"'`\\ \t]){_LINE}{_AFTER}")
"""Where the next line may go on with this one: a blank line, most signs, a log's date and the dash of a list do not."""

_MAY_END: Final = re.compile(rf"{_LINE_SIGN.pattern}(?:(?<!\n)|(?<=[{_RUN}\"'`\\ \t]\n){_AFTER})")
"""A sign that begins such a line end, perhaps; of what nearly all lines end with, only one that is it."""

_RUN_CHAR: Final = re.compile(f"[{_RUN}]")
_GAP: Final = re.compile(rf"{_BEFORE}{_LINE}[ \t>|#*/+\"'`\\]{{0,64}}")
_GAP_BEGUN: Final = re.compile(rf"{_BEFORE}\Z")
_MAY_GO_ON: Final = re.compile(rf"{_BEFORE}(?:\Z|{_LINE_SIGN.pattern})")  # behind a space the line may end yet

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
    is_marked: bool  # an anchor says so
    is_encoded: bool = False  # it says so in base64 or hex


class Chain(NamedTuple):
    """The pieces of consecutive lines that may be one secret, and where each begins in the text."""

    starts: tuple[int, ...]
    pieces: tuple[str, ...]
    end: int

    def end_in_text(self, at: int) -> int:
        """Return where the character before `at` of the joined pieces ends in the text."""
        for start, piece in zip(self.starts, self.pieces, strict=True):
            if at <= len(piece):
                return start + at
            at -= len(piece)
        return self.end


def head_before(text: str, start: int, at: int) -> Head | None:
    """Return the piece that ends at `at`, up to quotes and signs of continuation, if it may go on behind it."""
    if (found := _head(text, start, at)) is None:
        return None
    begin, end = found.span("run")
    run = text[begin:end]
    if len(run) < 2 or run.endswith("=="):
        return None
    if run.endswith("="):
        run, end = run[:-1], end - 1
    if run.isalpha() and (run.islower() or run.istitle()):
        return Head(begin, end, is_marked=True) if is_beginning(run) else None
    is_in_body = _is_in_body(text, begin, end)
    opened = None if is_in_body else open_head(run)
    is_web_token = opened is not None and run.startswith("eyJ", opened) and "." in run
    if len(run) >= ENCODED_CHARS_MIN and not is_web_token and (encoded := decoded_end(run)) is not None:
        may_go_on = len(run) in _BODY_LINE_CHARS or _is_open(encoded.text)
        return Head(begin + encoded.start, end, True, True) if may_go_on else None
    if opened is not None:
        return Head(begin + opened, end, is_marked=True)
    if is_in_body or (len(run) in _BODY_LINE_CHARS and _BODY_LINE.fullmatch(run) and _ENCODES.search(run)):
        return None
    if is_beginning(run) or run.isdigit() or (len(run) >= _RANDOM_CHARS_MIN and not is_wordy(run)):
        return Head(begin, end, is_marked=False)
    return None


def _is_in_body(text: str, begin: int, end: int) -> bool:
    """Tell whether this line and the one above are equally long lines of base64: no token is broken like that."""
    above = begin - 1 - (end - begin)
    is_line = (
        end - begin in _BODY_LINE_CHARS
        and above >= 0
        and text[begin - 1] == "\n"
        and text[above - 1 : above] in ("", "\n")
    )
    return is_line and _BODY_LINE.fullmatch(text, above, begin - 1) is not None


def _head(text: str, start: int, at: int) -> re.Match[str] | None:
    """Match the whole run that ends at `at`, with what stands behind it."""
    for chars in (_NEAR_CHARS, _PIECE_CHARS_MAX):
        near = max(start, at - chars)
        if (backwards := _BACKWARDS.match(text[near:at][::-1])) is None:
            return None
        begin = at - backwards.end()
        if begin > near or near == start:
            return None if begin and _RUN_CHAR.match(text, begin - 1) else _HEAD.match(text, begin, at)
    return None


def chain_from(text: str, head: Head, border: int, *, is_last: bool) -> Chain | None:
    """Return the head and what follows it line by line. None: that cannot be told yet."""
    gaps, shapes = (_ENCODED_GAP, _ENCODED_PIECE) if head.is_encoded else (_GAP, _PIECE)
    starts, pieces = [head.start], [text[head.start : head.end]]
    stop, chars = head.end, head.end - head.start
    while len(pieces) < _PIECES_MAX and (head.is_marked or len(pieces) == 1 or chars <= _UNMARKED_CHARS_MAX):
        if (gap := gaps.match(text, stop, border)) is None:
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
            if begins_token(piece) or _is_marked(piece):
                break
            if piece.endswith("=") and not piece.endswith("=="):
                piece, stop = piece[:-1], stop - 1
        starts.append(found.start())
        pieces.append(piece)
        chars += len(piece)
        is_token = head.is_encoded or chars <= _UNMATCHED_CHARS_MAX or begins_token("".join(pieces))
        if not is_token or _is_end(pieces, head):
            break
    return Chain(tuple(starts), tuple(pieces), stop)


def _is_end(pieces: list[str], head: Head) -> bool:
    """Tell whether nothing goes on behind these pieces."""
    if not head.is_encoded:
        return is_wordy(pieces[-1])
    encoded = decoded_end("".join(pieces[-_PIECES_DECODED:]))
    return encoded is None or not (len(pieces[-1]) in _BODY_LINE_CHARS or _is_open(encoded.text))


def _is_open(text: str) -> bool:
    """Tell whether a decoded text ends in what may be a part of a secret."""
    run = _TEXT_END.search(text)
    return run is not None and (open_head(run.group()) is not None or not is_wordy(run.group()))


_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d(?:T\d\d|\Z)|(?:(?:19|20)\d{6}|1\d{9}(?:\d{3})?(?:\.\d{0,9})?)\Z", re.ASCII)
"""A date, an hour of a day, seconds or milliseconds since 1970: with one of these the lines of logs begin."""


class WrappedTokens(Movable):
    """Reads the line ends of a growing text, each once; keeps the tokens that go on behind one.

    `secret_in` names the rule that finds a secret in what is encoded over lines; None leaves encodings alone."""

    __slots__ = ("_read_until", "_rules", "_secret_in", "spans")
    POSITIONS = ("_read_until", "spans")

    def __init__(self, secret_in: Callable[[str], str | None] | None) -> None:
        self._rules = rule_book()
        self._secret_in = secret_in
        self._read_until = 0
        self.spans: list[SecretSpan] = []

    def pass_by(self, at: int) -> None:
        """Drop the tokens that begin before `at`."""
        if self.spans:
            self.spans = [span for span in self.spans if span.start >= at]

    def settle(self, text: str, start: int, border: int, *, is_last: bool) -> int:
        """Decide on all line ends in `text[start:border]`; returns up to where that was possible."""
        at = max(start, self._read_until)
        if not any(map(text[at:border].__contains__, _LINE_SIGNS)):  # faster than one look for all of them
            at = max(at, border)
        while at < border and (sign := _MAY_END.search(text, at, border)):
            at = sign.end()
            if (line_end := _LINE_END.match(text, sign.start(), border)) is None:
                continue
            at = line_end.end()
            if (head := head_before(text, start, line_end.start())) is None:
                continue
            if (chain := chain_from(text, head, border, is_last=is_last)) is None:
                self._read_until = line_end.start()
                return head.start
            self.spans += self._encoded(chain) if head.is_encoded else self._across(chain)
            at = max(at, chain.starts[-1])
        self._read_until = max(at, self._read_until)
        if not is_last and border > start and text[border - 1] in " \t":
            head = head_before(text, start, border)
            if head is not None and _MAY_GO_ON.match(text, head.end):
                return head.start
        return border

    def reaches_over(self, border: int) -> int:
        """Return where a token begins that ends behind `border`; else `border`."""
        return min((span.start for span in self.spans if span.start < border < span.end), default=border)

    def _encoded(self, chain: Chain) -> list[SecretSpan]:
        """Return all of the lines, if there is a secret in what they encode together."""
        encoded = decoded_end("".join(chain.pieces)) if len(chain.pieces) > 1 else None
        rule = self._secret_in(encoded.text) if encoded and self._secret_in else None
        return [SecretSpan(chain.starts[0], chain.end, rule)] if rule else []

    def _across(self, chain: Chain) -> list[SecretSpan]:
        """Return the tokens that reach from one piece into another. The last pieces may be words that only follow."""
        if len(chain.pieces) > 2 and not self._rules.sites("".join(chain.pieces)):
            return []
        for count in sorted({len(chain.pieces), len(chain.pieces) - 1, 2}, reverse=True):
            if 1 < count <= len(chain.pieces) and (found := self._tokens(chain, chain.pieces[:count])):
                return found
        return []

    def _tokens(self, chain: Chain, pieces: Sequence[str]) -> list[SecretSpan]:
        joined = "".join(pieces)
        may_begin, end = self._rules.may_begin, len(joined)
        sites = [each for each in self._rules.sites(joined) if may_begin(joined, *each, end)]
        if not sites:
            return []
        breaks = list(accumulate(map(len, pieces)))[:-1]
        found: list[SecretSpan] = []
        at = 0
        for site, literal in sites:
            if site < at:
                continue
            for rule in self._rules.beginning_with(joined, site, literal):
                if (span := rule.match(joined, site, at)) is None:
                    continue
                at = span.end
                end = _accepted_end(rule, joined, site, span, breaks)
                if any(span.start < position < end for position in breaks):
                    start = chain.end_in_text(span.start + 1) - 1
                    found.append(SecretSpan(start, chain.end_in_text(end), span.rule))
                break
        return found


def _accepted_end(rule: SecretRule, joined: str, anchor_at: int, span: SecretSpan, breaks: list[int]) -> int:
    """Tell how far the token really goes: what is a token already goes on only with what looks like more of it."""
    inside = [position for position in breaks if span.start < position < span.end]
    widths = {right - left for left, right in pairwise(breaks)}
    is_column = len(breaks) > 1 and len(widths) == 1
    for position, following in pairwise([*inside, span.end]):
        if anchor_at >= position or rule.match(joined[:position], anchor_at, span.start) is None:
            continue  # no token yet
        more = joined[position:following]
        is_complete = rule.is_complete(joined[span.start : position]) and not is_column
        is_said = is_wordy(more) or _TIME.match(more) is not None
        is_last_line = is_column and more.isalnum() and not more.isalpha() and not more.isdigit()
        if is_complete or (is_said and not is_last_line):
            return position
    return span.end
