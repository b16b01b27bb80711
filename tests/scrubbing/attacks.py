"""Disguises: what hides a token from a search and not from a reader, and how the reader gets it back."""

from __future__ import annotations

import base64
import html
import json
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from tests.scrubbing.reading import (
    INVISIBLE,
    base64_read,
    hex_read,
    joined,
    json_read,
    narrow,
    without_backslashes,
    without_colour,
    without_marks,
)
from tests.scrubbing.samples import Planted, Sample, is_left
from tests.scrubbing.slots import fill
from tests.scrubbing.tokens import TOKENS

_SURROUNDINGS: Final = (
    "look at {} please",
    "{}",
    "вот он: {} проверь",
    "请看{} 谢谢",
    "my key is {} ok?",
    "first\n{}\nlast",
)
_PUNCTUATION: Final = re.compile(r"[^A-Za-z0-9]")
_HEAD_CHARS_MIN: Final = 12
_TAIL_CHARS_MIN: Final = 4
_CUT_CHARS: Final = 4

Disguise = Callable[[str, random.Random], str]
Reveal = Callable[[str], str]


def _unchanged(text: str) -> str:
    return text


@dataclass(frozen=True, slots=True)
class Attack:
    """One disguise. `is_must`: the product promises to see through it; otherwise it only tries to.

    `is_variant` says that the disguise makes another secret, so that this one is looked for.
    """

    name: str
    is_must: bool
    disguise: Disguise
    reveal: Reveal = _unchanged
    is_variant: bool = False

    def rows(self, seed: int) -> Iterator[Sample]:
        """A disguised token of every kind that the disguise changes."""
        rng = random.Random(f"{self.name} {seed}")
        for kind, template in TOKENS.items():
            secret = fill(template, rng)
            disguised = self.disguise(secret, rng)
            if disguised != secret:
                text = rng.choice(_SURROUNDINGS).replace("{}", disguised)
                target = disguised if self.is_variant else secret
                yield Sample(kind, "any", self.name, text, (Planted(kind, target),))

    def leaks(self, sample: Sample, clean: str) -> bool:
        """Can a reader of the clean text get a piece of the secret?"""
        revealed = self.reveal(clean)
        return any(is_left(secret, clean) or is_left(secret, revealed) for secret in sample.secrets)


# --- disguises


def _one_mark(token: str, rng: random.Random) -> str:
    at = rng.randrange(1, len(token))
    return token[:at] + rng.choice(INVISIBLE) + token[at:]


def _marks_between_all(token: str, rng: random.Random) -> str:
    return rng.choice(INVISIBLE).join(token)


def _full_width(token: str, _: random.Random) -> str:
    return "".join(chr(ord(char) + 0xFEE0) if "!" <= char <= "~" else char for char in token)


def _some_full_width(token: str, rng: random.Random) -> str:
    return "".join(_full_width(char, rng) if rng.random() < 0.3 else char for char in token)


def _coloured(token: str, rng: random.Random) -> str:
    first, second = sorted(rng.sample(range(1, len(token)), 2))
    colour = rng.choice(("\x1b[31m", "\x1b[1;32m", "\x1b[38;5;196m", "\x1b[38;2;255;0;0m"))
    return f"{token[:first]}{colour}{token[first:second]}\x1b[0m{token[second:]}"


def _markdown_escaped(token: str, _: random.Random) -> str:
    return re.sub(r"([\\_\-.*+!#~|=])", r"\\\1", token)


def _json_punctuation(token: str, _: random.Random) -> str:
    return _PUNCTUATION.sub(lambda sign: f"\\u{ord(sign[0]):04x}", token)


def _json_everything(token: str, _: random.Random) -> str:
    return "".join(f"\\u{ord(char):04x}" for char in token)


def _json_twice(token: str, _: random.Random) -> str:
    return json.dumps(json.dumps({"note": f'see "{token}"', "n": 1}))


def _json_twice_escaped(token: str, rng: random.Random) -> str:
    return json.dumps('{"note": "' + _json_punctuation(token, rng) + '"}')


