"""Spellings of a character that are not the character: what a reader, a browser or a terminal sees through.

    ghp\\_x   \\u0067hp_x   %67hp_x   &#103;hp_x   g<zero width space>hp_x   <red>gh<plain>p_x   ｇｈｐ＿ｘ

A decoder that looks a bounded piece ahead, so that it works on a text that is still arriving. It reads one
layer, or the same layer several times over (`%2567`, `\\\\u0067`, `&amp;#103;`).

Two kinds of spelling stay as they are: what would end a value that it is a part of (an encoded space, an
escaped quote, an encoded `@` in the password of an address), and what no token is made of.
"""

from __future__ import annotations

import html.entities
import re
import unicodedata
from collections.abc import Iterator
from typing import Final, NamedTuple

LOOK_BACK_CHARS: Final = 512
"""How much of the raw text before it may decide what a spelling means."""

_LOOK_AHEAD_CHARS: Final = 48
"""No spelling is longer."""

_NEAR_INVISIBLE: Final = (
    "\x00-\x06\x08\x0e-\x1a\x7f-\x84\x86-\x9a\x9c-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8"
)
_FAR_INVISIBLE: Final = "\U000e0000-\U000e0fff"
_INVISIBLE: Final = _NEAR_INVISIBLE + _FAR_INVISIBLE
"""Control, joining, direction and variation marks, soft hyphens, fillers, tags."""

_SENTENCE_MARKS: Final = "\uff0c\uff1b\uff01\uff1f\uff08\uff09"
"""Full-width marks that end a clause in Chinese; they stay themselves, so that they still end one."""

_COMPATIBLE: Final = (
    range(0xA1, 0x250), range(0x2B0, 0x300), range(0x37A, 0x3F6), range(0x1D2C, 0x1DC0), range(0x1E00, 0x2000),
    range(0x2010, 0x3000), range(0xFB00, 0xFFF0), range(0x1D400, 0x1D800), range(0x1F100, 0x1F200),
    range(0x1FBF0, 0x1FBFA),
)  # fmt: skip
"""Where Unicode keeps other forms of ASCII characters: full-width, mathematical, circled, raised, small."""


def _folds() -> dict[int, str]:
    folds = {0x130: "I", 0x2010: "-", 0x2011: "-", 0x2212: "-"}  # these hyphens have no ASCII form of their own
    for code in (code for block in _COMPATIBLE for code in block):
        form = unicodedata.normalize("NFKC", chr(code))
        if len(form) == 1 and "!" <= form <= "~" and chr(code) not in _SENTENCE_MARKS:
            folds[code] = form
    return folds


_FOLDS: Final = _folds()
_NEAR_FOLDED: Final = re.escape("".join(chr(code) for code in _FOLDS if code < 0x10000))
_FAR_FOLDED: Final = "\U0001d400-\U0001d7ff\U0001f100-\U0001f1ff\U0001fbf0-\U0001fbf9"

_ENTITIES: Final = {
    name: char
    for name, char in html.entities.html5.items()
    if name.endswith(";") and len(char) == 1 and ("!" <= char <= "~" or ord(char) in _FOLDS)
} | {"shy;": "\u00ad", "zwj;": "\u200d", "zwnj;": "\u200c", "ZeroWidthSpace;": "\u200b"}

# A set with a character from beyond U+FFFF in it is many times slower to search for, so those are asked for apart.
_NEAR_SIGN: Final = re.compile(f"[\\\\%&^\x1b\x9b\u241b{_NEAR_INVISIBLE}]")
_SIGN: Final = re.compile(f"[\\\\%&^\x1b\x9b\u241b{_INVISIBLE}]")
_FAR_SIGN: Final = re.compile(f"[{_FAR_INVISIBLE}]")
_ASCII_ODD: Final = re.compile("[\\\\%&^\x00-\x06\x08\x0e-\x1b\x7f]")
_NEAR_ODD: Final = re.compile(f"[\\\\%&^\x1b\x9b\u241b{_NEAR_INVISIBLE}{_NEAR_FOLDED}]")
_FAR_ODD: Final = re.compile(f"[{_FAR_INVISIBLE}{_FAR_FOLDED}]")
_NEAR_FOLD: Final = re.compile(f"[{_NEAR_FOLDED}]")
_FAR_FOLD: Final = re.compile(f"[{_FAR_FOLDED}]")

_ESC: Final = r"(?:[\x1b\u241b]|\\{1,4}(?:0?33|[eE]|x1[bB]|u001[bB]|u\{1[bB]\}|U0000001[bB])|\^(?=\[\[)\[?)"
_SPELLING: Final = re.compile(
    f"(?P<gone>[{_INVISIBLE}]{{1,64}}"
    rf"|(?:{_ESC}\[|\x9b)(?!redacted:)[0-9;:<=>?]{{0,24}}[A-Za-z@`~]"  # colour, cursor: what a terminal obeys
    rf"|{_ESC}\]8;[A-Za-z0-9=:_-]{{0,24}};"  # the head of a terminal's link; its address is text
    r"|%[eE]2%80%8[b-fB-F]|%[cC]2%[aA][dD]|%[eE][fF]%[bB]{2}%[bB][fF])"
    r"|(?P<end>\x1b\\)"
    r"|\\{1,4}(?:(?P<mark>[!#$%&()*+,\-./:;<=>?@\[\]^_{|}~])"
    r"|(?:u|U0000|(?P<brace>u\{))(?P<wide>[0-9A-Fa-f]{4}|(?<=\{)[0-9A-Fa-f]{2,6})(?(brace)\})"
    r"|x(?P<narrow>[0-9A-Fa-f]{2}))"
    r"|%(?:25){0,3}(?P<percent>[2-7][0-9A-Fa-f])"
    r"|&(?:amp;){0,3}(?:\#(?:(?P<decimal>[0-9]{1,7})|[xX](?P<hex>[0-9A-Fa-f]{1,6}));?"
    r"|(?P<entity>[A-Za-z]{2,20};))"
)
_UNFINISHED: Final = re.compile(
    rf"(?:[%&\x1b\x9b\u241b^]|\\{{1,4}})[0-9A-Za-z#%;:<=>?{{}}\[\]_-]{{0,{_LOOK_AHEAD_CHARS}}}\Z"
)

