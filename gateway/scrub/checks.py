"""What a rule may ask of a candidate beyond its shape. Each check is named in rules.toml.

A check says "this cannot be a secret" (a placeholder, plain words, a counter) or proves that it is one by
decoding it. No checksum is ever required where a typing error would still leak most of the key; the
exceptions are the kinds that have no other mark (`base58check`).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import itertools
import json
import re
from collections.abc import Callable, Mapping
from typing import Final

Check = Callable[[str], bool]

_PERIOD_MAX: Final = 16
_PLACEHOLDER: Final = re.compile(
    r"(?i:example|sample|placeholder|changeme|redacted|replace|insert)|(?:your|YOUR|Your)(?=[-_ A-Z])|x{4}|X{4}"
    r"|123456789|abcdefgh|ABCDEFGH|\.\.\.|\*\*\*"
)
_WORDLIKE: Final = re.compile(
    r"(?:[a-z]{1,16}|[A-Z]{1,16}|[A-Z][a-z]{1,16})\d{0,4}|\d{1,4}|\d{1,3}[a-z]{1,2}|[a-z]\d{1,2}[a-z]|v?\d[\d.]{0,6}|",
    re.ASCII,
)
_BASE58: Final = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


def is_placeholder(text: str) -> bool:
    """Text that documentation writes in place of a secret: EXAMPLE, xxxx, abcdefgh, one pattern repeated."""
    if _PLACEHOLDER.search(text):
        return True
    neighbours = sum(1 for left, right in itertools.pairwise(text) if 0 <= ord(right) - ord(left) <= 1)
    if neighbours * 2 > len(text):
        return True
    longest = min(_PERIOD_MAX, len(text) // 2)
    return any(text[period:] == text[:-period] for period in range(1, longest + 1))


def is_wordy(text: str) -> bool:
    """Words, identifiers, versions: pieces between `-_./` that each read as a word or a small number."""
    return all(_WORDLIKE.fullmatch(piece) for piece in re.split(r"[-_./+=~:]", text))


def varied(secret: str) -> bool:
    """Enough different characters, not wordy, not a placeholder."""
    return len(set(secret)) >= min(10, 5 + len(secret) // 12) and not is_wordy(secret) and not is_placeholder(secret)


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


def no_reference(secret: str) -> bool:
    """Neither a variable nor a stand-in such as `password` or `***`."""
    return (
        not re.match(r"[$%{<\[]", secret)
        and len(set(secret)) >= 3
        and secret.lower() not in _STAND_INS
        and not secret.isspace()
    )


_STAND_INS: Final = frozenset(["password", "passwd", "pass", "pwd", "pw", "secret", "token", "key", "user", "username"])

CHECKS: Final[Mapping[str, Check]] = {
    check.__name__: check for check in (varied, distinct, has_digit, jwt, discord, base58check, no_reference)
}
