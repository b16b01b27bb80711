"""The text as a reader sees it, without escapes and encodings, with the way back to what was sent.

A secret with a zero-width space inside, in full-width letters, percent-encoded or with colour codes between
its halves is still a secret. All matching happens on this view; what is cut out is cut out of the original."""

from __future__ import annotations

import binascii
import html.entities
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator
from typing import Final, NamedTuple

# Spellings of a character that are not the character: what a reader, a browser or a terminal sees through.
#
#     ghp\_x   \u0067hp_x   %67hp_x   &#103;hp_x   g<zero width space>hp_x   <red>gh<plain>p_x   ｇｈｐ＿ｘ
#
# A decoder that looks a bounded piece ahead, so that it works on a text that is still arriving. It reads one layer,
# or the same layer several times over (`%2567`, `\\u0067`, `&amp;#103;`).
#
# Two kinds of spelling stay as they are: what would end a value that it is a part of (an escaped quote, an encoded `@`
# in the password of an address), and what no token is made of.

LOOK_BACK_CHARS: Final = 512  # how much of the raw text before it may decide what a spelling means
_LOOK_AHEAD_CHARS: Final = 48  # no spelling is longer
_NEAR_INVISIBLE: Final = (
    "\x00-\x06\x08\x0e-\x1a\x7f-\x84\x86-\x9a\x9c-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8"
)
_FAR_INVISIBLE: Final = "\U000e0000-\U000e0fff"
_INVISIBLE: Final = _NEAR_INVISIBLE + _FAR_INVISIBLE
"""Control, joining, direction and variation marks, soft hyphens, fillers, tags."""

_SENTENCE_MARKS: Final = "\uff0c\uff1b\uff01\uff1f\uff08\uff09"  # they end a clause in Chinese, and so they stay
_COMPATIBLE: Final = (
    range(0xA1, 0x250), range(0x2B0, 0x300), range(0x37A, 0x3F6), range(0x1D2C, 0x1DC0), range(0x1E00, 0x2000),
    range(0x2010, 0x3000), range(0xFB00, 0xFFF0), range(0x1D400, 0x1D800), range(0x1F100, 0x1F200),
    range(0x1FBF0, 0x1FBFA),
)  # fmt: skip
"""Where Unicode keeps other forms of ASCII characters: full-width, mathematical, circled, raised, small."""


_FOLDS: Final = {0x130: "I", 0x2010: "-", 0x2011: "-", 0x2212: "-"} | {  # these hyphens have no ASCII form of their own
    code: form
    for code in (code for block in _COMPATIBLE for code in block)
    for form in [unicodedata.normalize("NFKC", chr(code))]
    if len(form) == 1 and "!" <= form <= "~" and chr(code) not in _SENTENCE_MARKS
}
_NEAR_FOLDED: Final = re.escape("".join(chr(code) for code in _FOLDS if code < 0x10000))
_FAR_FOLDED: Final = "\U0001d400-\U0001d7ff\U0001f100-\U0001f1ff\U0001fbf0-\U0001fbf9"

_ENTITIES: Final = {
    name: char
    for name, char in html.entities.html5.items()
    if name.endswith(";") and len(char) == 1 and ("!" <= char <= "~" or ord(char) in _FOLDS)
} | {"shy;": "\u00ad", "zwj;": "\u200d", "zwnj;": "\u200c", "ZeroWidthSpace;": "\u200b"}

# A set with a character from beyond U+FFFF in it is many times slower to search for, so those are asked for apart.
_NEAR_SIGN: Final = re.compile(f"[\\\\%&+^\x1b\x9b\u241b{_NEAR_INVISIBLE}]")
_SIGN: Final = re.compile(f"[\\\\%&+^\x1b\x9b\u241b{_INVISIBLE}]")
_MAIL_SIGN: Final = re.compile(f"[\\\\%&+=^\x1b\x9b\u241b{_INVISIBLE}]")
_MAIL: Final = re.compile(r"=(?:3D|[\r\n]|3?\Z)")  # without one of these, an equals sign spells nothing
_FAR_SIGN: Final = re.compile(f"[{_FAR_INVISIBLE}]")
_ASCII_ODD: Final = bytes((*b"\\%&^\x7f", *range(7), 8, *range(0x0E, 0x1C)))
_NEAR_ODD: Final = re.compile(f"[\\\\%&^\x1b\x9b\u241b{_NEAR_INVISIBLE}{_NEAR_FOLDED}]")
_FAR_ODD: Final = re.compile(f"[{_FAR_INVISIBLE}{_FAR_FOLDED}]")
_NEAR_FOLD: Final = re.compile(f"[{_NEAR_FOLDED}]")
_FAR_FOLD: Final = re.compile(f"[{_FAR_FOLDED}]")

