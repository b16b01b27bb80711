"""Text one layer deep in base64, base64url or hex: what hides there is looked at as well.

Most runs that look like base64 are not encoded text but digests, identifiers and pictures, so a few bytes at
either end are decoded first, at each of the alignments a run can have; only text is decoded in full.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

ENCODED_CHARS_MIN: Final = 24
_HEX_CHARS_MIN: Final = 32
_PROBE_CHARS: Final = 32
_PROBE_OCTETS: Final = 24

_BASE64: Final = re.compile(f"[A-Za-z0-9+/_-]{{{ENCODED_CHARS_MIN},}}={{0,2}}")
_HEX: Final = re.compile(f"(?<![0-9A-Fa-f])[0-9A-Fa-f]{{{_HEX_CHARS_MIN},}}")
_ENCODED_END: Final = re.compile(f"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{{{ENCODED_CHARS_MIN},}}={{0,2}}\\Z")
_CHARS: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_=")
_FLAT: Final = bytes(ord("x") if octet in _CHARS else ord(" ") for octet in range(256))
_LONG: Final = b"x" * ENCODED_CHARS_MIN
_FROM_URL: Final = str.maketrans("-_", "+/")
_TEXT_BYTES: Final = bytes([0, 9, 10, 13, *range(32, 127)])
"""ASCII text; the zeros are those of UTF-16, which PowerShell encodes."""

_FOREIGN_SHARE_MAX: Final = 0.9


class Encoded(NamedTuple):
    """`run[start:end]` is an encoding of `text`."""

    start: int
    end: int
    text: str


def encoded_runs(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Where in `text[start:end]` runs stand that are long enough and of the characters of base64 or hex. Searched
    among bytes, where a row of equal ones is found many times faster than a run of different characters."""
    octets = text[start:end].encode(errors="surrogatepass")
    flat = octets.translate(_FLAT)
    done, at = 0, flat.find(_LONG)
    while at >= 0:
        stop = flat.find(b" ", at)
        stop = stop if stop >= 0 else len(flat)
        start += len(octets[done:at].decode(errors="surrogatepass"))
        yield start, start + stop - at
        start += stop - at
        done, at = stop, flat.find(_LONG, stop)


def encoded_texts(run: str) -> Iterator[Encoded]:
    """The pieces of a run that are encoded text."""
    for found in _HEX.finditer(run):
        text = _from_hex(found.group())
        if text is not None:
            yield Encoded(found.start(), found.end(), text)
            return
    for found in _BASE64.finditer(run):
        text = _from_base64(found.group().rstrip("="))
        if text is not None:
            yield Encoded(found.start(), found.end(), text)


def decoded_end(run: str) -> Encoded | None:
    """The text that the end of a run encodes."""
    found = _ENCODED_END.search(run)
    if found is None:
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
    """Is this the beginning or the end of a text?"""
    if not octets.translate(None, _TEXT_BYTES):
        return bool(octets)
    text = octets.decode(errors="ignore")
    return len(text.encode()) > _FOREIGN_SHARE_MAX * len(octets) and text.replace("\n", "").isprintable()


def _text(octets: bytes) -> str:
    return octets.replace(b"\0", b"").decode(errors="replace")
