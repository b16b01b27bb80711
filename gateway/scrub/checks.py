"""What a rule may ask of a candidate beyond its shape. Each check is named in rules.toml.

A check says "this cannot be a secret" (a placeholder, plain words, a counter) or proves that it is one by
decoding it. No checksum is ever required where a typing error would still leak most of the key; the
exceptions are the kinds that have no other mark (`base58check`).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import operator
import re
from collections.abc import Callable, Mapping
from typing import Final

Check = Callable[[str], bool]

_PERIOD_MAX: Final = 16
_PLACEHOLDER: Final = re.compile(
    r"(?i:example|sample|placeholder|changeme|redacted|replace|insert)|(?:your|YOUR|Your)(?=[-_ A-Z])|x{4}|X{4}"
    r"|\.\.\.|\*\*\*|####"
)
_COUNTED: Final = re.compile("123456789|abcdefgh|ABCDEFGH")
_WORDLIKE: Final = re.compile(
    r"(?:[a-z]{1,16}|[A-Z]{1,16}|[A-Z][a-z]{1,16})\d{0,4}|\d{1,4}|\d{1,3}[a-z]{1,2}|[a-z]\d{1,2}[a-z]|v?\d[\d.]{0,6}|",
    re.ASCII,
)
_SEPARATOR: Final = re.compile(r"[-_./+=~:]")
_NAME: Final = re.compile(r"(?:[A-Z]?[a-z]++|[A-Z])++\d{0,4}", re.ASCII)
_HUMP: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", re.ASCII)
_HUMP_CHARS_MEAN: Final = 4
"""Words have some five letters; runs of one kind of character in a random token have two."""

_WORD_CHARS_MAX: Final = 16
UNSPOKEN: Final = re.compile(r"(?!ngth)[bcdfghjklmnpqrtvwxz]{4}|[bcdfghjklmnpqrstvwxz]{5}", re.ASCII | re.IGNORECASE)
_RARE_LETTERS: Final = frozenset("jqxzvkw")
_RARE_EVERY_CHARS: Final = 7
"""In names, one letter of twenty is one of those; in a random token, one of four."""

_BASE58: Final = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_BASE62: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def is_placeholder(text: str) -> bool:
    """Text that documentation writes in place of a secret: EXAMPLE, xxxx, abcdefgh, one pattern repeated."""
    return says_placeholder(text) or is_counted(text)


def says_placeholder(text: str) -> bool:
    """It says of itself that it stands for something else."""
    return _PLACEHOLDER.search(text) is not None


def is_counted(text: str) -> bool:
    """Typed by running a finger over the keys: neighbours in the alphabet, or one pattern repeated."""
    if _COUNTED.search(text):
        return True
    codes = list(map(ord, text))
    steps = list(map(operator.sub, codes[1:], codes))
    if 2 * (steps.count(0) + steps.count(1)) > len(text):
        return True
    longest = min(_PERIOD_MAX, len(text) // 2)
    return any(text[period:] == text[:-period] for period in range(1, longest + 1))


def is_wordy(text: str) -> bool:
    """Words, identifiers, versions: pieces between `-_./` that each read as a word, a name or a small number."""
    return all(_WORDLIKE.fullmatch(piece) or _is_name(piece) for piece in _SEPARATOR.split(text))


def _is_name(piece: str) -> bool:
    """An identifier in humps (`requiredTypesForDisplay2`), few enough to be words."""
    if _NAME.fullmatch(piece) is None:
        return False
    humps = _HUMP.findall(piece)
    return len(humps) * _HUMP_CHARS_MEAN <= len(piece) + _HUMP_CHARS_MEAN and max(map(len, humps)) <= _WORD_CHARS_MAX


def _is_spoken(text: str) -> bool:
    """Could one say it: seldom four consonants in a row, and few of the letters that words seldom have?"""
    rare = sum(1 for char in text.lower() if char in _RARE_LETTERS)
    return UNSPOKEN.search(text) is None and rare * _RARE_EVERY_CHARS <= len(text) + _RARE_EVERY_CHARS


def varied(secret: str) -> bool:
    """Enough different characters, no words that can be said, not a placeholder."""
    is_talk = is_wordy(secret) and _is_spoken(secret)
    return len(set(secret)) >= min(10, 5 + len(secret) // 12) and not is_talk and not is_placeholder(secret)


def made(secret: str) -> bool:
    """Varied, and not letters of one case: for a prefix that ordinary names have as well."""
    letters = secret.translate(_NO_SIGNS)
    return varied(secret) and not (letters.isalpha() and (letters.islower() or letters.isupper()))


_NO_SIGNS: Final = dict.fromkeys(map(ord, "-_./+=~:"))


def distinct(secret: str) -> bool:
    """Enough different characters and not a placeholder; may be letters only."""
    return len(set(secret)) >= min(8, len(secret) // 2) and not is_placeholder(secret)


def has_digit(secret: str) -> bool:
    """At least one digit: words of one case have none."""
    return any(char.isdigit() for char in secret)


def _decoded(text: str) -> bytes | None:
    padded = text.replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(padded + "=" * (-len(padded) % 4), validate=True)
    except binascii.Error:
        return None


def jwt(secret: str) -> bool:
    """The header is JSON that names an algorithm, or the payload is JSON as well."""
    header, _, rest = secret.partition(".")
    if rest.startswith("eyJ"):
        return True
    try:
        fields = json.loads(_decoded(header) or b"")
    except ValueError:
        return False
    return isinstance(fields, dict) and bool({"alg", "enc", "typ"} & fields.keys())


def discord(secret: str) -> bool:
    """The first segment is the bot's id, 17 to 20 digits, in base64."""
    decoded = _decoded(secret.partition(".")[0])
    return decoded is not None and decoded.isdigit() and 17 <= len(decoded) <= 20