_ESC: Final = r"(?:[\x1b\u241b]|\\{1,4}(?:0?33|[eE]|x1[bB]|u001[bB]|u\{1[bB]\}|U0000001[bB])|\^(?=\[\[)\[?)"
_SPELLING: Final = re.compile(
    f"(?P<gone>[{_INVISIBLE}]{{1,64}}|(?<=')\\\\''"  # a quote in what a shell reads in quotes
    rf"|(?:{_ESC}\[|\x9b)(?!redacted:)[0-9;:<=>?]{{0,24}}[A-Za-z@`~]"  # colour, cursor: what a terminal obeys
    rf"|{_ESC}\]8;[A-Za-z0-9=:_-]{{0,24}};"  # the head of a terminal's link; its address is text
    r"|(?:(?<=\n[^\n]{75})|(?<=\n[^\n]{74})|(?<=\n[^\n]{73}))=\r?\n(?=[^\s=-])"
    r"|%[eE]2%80%8[b-fB-F]|%[cC]2%[aA][dD]|%[eE][fF]%[bB]{2}%[bB][fF])"
    r"|(?P<end>\x1b\\)|(?P<plus>\+)|(?P<equals>=3D)"  # and in a mail, the end of a line that goes on
    r"|\\{1,4}(?:(?P<mark>[!#$%()*+,\-./:;<=>?@\[\]^_{|}~]|&(?![#\w]{1,8};))|x(?P<narrow>[0-9A-Fa-f]{2})"
    r"|(?:u|U0000|(?P<brace>u\{))(?P<wide>[0-9A-Fa-f]{4}|(?<=\{)[0-9A-Fa-f]{2,6})(?(brace)\})"
    r"|(?P<newline>(?<!\b[A-Za-z]:\\)(?<!\b[A-Za-z]: \\\\)(?<!\b[A-Za-z]: \\\\\\\\)(?<!exec \\\\)(?:r\\{1,4})?n))"
    r"|(?P<octets>%(?:[cC][2-9a-fA-F]|[dD][0-9a-fA-F]|[eE][0-9a-fA-F]%[89abAB][0-9a-fA-F])%[89abAB][0-9a-fA-F])"
    r"|%(?:25){0,3}(?P<percent>[2-7][0-9A-Fa-f]|0[aAdD])"
    r"|&(?:amp;){0,3}(?:\#(?:(?P<decimal>[0-9]{1,7})|[xX](?P<hex>[0-9A-Fa-f]{1,6}));?"
    r"|(?P<entity>[A-Za-z]{2,20};))"
)
_BACKSLASHES: Final = re.compile(r"\\+(?=\\{4})")  # more than these spell nothing
_UNFINISHED: Final = re.compile(
    rf"=(?:3|\r?\n?)\Z"
    rf"|(?:[%&\x1b\x9b\u241b^]|\\{{1,4}}(?:r\\{{1,4}}|['&])?)[0-9A-Za-z#%;:<=>?{{}}\[\]_-]{{0,{_LOOK_AHEAD_CHARS}}}\Z"
)

