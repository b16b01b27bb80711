"""Texts with secrets in them: every kind, in surroundings drawn for each, in eight languages."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from tests.scrubbing.carriers import LANGUAGES, NAMED_SPEECH, NAMED_SYNTAX, NOUNS, SPEECH, SYNTAX
from tests.scrubbing.links import KEY_NAMES, LINKS
from tests.scrubbing.named import NAMED
from tests.scrubbing.slots import fill
from tests.scrubbing.tokens import TOKENS

ROWS_OF_A_KIND: Final = 24
PIECE_CHARS: Final = 12
"""So much of a secret left is a leak; a shorter secret leaks as a whole."""

_WORD: Final = re.compile(r"\w+")
_PLACEHOLDER: Final = re.compile(r"\[redacted:[^\]]*\]")
_FRAME_OF_A_KEY_FILE: Final = re.compile(r"-----(?:BEGIN|END) [A-Z ]+-----|(?:Proc-Type|DEK-Info): [\w,-]+|\\[rn]")
"""Goes with the key: nobody misses it."""

_LANGUAGE_WEIGHTS: Final = {"en": 8, "ru": 4, "zh": 4}
_SPEECH_SHARE: Final = 0.5
KINDS: Final = (*TOKENS, *NAMED, *LINKS, *KEY_NAMES)


class Planted(NamedTuple):
    """A secret and what kind it is of."""

    kind: str
    value: str


@dataclass(frozen=True, slots=True)
class Sample:
    """One text, the form it was made of, and the secrets in it (none: `kind` is a class of look-alikes)."""

    kind: str
    language: str
    form: str
    text: str
    planted: tuple[Planted, ...] = ()

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must be gone."""
        return tuple(value for _, value in self.planted)


def positives(seed: int, rows: int = ROWS_OF_A_KIND) -> Iterator[Sample]:
    """`rows` texts of every kind."""
    rng = random.Random(seed)
    for kind, template in TOKENS.items():
        for _ in range(rows):
            yield _token_row(kind, template, rng)
    for kind in NAMED:
        for _ in range(rows):
            yield _named_row(kind, rng)
    for kind in LINKS:
        for _ in range(rows):
            yield _fixed_row(kind, rng)
    for kind in KEY_NAMES:
        for _ in range(rows):
            yield _key_file(kind, rng)


def leaked(sample: Sample, clean: str) -> Iterator[Planted]:
    """The secrets of which a piece is still there."""
    return (planted for planted in sample.planted if is_left(planted.value, clean))


def leaks(sample: Sample, clean: str) -> bool:
    """Is a piece of any of its secrets still there?"""
    return any(leaked(sample, clean))


def is_left(secret: str, clean: str) -> bool:
    """Has `clean` a piece of the secret, or the whole of a short one?"""
    return any(piece in clean for piece in _pieces(secret))


def words_lost(sample: Sample, clean: str) -> tuple[int, int]:
    """How many words stand beside the secrets, and how many of those are gone."""
    text = sample.text
    for secret in sample.secrets:
        text = text.replace(secret, " ")
    beside = Counter(_WORD.findall(_FRAME_OF_A_KEY_FILE.sub(" ", text)))
    return beside.total(), (beside - Counter(_WORD.findall(_PLACEHOLDER.sub(" ", clean)))).total()


def _pieces(secret: str) -> Iterable[str]:
    if len(secret) < PIECE_CHARS:
        return (secret,)
    return (secret[at : at + PIECE_CHARS] for at in range(len(secret) - PIECE_CHARS + 1))


def language(rng: random.Random) -> str:
    """Any of the eight, those most asked for more often."""
    return rng.choices(LANGUAGES, [_LANGUAGE_WEIGHTS.get(each, 1) for each in LANGUAGES])[0]


def plant(form: str, values: Sequence[str], rng: random.Random, said: Mapping[str, str] | None = None) -> str:
    """The form with its slots filled and a value in each `{}`; values stay as they are, whatever is in them."""
    pieces = [_say(fill(piece, rng), said or {}) for piece in form.split("{}")]
    return "".join(part for pair in zip(pieces, [*values, ""], strict=True) for part in pair)


def _say(piece: str, said: Mapping[str, str]) -> str:
    for what, word in said.items():
        piece = piece.replace(f"{{{what}}}", word)
    return piece


def _token_row(kind: str, template: str, rng: random.Random) -> Sample:
    tongue = language(rng)
    form = rng.choice(SPEECH[tongue] if tongue != "en" or rng.random() < _SPEECH_SHARE else SYNTAX)
    kinds = [kind, *rng.choices(list(TOKENS), k=form.count("{}") - 1)]
    planted = tuple(Planted(each, fill(TOKENS[each], rng)) for each in kinds)
    return Sample(kind, tongue, form, plant(form, [value for _, value in planted], rng), planted)


def _named_row(kind: str, rng: random.Random) -> Sample:
    named, tongue = NAMED[kind], language(rng)
    form = rng.choice(NAMED_SPEECH[tongue] if tongue != "en" or rng.random() < _SPEECH_SHARE else NAMED_SYNTAX)
    secret = fill(rng.choice(named.shapes), rng)
    said = {"name": rng.choice(named.names), "noun": rng.choice(NOUNS[named.noun][tongue]), "vendor": named.vendor}
    text = plant(form, [secret], rng, said).replace("  ", " ") if not named.vendor else plant(form, [secret], rng, said)
    return Sample(kind, tongue, form, text, (Planted(kind, secret),))


def _fixed_row(kind: str, rng: random.Random) -> Sample:
    """Alone, or inside a sentence or a line that holds tokens just as well."""
    fixed, tongue = LINKS[kind], language(rng)
    form = rng.choice(fixed.forms)
    secret = fill(rng.choice(fixed.shapes), rng)
    text = plant(form, [secret], rng)
    around = rng.choice([each for each in SPEECH[tongue] if each.count("{}") == 1])
    if "\n" in text or rng.random() < _SPEECH_SHARE:
        around = "{}"
    elif not text[-1].isalnum() or around.partition("{}")[2][:1] not in {"", " ", "\n"}:
        around = rng.choice(("{}\n", "{} <word>", "`{}`", "```\n{}\n```", "> {}"))
    return Sample(kind, tongue, f"{form} in {around}", plant(around, [text], rng), (Planted(kind, secret),))


def _key_file(kind: str, rng: random.Random) -> Sample:
    lines = [fill("<base64:64>", rng) for _ in range(rng.randrange(2, 12))]
    newline = rng.choice(["\n", "\\n", "\r\n", "\n    ", "\\r\\n", "\n> "])
    ending = rng.choice([f"{newline}-----END {kind}-----", f"{newline}-----END {kind}-----\nthanks", ""])
    extra = rng.choice(["", f"Proc-Type: 4,ENCRYPTED{newline}DEK-Info: AES-128-CBC,AA{newline}{newline}"])
    header = rng.choice(["", "here it is:\n", "key = ", '"key": "']) + f"-----BEGIN {kind}-----{newline}{extra}"
    planted = tuple(Planted(kind, line) for line in lines)
    return Sample(kind, "en", f"key file, {newline!r}", header + newline.join(lines) + ending, planted)
