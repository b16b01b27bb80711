"""Takes secrets that a tool was given out of what it says: whole, in pieces, and in their usual wrappings.

What a program prints is cut, wrapped and encoded by whoever wrote it, so no piece of GRAM_CHARS of a secret may come
back, nor of its base64, percent, JSON, HTML or hex form. A program that wants to can still say it in another way
(backwards, letter by letter): it is the approval before that stands against this. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gateway.scrub.known import forms

GRAM_CHARS: Final = 8
"""Less than that of a secret says little, and stands in many a text by chance."""


def without(text: str, lent: Mapping[str, str]) -> str:
    """The text with each secret's placeholder in its place. `lent`: secrets by their placeholders."""
    grams: dict[int, dict[str, str]] = {}
    for placeholder, secret in lent.items():
        for form in forms(secret):
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