_AUTHORITY: Final = re.compile(r"://[^\s/?#\"'<>@]*")
_DELIMITERS: Final = frozenset("@/:?#[]{}<>$|^")  # encoded because they would end a part of an address
_LITERAL: Final = frozenset("\\%`'<>")  # percent-encoded, these stay: a value that holds one goes on behind it
_NAME_CHARS: Final = 16
_SENTENCE_FIELD: Final = re.compile(
    r"(?<![\w-])(?:text|message|msg|notes?|body|content|comments?|description|subject|query|q|status|caption|title|summary)\Z"
)
_FIELD_ENDS: Final = re.compile(r"[\s&]")
_CLOSES_JSON: Final = re.compile(r"[:,}\]&]|%(?:25){0,3}(?:3A|2C|7D|5D|20|0A|2F|3E|26)", re.IGNORECASE)
_OPENS_JSON: Final = re.compile(
    r"(?:[{\[,:]|%(?:25){0,3}(?:7B|5B|2C|3A|3D|0A|20))(?: |\+|%(?:25){0,3}20)?\Z", re.IGNORECASE
)
_JSON_CHARS_MAX: Final = 18


class Spelling(NamedTuple):
    """`raw[start:end]` stands for `char`, which is empty for what nobody sees. None: the text ends inside."""

    start: int
    end: int
    char: str | None


def is_plain(text: str) -> bool:
    """Tell whether every character stands for itself. A search in C, so that ordinary text costs next to nothing."""
    if text.isascii():
        return len(text.encode().translate(None, _ASCII_ODD)) == len(text)  # faster than a search for a set
    if _NEAR_ODD.search(text):
        return False
    # Characters beyond U+FFFF take two units of UTF-16, and counting is many times faster than searching.
    return len(text.encode("utf-16-le", "surrogatepass")) == 2 * len(text) or not _FAR_ODD.search(text)


def folded(text: str) -> str:
    """Return the text with the ASCII form of every character that has one; as long as before."""
    if text.isascii():
        return text
    return _FAR_FOLD.sub(_ascii_form, _NEAR_FOLD.sub(_ascii_form, text))


def _ascii_form(char: re.Match[str]) -> str:
    return _FOLDS.get(ord(char[0]), char[0])


def spellings(raw: str, start: int, *, is_last: bool) -> Iterator[Spelling]:
    """Yield the spellings in `raw[start:]`, from left to right. `is_last` says that nothing follows."""
    at = start
    signs = _MAIL_SIGN if _MAIL.search(raw, start) else _SIGN if _FAR_SIGN.search(raw, start) else _NEAR_SIGN
    while sign := signs.search(raw, at):
        at = sign.start()
        if not is_last and _UNFINISHED.match(raw, at):
            yield Spelling(at, len(raw), None)
            return
        found = _SPELLING.match(raw, at)
        char = _meaning(raw, found) if found else None
        if found is None or char is None:
            at = row.end() if (row := _BACKSLASHES.match(raw, at)) else at + 1
            continue
        at = found.end()
        yield Spelling(found.start(), at, char)


def _meaning(raw: str, found: re.Match[str]) -> str | None:
    """Return the one character, nothing, or None for a spelling that stays."""
    kind = found.lastgroup
    match kind:
        case "gone":
            return ""
        case "end":
            return " "
        case "plus":
            return " " if _is_in_sentence(raw, found.start()) else None
        case "mark" | "equals":
            return found[kind][0]
        case "newline":
            return "\n"
        case "octets":
            return bytes.fromhex(found["octets"].replace("%", "")).decode(errors="ignore") or None
        case "entity":
            return _visible(_ENTITIES.get(found["entity"]))
        case "decimal":
            return _character(int(found["decimal"]))
        case "percent":
            return _percent(raw, found, chr(int(found["percent"], 16)))
        case _:
            digits = found["wide"] or found["narrow"] or found["hex"]
            return _character(int(digits, 16))


def _character(code: int) -> str | None:
    return _visible(chr(code)) if code <= 0x10FFFF else None


_GONE: Final = re.compile(f"[{_INVISIBLE}]")


def _visible(char: str | None) -> str | None:
    """Return a character as it is shown; spaces, line ends, backslashes and halves of a pair stay spelled."""
    if char is None or char == "\\":
        return None
    if _GONE.match(char):
        return "" if char > "\x7f" else None
    return _FOLDS.get(ord(char), char) if char.isprintable() and not char.isspace() else None