def base58check(secret: str) -> bool:
    """The last four bytes are the double SHA-256 of the rest: Bitcoin's own proof."""
    number = 0
    for char in secret:
        digit = _BASE58.find(char)
        if digit < 0:
            return False
        number = number * 58 + digit
    whole = number.to_bytes((number.bit_length() + 7) // 8, "big")
    body, checksum = whole[:-4], whole[-4:]
    return hashlib.sha256(hashlib.sha256(body).digest()).digest()[:4] == checksum


_STANDS_IN: Final = re.compile(r"(?i)your[-_]|[-_]here\b|placeholder|<|\{\{|\*\*\*|\.\.\.|%[sd]\b")


def no_reference(secret: str) -> bool:
    """Neither a variable nor a stand-in such as `password` or `***`."""
    return (
        not re.match(r"[$%{<\[]", secret)
        and len(set(secret)) >= 3
        and not _STAND_INS.fullmatch(secret)
        and not secret.isspace()
        and not _STANDS_IN.search(secret)
    )


_STAND_INS: Final = re.compile(
    r"(?i:(?:my|your)?[-_]?(?:pass(?:w(?:or)?d|phrase)?|pw|pwd|secret|token|key|user(?:name)?|login|name)"
    r"|admin|root|guest|postgres|mysql|redis|test(?:123)?|foo|bar|baz|(?:change|replace)[-_]?me|none|null|x{3,})"
)


def crc32_base62(body: str) -> bool:
    """GitHub's own proof, which npm took over: the last six characters are the CRC32 of the others in base62."""
    number, digits = binascii.crc32(body[:-6].encode()), ""
    while number:
        number, digit = divmod(number, 62)
        digits = _BASE62[digit] + digits
    return body[-6:] == digits.rjust(6, "0")


CHECKS: Final[Mapping[str, Check]] = {
    check.__name__: check for check in (varied, made, distinct, has_digit, no_reference)
}
"""Asked of what stands behind the anchor."""

PROOFS: Final[Mapping[str, Check]] = {check.__name__: check for check in (jwt, discord, base58check)}
"""Asked of the whole token, which is decoded."""
