"""Templates of made-up values: `draw("ghp_<base62:36>", seed=7)` is a token nobody was ever given.

A slot is `<alphabet:count>` or `<alphabet:from-to>`, or the name of something with an inner form: `<uuid>`, `<jwt>`,
`<wif>`, `<word>`, … What is neither stays as it stands. The same seed gives the same value.
"""

from __future__ import annotations

import base64
import hashlib
import json
import random
import re
import string
import uuid
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

ALPHABETS: Final[Mapping[str, str]] = {
    "base62": string.ascii_letters + string.digits,
    "base64": string.ascii_letters + string.digits + "+/",
    "base64url": string.ascii_letters + string.digits + "-_",
    "letters": string.ascii_letters,
    "lower": string.ascii_lowercase,
    "upper": string.ascii_uppercase,
    "hex": "0123456789abcdef",
    "upperhex": "0123456789ABCDEF",
    "base32": "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
    "base36": string.ascii_lowercase + string.digits,
    "upper36": string.ascii_uppercase + string.digits,
    "base58": "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz",
    "digits": "123456789",
    "decimal": string.digits,
    "bech32": "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L",
    "lowbech32": "qpzry9x8gf2tvdw0s3jn54khce6mua7l",
    "symbol": "!@#$%^*-_+.?",
    "cyrillic": "абвгдежзиклмнопрстуфхцчшэюя",
}
WORDS: Final = Path(__file__).with_name("words.txt").read_text(encoding="utf-8").split()
NAMES: Final = (
    "alice",
    "bob",
    "carol",
    "dmitri",
    "elena",
    "farid",
    "grace",
    "hiro",
    "katya",
    "marco",
    "nadia",
    "olga",
    "pavel",
)
_SLOT: Final = re.compile(r"<([a-z0-9]+)(?::(\d+)(?:-(\d+))?)?>")
_BASE62_BY_VALUE: Final = string.digits + string.ascii_uppercase + string.ascii_lowercase


def draw(template: str, *, seed: int) -> str:
    """`template` with every slot filled from `seed`."""
    return fill(template, random.Random(seed))


def fill(template: str, rng: random.Random) -> str:
    """`draw` from a running generator."""

    def one(slot: re.Match[str]) -> str:
        name, least, most = slot.groups()
        if name in ALPHABETS and least:
            return "".join(rng.choices(ALPHABETS[name], k=rng.randint(int(least), int(most or least))))
        return _SHAPES[name](rng) if name in _SHAPES else slot[0]

    return _SLOT.sub(one, template)


def base64_of(text: bytes) -> str:
    """URL-safe, without padding, as tokens carry it."""
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


def _jwt(rng: random.Random, *, parts: int = 3) -> str:
    header = {"alg": rng.choice(["HS256", "RS256", "ES256", "EdDSA"]), "typ": "JWT"}
    payload = {"sub": str(rng.randrange(10**9)), "iat": rng.randrange(10**9), "name": rng.choice(WORDS)}
    whole = [base64_of(json.dumps(header).encode()), base64_of(json.dumps(payload).encode())]
    return ".".join([*whole, base64_of(rng.randbytes(32))][:parts])


def _jwe(rng: random.Random) -> str:
    header = base64_of(json.dumps({"alg": "RSA-OAEP", "enc": "A256GCM"}).encode())
    return ".".join([header, *(base64_of(rng.randbytes(n)) for n in (256, 12, rng.randint(60, 120), 16))])


def _base58check(payload: bytes) -> str:
    whole = payload + hashlib.sha256(hashlib.sha256(payload).digest()).digest()[:4]
    number = int.from_bytes(whole, "big")
    text = ""
    while number:
        number, digit = divmod(number, 58)
        text = ALPHABETS["base58"][digit] + text
    return text


def _discord(rng: random.Random) -> str:
    name = base64_of(str(rng.randrange(10**16, 10**19)).encode())
    return ".".join([name, fill("<base64url:6>", rng), fill("<base64url:27-38>", rng)])


def _checksummed(rng: random.Random) -> str:
    """The body of a GitHub token whose last six characters are right."""
    body, number, tail = fill("<base62:30>", rng), 0, ""
    number = zlib.crc32(body.encode())
    while number:
        number, digit = divmod(number, 62)
        tail = _BASE62_BY_VALUE[digit] + tail
    return body + tail.rjust(6, "0")


def _words(count: int, joint: str) -> Callable[[random.Random], str]:
    return lambda rng: joint.join(rng.sample(WORDS, count))


def _json64(rng: random.Random) -> str:
    inside = {"iat": rng.randrange(10**9), "url": "https://example.org", "org": rng.choice(WORDS)}
    return base64.b64encode(json.dumps(inside).encode()).decode()


_SHAPES: Final[Mapping[str, Callable[[random.Random], str]]] = {
    "uuid": lambda rng: str(uuid.UUID(bytes=rng.randbytes(16), version=4)),
    "jwt": _jwt,
    "jwtcut": lambda rng: _jwt(rng, parts=2),
    "jwe": _jwe,
    "json64": _json64,
    "wif": lambda rng: _base58check(b"\x80" + rng.randbytes(32) + b"\x01"),
    "wifold": lambda rng: _base58check(b"\x80" + rng.randbytes(32)),
    "xprv": lambda rng: _base58check(bytes.fromhex("0488ade4") + rng.randbytes(74)),
    "xpub": lambda rng: _base58check(bytes.fromhex("0488b21e") + rng.randbytes(74)),
    "tezos": lambda rng: _base58check(bytes([13, 15, 58, 7]) + rng.randbytes(32)),
    "bitcoin": lambda rng: "1" + _base58check(rng.randbytes(20)),
    "discord": _discord,
    "checksummed": _checksummed,
    "basic": lambda rng: base64.b64encode(f"{rng.choice(NAMES)}:{fill('<base62:10-18>', rng)}".encode()).decode(),
    "word": lambda rng: rng.choice(WORDS),
    "cap": lambda rng: rng.choice(WORDS).capitalize(),
    "words3": _words(3, "-"),
    "words4": _words(4, " "),
    "words12": _words(12, " "),
    "name": lambda rng: rng.choice(NAMES),
    "year": lambda rng: str(rng.randint(2015, 2026)),
    "date": lambda rng: f"{rng.randint(2015, 2026)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}",
    "time": lambda rng: f"{rng.randint(0, 23):02}:{rng.randint(0, 59):02}:{rng.randint(0, 59):02}",
    "ipv4": lambda rng: ".".join(str(rng.randint(1, 254)) for _ in range(4)),
    "ipv6": lambda rng: ":".join(f"{rng.randrange(65536):x}" for _ in range(8)),
    "mac": lambda rng: ":".join(f"{byte:02x}" for byte in rng.randbytes(6)),
    "host": lambda rng: f"{rng.choice(WORDS)}.example.{rng.choice(['org', 'com', 'net'])}",
    "version": lambda rng: ".".join(str(rng.randint(0, 30)) for _ in range(3)),
    "emoji": lambda rng: rng.choice("🙂🚀🔥🙏😅👍🎉🤔"),
}