def _percent_punctuation(token: str, _: random.Random) -> str:
    return _PUNCTUATION.sub(lambda sign: f"%{ord(sign[0]):02X}", token)


def _percent_everything(token: str, rng: random.Random) -> str:
    return "".join(f"%{ord(char):02{rng.choice('xX')}}" for char in token)


def _entities_punctuation(token: str, rng: random.Random) -> str:
    return _PUNCTUATION.sub(lambda sign: rng.choice((f"&#{ord(sign[0])};", f"&#x{ord(sign[0]):x};")), token)


def _entities_everything(token: str, _: random.Random) -> str:
    return "".join(f"&#{ord(char)};" for char in token)


def _base64(token: str, rng: random.Random) -> str:
    encode = rng.choice((base64.b64encode, base64.urlsafe_b64encode))
    return encode(token.encode()).decode()


def _base64_of_a_line(token: str, _: random.Random) -> str:
    return base64.b64encode(f"export API_KEY={token}\n".encode()).decode()


def _base64_of_a_file(token: str, _: random.Random) -> str:
    return base64.b64encode(f'{{"user": "bob", "note": "{token}", "n": 3}}'.encode()).decode()


def _hex(token: str, rng: random.Random) -> str:
    coded = token.encode().hex()
    return rng.choice((coded, coded.upper()))


def _cut_with(seam: str) -> Disguise:
    def disguise(token: str, rng: random.Random) -> str:
        if len(token) < _HEAD_CHARS_MIN + _TAIL_CHARS_MIN:
            return token
        at = rng.randint(_HEAD_CHARS_MIN, len(token) - _TAIL_CHARS_MIN)
        return token[:at] + seam + token[at:]

    return disguise


def _fenced(token: str, rng: random.Random) -> str:
    return rng.choice(("key```{}```", "```{}```ok", "```sh\n{}```", "`{}`", "text`{}`text", "```{}\n```")).format(token)


def _wrong_case(token: str, rng: random.Random) -> str:
    return rng.choice((token.upper(), token.lower(), token.swapcase()))


def _without_its_end(token: str, _: random.Random) -> str:
    return token[:-_CUT_CHARS]


ATTACKS: Final = (
    Attack("one invisible mark inside", True, _one_mark, without_marks),
    Attack("invisible marks between all", True, _marks_between_all, without_marks),
    Attack("full-width letters", True, _full_width, narrow),
    Attack("some letters full-width", True, _some_full_width, narrow),
    Attack("colour inside", True, _coloured, without_colour),
    Attack("markdown escapes", True, _markdown_escaped, without_backslashes),
    Attack("json escapes, punctuation", True, _json_punctuation, json_read),
    Attack("json escapes, everything", True, _json_everything, json_read),
    Attack("json in json", True, _json_twice),
    Attack("escapes in json in json", True, _json_twice_escaped, json_read),
    Attack("percent, punctuation", True, _percent_punctuation, unquote),
    Attack("percent, everything", False, _percent_everything, unquote),
    Attack("entities, punctuation", False, _entities_punctuation, html.unescape),
    Attack("entities, everything", False, _entities_everything, html.unescape),
    Attack("base64", True, _base64, base64_read),
    Attack("base64 of a line", True, _base64_of_a_line, base64_read),
    Attack("base64 of a file", True, _base64_of_a_file, base64_read),
    Attack("hex", False, _hex, hex_read),
    Attack("wrapped line", True, _cut_with("\n"), joined),
    Attack("wrapped line, indented", True, _cut_with("\n    "), joined),
    Attack("wrapped line, carriage return", True, _cut_with("\r\n"), joined),
    Attack("wrapped line, backslash", True, _cut_with("\\\n  "), joined),
    Attack("wrapped line, quoted printable", True, _cut_with("=\n"), joined),
    Attack("wrapped line, quoted mail", True, _cut_with("=\n> "), joined),
    Attack("fence without a space", True, _fenced),
    Attack("wrong case", False, _wrong_case, is_variant=True),
    Attack("last four missing", True, _without_its_end, is_variant=True),
)
"""Out of scope, and said so: letters spaced out, reversed, or replaced by letters of another script."""