def _percent(raw: str, found: re.Match[str], char: str) -> str | None:
    at, end = found.span()
    if char in _LITERAL or char in '"\x7f':
        is_shown = (char == '"' and _is_json_quote(raw, at, end)) or (char != "\x7f" and _is_in_sentence(raw, at))
        return char if is_shown else None
    return None if char in _DELIMITERS and _is_in_authority(raw, at) else char


def _is_in_authority(raw: str, at: int) -> bool:
    """Tell whether a place is in user, password or host of an address, where an encoded delimiter is none."""
    begin = raw.rfind("://", max(0, at - LOOK_BACK_CHARS), at)
    return begin >= 0 and _AUTHORITY.match(raw, begin, at).end() == at  # type: ignore[union-attr]


def _is_in_sentence(raw: str, at: int) -> bool:
    """Tell whether a place lies in the field of a form that holds what people write: there a plus is a space."""
    begin = raw.rfind("=", max(0, at - LOOK_BACK_CHARS), at)
    if begin < 0 or _FIELD_ENDS.search(raw, begin, at):
        return False
    return _SENTENCE_FIELD.search(raw, max(0, begin - _NAME_CHARS), begin) is not None


def _is_json_quote(raw: str, at: int, end: int) -> bool:
    """Tell whether a quote stands next to a bracket, a colon or a comma: it belongs to encoded JSON, not to a value."""
    before = _OPENS_JSON.search(raw, max(0, at - _JSON_CHARS_MAX), at)
    return before is not None or _CLOSES_JSON.match(raw, end) is not None


class View:
    """A growing text in two forms. `text` is normalised; `raw(start, end)` is the original of a span.

    Every character of `text` stands for one or more of the original. What is not in the view (invisible
    characters, colour codes) belongs to the span it lies in. Positions in the original count from the very
    beginning and never change; positions in the view do when it forgets."""

    __slots__ = ("_ends_at", "_raw", "_raw_base", "_shift", "_shifts", "_starts_at", "_unfinished", "text")

    def __init__(self) -> None:
        self.text = self._raw = self._unfinished = ""
        self._raw_base = self._shift = 0
        # From `_starts_at[i]` on, characters of the view start `_shifts[i]` further right in the original, and
        # spans that end at `_ends_at[i]` or later end so much further right; before the first, `_shift`.
        self._starts_at: list[int] = []
        self._ends_at: list[int] = []
        self._shifts: list[int] = []

    def append(self, chunk: str, *, is_last: bool) -> None:
        """Take the next piece of the original. A spelling cut in two waits for its other half."""
        if self._unfinished:
            chunk = self._unfinished + chunk
            self._unfinished = ""
        is_form = "+" in chunk and ("=" in chunk or "=" in self._raw[-LOOK_BACK_CHARS:])
        if not (is_form or _MAIL.search(chunk)) and is_plain(chunk):
            self.text += chunk
            self._raw += chunk
            return
        done = len(self._raw)
        raw = self._raw + chunk
        seen: list[str] = []
        length = len(self.text)
        for spelling in spellings(raw, done, is_last=is_last):
            seen.append(raw[done : spelling.start])
            length += spelling.start - done
            done = spelling.start
            if spelling.char is None:
                self._unfinished = raw[done:]
                raw = raw[:done]
                break
            seen.append(spelling.char)
            self._note(length, len(spelling.char), spelling.end - done)
            length += len(spelling.char)
            done = spelling.end
        seen.append(raw[done:])
        self.text += folded("".join(seen))
        self._raw = raw

    def raw_start(self, at: int) -> int:
        """Return where the character `at` of the view stands in the original."""
        return at + self._shift_at(self._starts_at, at)

    def raw_end(self, at: int) -> int:
        """Return where a span that ends before `at` ends in the original."""
        return at + self._shift_at(self._ends_at, at)

    @property
    def raw_length(self) -> int:
        """Count the characters of the original that were read."""
        return self._raw_base + len(self._raw)

    def raw(self, start: int, end: int) -> str:
        """Return a slice of the original, by its own positions."""
        return self._raw[start - self._raw_base : end - self._raw_base]

    def forget(self, before: int, raw_before: int) -> None:
        """Drop what lies before `before`, and of the original what nobody will ask for before `raw_before`."""
        self._shift = self._shift_at(self._starts_at, before) + before
        kept = bisect_right(self._starts_at, before)
        self._starts_at = [at - before for at in self._starts_at[kept:]]
        self._ends_at = [at - before for at in self._ends_at[kept:]]
        self._shifts = [shift + before for shift in self._shifts[kept:]]
        self.text = self.text[before:]
        raw_kept = max(0, min(raw_before, self.raw_start(0)) - LOOK_BACK_CHARS - self._raw_base)
        self._raw = self._raw[raw_kept:]
        self._raw_base += raw_kept

    def _shift_at(self, places: list[int], at: int) -> int:
        if not places:
            return self._shift
        index = bisect_right(places, at)
        return self._shifts[index - 1] if index else self._shift

    def _note(self, at: int, chars: int, raw_chars: int) -> None:
        """Note that `raw_chars` of the original are `chars` (one or none) in the view, at `at`."""
        starts_at, ends_at = at + chars, at + 1
        shift = (self._shifts[-1] if self._shifts else self._shift) + raw_chars - chars
        if self._starts_at and (self._starts_at[-1], self._ends_at[-1]) == (starts_at, ends_at):
            self._shifts[-1] = shift
        else:
            self._starts_at.append(starts_at)
            self._ends_at.append(ends_at)
            self._shifts.append(shift)


