"""Takes secrets that a tool was given out of what it says: whole, in pieces, and in their usual wrappings.

What a program prints is cut, wrapped and encoded by whoever wrote it, so no piece of GRAM_CHARS of a secret may come
back, nor of its base64, percent, JSON, HTML or hex form. A program that wants to can still say it in another way
(backwards, letter by letter): it is the approval before that stands against this. Pure.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, quote_plus

from gateway.scrub.forms import in_base64

_ENCODED: Final = re.compile(r"%[0-9A-F]{2}")
GRAM_CHARS: Final = 8
"""Less than that of a secret says little, and stands in many a text by chance."""


def without(text: str, lent: Mapping[str, str]) -> str:
    """The text with each secret's placeholder in its place. `lent`: secrets by their placeholders."""
    grams: dict[int, dict[str, str]] = {}
    for placeholder, secret in lent.items():
        for form in _spellings(secret):
            size = min(GRAM_CHARS, len(form))
            of_size = grams.setdefault(size, {})
            for at in range(len(form) - size + 1):
                of_size.setdefault(form[at : at + size], placeholder)
    for size, of_size in grams.items():
        text = _replaced(text, size, of_size)
    return text


def _replaced(text: str, size: int, grams: Mapping[str, str]) -> str:
    out: list[str] = []
    end, placeholder = 0, ""
    for at in range(len(text) - size + 1):
        found = grams.get(text[at : at + size])
        if found is None:
            continue
        if not placeholder or at > end:
            out += (placeholder, text[end:at])
            placeholder = found
        end = at + size
    return "".join((*out, placeholder, text[end:]))


def _spellings(secret: str) -> set[str]:
    octets = secret.encode(errors="surrogatepass")
    percent = {quote(octets, safe=""), quote(octets), quote_plus(octets), "".join(f"%{octet:02X}" for octet in octets)}
    percent |= {spelled.replace("%", "%25") for spelled in percent}
    lower = {_ENCODED.sub(lambda sign: sign[0].lower(), spelled) for spelled in percent}
    escaped = {html.escape(secret), json.dumps(secret)[1:-1], json.dumps(json.dumps(secret)[1:-1])[1:-1]}
    return {secret, octets.hex(), octets.hex().upper(), *percent, *lower, *escaped, *in_base64(octets)}