_AUTHORITY: Final = re.compile(r"://[^\s/?#\"'<>@]*")
_DELIMITERS: Final = frozenset("@/:?#[]{}<>$|^")
"""Encoded because they would end the part of an address they stand in."""

_LITERAL: Final = frozenset("\\%`'<>")
"""Percent-encoded, these stay: a value that holds one goes on behind it."""

_CLOSES_JSON: Final = re.compile(r"[:,}\]]|%(?:25){0,3}(?:3A|2C|7D|5D)", re.IGNORECASE)
_OPENS_JSON: Final = re.compile(r"(?:[{\[,:]|%(?:25){0,3}(?:7B|5B|2C|3A))(?: |\+|%(?:25){0,3}20)?\Z", re.IGNORECASE)
_BETWEEN_JSON: Final = re.compile(r"(?:\"|%(?:25){0,3}22)(?:[,:]|%(?:25){0,3}(?:2C|3A))\Z", re.IGNORECASE)
_JSON_CHARS_MAX: Final = 18


class Spelling(NamedTuple):
    """`raw[start:end]` stands for `char`, which is empty for what nobody sees. None: the text ends inside."""

    start: int
    end: int
    char: str | None


def is_plain(text: str) -> bool:
    """Does every character stand for itself? A search in C, so that ordinary text costs next to nothing more."""
    if text.isascii():
        return not _ASCII_ODD.search(text)
    return not (_NEAR_ODD.search(text) or (_has_far(text) and _FAR_ODD.search(text)))


def _has_far(text: str) -> bool:
    """Is there a character beyond U+FFFF? Those take two units of UTF-16, and counting is many times faster than
    searching."""
    return len(text.encode("utf-16-le", "surrogatepass")) > 2 * len(text)


def folded(text: str) -> str:
    """The text with the ASCII form of every character that has one; as long as before."""
    if text.isascii():
        return text
    return _FAR_FOLD.sub(_ascii_form, _NEAR_FOLD.sub(_ascii_form, text))


def _ascii_form(char: re.Match[str]) -> str:
    return _FOLDS.get(ord(char[0]), char[0])


def spellings(raw: str, start: int, *, is_last: bool) -> Iterator[Spelling]:
    """The spellings in `raw[start:]`, from left to right. `is_last` says that nothing follows."""
    at = start
    signs = _SIGN if _FAR_SIGN.search(raw, start) else _NEAR_SIGN
    while sign := signs.search(raw, at):
        at = sign.start()
        if not is_last and _UNFINISHED.match(raw, at):
            yield Spelling(at, len(raw), None)
            return
        found = _SPELLING.match(raw, at)
        char = _meaning(raw, found) if found else None
        if found is None or char is None:
            at += 1
            continue
        at = found.end()
        yield Spelling(found.start(), at, char)


def _meaning(raw: str, found: re.Match[str]) -> str | None:
    """The one character, nothing, or None for a spelling that stays."""
    kind = found.lastgroup
    match kind:
        case "gone":
            return ""
        case "end":
            return " "
        case "mark":
            return found["mark"]
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
    """Spaces, line ends, backslashes and halves of a pair stay spelled."""
    if char is None or char == "\\":
        return None
    if _GONE.match(char):
        return "" if char > "\x7f" else None
    return _FOLDS.get(ord(char), char) if char.isprintable() and not char.isspace() else None


def _percent(raw: str, found: re.Match[str], char: str) -> str | None:
    at, end = found.span()
    if char == " ":
        between = _BETWEEN_JSON.search(raw, max(0, at - _JSON_CHARS_MAX), at)
        return char if between else None
    if char in _LITERAL or char == "\x7f":
        return None
    if char == '"':
        return char if _is_json_quote(raw, at, end) else None
    return None if char in _DELIMITERS and _is_in_authority(raw, at) else char


def _is_in_authority(raw: str, at: int) -> bool:
    """Between `://` and the end of user, password and host: there an encoded delimiter is none."""
    begin = raw.rfind("://", max(0, at - LOOK_BACK_CHARS), at)
    return begin >= 0 and _AUTHORITY.match(raw, begin, at).end() == at  # type: ignore[union-attr]


def _is_json_quote(raw: str, at: int, end: int) -> bool:
    """A quote beside a bracket, a colon or a comma belongs to encoded JSON, not to a value."""
    before = _OPENS_JSON.search(raw, max(0, at - _JSON_CHARS_MAX), at)
    return before is not None or _CLOSES_JSON.match(raw, end) is not None