def normalised(text: str) -> str:
    """Return the view of a whole text."""
    view = View()
    view.append(text, is_last=True)
    return view.text


# Where a text may be cut without changing what is found in it.
#
# A text is a sequence of units: runs of characters that words and tokens are made of, runs of Chinese, Japanese or
# Korean characters, and single characters that are neither (spaces, CJK punctuation). A unit is looked at only when
# it is closed, that is when the first character of the next one has been seen; so the outcome cannot depend on how
# the text arrived.

RUN_CHARS_MAX: Final = 16 * 1024
"""A longer unit is cut here, in a stream and in a whole text alike: nothing may wait for ever.

The cut is counted in characters, and a placeholder has not as many as its secret: of a text with such a unit a second
scrub may remove more than the first. Counting anew from each secret would mean to read every unit twice."""

CONTEXT_CHARS: Final = 128  # how far a rule may look back: a stream keeps this much of what it already gave away
_CJK: Final = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fff\u3040-\ud7ff"  # Thai, Lao, Burmese, Khmer, CJK
_IS_CJK: Final = re.compile(f"[{_CJK}]").match
_HARD: Final = (
    r"\s\u00ab\u00bb\u2013-\u2015\u2018-\u201f\u2026\u3000-\u303f\uff01\uff08\uff09\uff0c\uff1b\uff1f\uff5f-\uff65"
)
# spaces, dashes, typographic quotes, CJK punctuation: never part of a word or a token

_LAST_BORDER: Final = re.compile(f"(?s:.*)(?:[{_HARD}]|(?<=[{_CJK}])(?=[^{_CJK}])|(?<=[^{_CJK}])(?=[{_CJK}]))")
_UNIT: Final = re.compile(f"[{_CJK}]+|[^{_CJK}{_HARD}]+")


def closed_until(text: str, start: int, end: int) -> int:
    """Return the end of the last closed unit in `text[start:end]`, `start` if there is none."""
    border = _LAST_BORDER.match(text, start, end)
    return border.end() if border else start


def unit_end(text: str, at: int, end: int) -> int:
    """Return the end of the unit that the character `at` belongs to; `end` closes a unit."""
    unit = _UNIT.match(text, at, end)
    return unit.end() if unit else at + 1


def is_cjk(char: str) -> bool:
    """Tell whether it is written without spaces between words."""
    return "\u0e00" <= char <= "\ud7ff" and _IS_CJK(char) is not None


def flattening(chars: str) -> bytes:
    """Return the table for `stretches` of these characters, which are ASCII."""
    return bytes(ord("x") if chr(octet) in chars else ord(" ") for octet in range(256))


