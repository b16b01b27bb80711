"""Texts that somebody writes to make the scrubber slow: each hits one part of it as often as a text can."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Final

from tests.scrubbing import fill

_RNG_SEED: Final = 8


Text = Callable[[int], str]
"""A text of so many bytes."""


def _repeated(piece: str) -> Text:
    return lambda size: piece * (size // len(piece.encode()) + 1)


def _drawn(template: str) -> Text:
    def made(size: int) -> str:
        rng = random.Random(_RNG_SEED)
        pieces, length = [], 0
        while length < size:
            pieces.append(fill(template, rng))
            length += len(pieces[-1])
        return "".join(pieces)

    return made


HOSTILE: Final[Mapping[str, Text]] = {
    "one letter": _repeated("a"),
    "prose": _repeated("So yesterday we went to the market and bought some apples, pears and a very old lamp. "),
    "random base64, one line": _drawn("<base64:900>"),
    "random base64, wrapped": _drawn("<base64:76>\n"),
    "random hex": _drawn("<hex:900>"),
    "key token secret": _repeated("key token secret "),
    "password=": _repeated("password="),
    "password: in each line": _repeated("password:\n"),
    'password="': _repeated('password="'),
    "密码是": _repeated("密码是"),
    "пароль": _repeated("пароль "),
    "Bearer": _repeated("Authorization: Bearer "),
    "Cookie": _repeated("Cookie: a=b; c=d; "),
    "-----BEGIN": _repeated("-----BEGIN "),
    "BEGIN PRIVATE KEY": _repeated("-----BEGIN PRIVATE KEY-----\n"),
    "://": _repeated("://"),
    "https://a:b@": _repeated("https://a:b@"),
    "eyJ": _repeated("eyJ"),
    ":AA": _repeated("12345678:AA"),
    "sk-": _repeated("sk-"),
    "ghp_ wall to wall": _drawn("ghp_<base62:36>"),
    "tokens": _drawn("ghp_<base62:36> "),
    "AZDO": _repeated("AZDO"),
    "zero-width marks": _repeated("a\u200b"),
    "colour codes": _repeated("\x1b[31ma"),
    "unfinished colours": _repeated("\x1b["),
    "full-width letters": _repeated("ｋｅｙ"),
    "backslashes": _repeated("\\"),
    "\\u escapes": _repeated("\\u0061"),
    "percent signs": _repeated("%25"),
    "entities": _repeated("&#x61;"),
    "soft line ends": _repeated("ab=\n"),
    "newlines": _repeated("\n"),
    "brackets": _repeated("[redacted:"),
    "quotes": _repeated("\"'`"),
    "token=\"'": _repeated("token=\"'"),
    "password: {{[(": _repeated("password: {{[("),
    "a list of passwords": _drawn('"passwords": ["<base62:14>", "<base62:14>"], '),
    "passwords by line": _drawn("- password: <base62:14>\n"),
    "variables": _drawn("DB_PASSWORD=<base62:14>\n"),
    "labels": _repeated('"LABEL_PASSWORD": "Répétez votre mot de passe",\n'),
    "recovery codes": _repeated("recovery codes\n"),
    "kind: Secret": _repeated("kind: Secret\n"),
    "echo": _repeated("echo "),
    '"kty"': _repeated('"kty": "RSA", '),
    "${password:-": _repeated("${password:-"),
    "a code before its word": _repeated("4821 is the code "),
    "a value before its word": _repeated("a1b2c3 is the wifi "),
    "listed words": _repeated("abandon ability huge pelican fork "),
}
"""By name, texts of any size."""