def stretches(octets: bytes, start: int, flat: bytes, least: int) -> list[tuple[int, int]]:
    """Return where at least so many characters of one kind follow each other in the text that is `octets` from `start`
    on. Bytes are searched, since a row of equal ones is found many times faster than a run of different ones."""
    row, found = octets.translate(flat), []
    if (at := row.find(b"x" * least)) < 0:
        return []
    done, row, is_ascii = 0, row + b" ", octets.isascii()
    while at >= 0:
        stop = row.find(b" ", at)
        start += at - done if is_ascii else len(octets[done:at].decode(errors="surrogatepass"))
        found.append((start, start + stop - at))
        start += stop - at
        done, at = stop, row.find(b"x" * least, stop)
    return found


# Text one layer deep in base64, base64url or hex: what hides there is looked at as well.
#
# Most runs that look like base64 are not encoded text but digests, identifiers and pictures, so a few bytes at either
# end are decoded first, at each of the alignments a run can have; only text is decoded in full.

ENCODED_CHARS_MIN: Final = 24
_HEX_CHARS_MIN: Final = 32
_PROBE_CHARS: Final = 32
_PROBE_OCTETS: Final = 24

_BASE64: Final = re.compile(f"[A-Za-z0-9+/_-]{{{ENCODED_CHARS_MIN},}}={{0,2}}")
_HEX: Final = re.compile(f"(?<![0-9A-Fa-f])[0-9A-Fa-f]{{{_HEX_CHARS_MIN},}}")
_ENCODED_END: Final = re.compile(f"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{{{ENCODED_CHARS_MIN},}}={{0,2}}\\Z")
ENCODED: Final = flattening("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_=")
_FROM_URL: Final = str.maketrans("-_", "+/")
_TEXT_BYTES: Final = bytes([0, 9, 10, 13, *range(32, 127)])  # the zeros are of UTF-16, which PowerShell encodes
_FOREIGN_SHARE_MAX: Final = 0.9


class Encoded(NamedTuple):
    """`run[start:end]` is an encoding of `text`."""

    start: int
    end: int
    text: str


def encoded_texts(run: str) -> Iterator[Encoded]:
    """Yield the pieces of a run that are encoded text."""
    in_hex = [(found, text) for found in _HEX.finditer(run) if (text := _from_hex(found.group())) is not None]
    yield from (Encoded(*found.span(), text) for found, text in in_hex)
    for found in _BASE64.finditer(run) if not in_hex else ():
        if (text := _from_base64(found.group().rstrip("="))) is not None:
            yield Encoded(found.start(), found.end(), text)


def decoded_end(run: str) -> Encoded | None:
    """Decode the text that the end of a run encodes."""
    if (found := _ENCODED_END.search(run)) is None:
        return None
    chars = found.group().rstrip("=")
    text = _from_hex(chars) if _HEX.fullmatch(chars) else None
    text = text or _from_base64(chars)
    return None if text is None else Encoded(found.start(), found.end(), text)


def _from_hex(digits: str) -> str | None:
    for lead in range(2):
        octets = bytes.fromhex(digits[lead : len(digits) - (len(digits) - lead) % 2])
        if _is_text(octets[:_PROBE_OCTETS]):
            return _text(octets)
    return None


def _from_base64(chars: str) -> str | None:
    chars = chars.translate(_FROM_URL)
    for lead in range(4):
        last = len(chars) - (len(chars) - lead) % 4
        tail = chars[max(lead, last - _PROBE_CHARS) : last]
        if _is_text(_octets(chars[lead : lead + _PROBE_CHARS])) or _is_text(_octets(tail)):
            return _text(_octets(chars[lead:]))
    return None


def _octets(chars: str) -> bytes:
    whole = len(chars) - (1 if len(chars) % 4 == 1 else 0)
    return binascii.a2b_base64(chars[:whole] + "=" * (-whole % 4))


def _is_text(octets: bytes) -> bool:
    """Tell whether this is the beginning or the end of a text."""
    if not octets.translate(None, _TEXT_BYTES):
        return bool(octets)
    text = octets.decode(errors="ignore")
    return len(text.encode()) > _FOREIGN_SHARE_MAX * len(octets) and text.replace("\n", "").isprintable()


def _text(octets: bytes) -> str:
    return octets.replace(b"\0", b"").decode(errors="replace")
