"""One secret of every rule of the rule book, and of every kind of our own corpus: made anew for each run."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from gateway.scrub import findings, scrub
from gateway.scrub.rules import SecretRule, finder, rule_book
from tests.scrubbing import TOKENS, fill, is_left, positives
from tests.scrubbing.rows import examples_of

PACK_CHARS_MAX: Final = 1_800
"""A person's message on the platform that takes least (Discord, 2,000), with a word in front."""

_PIECE_CHARS: Final = 12
_RUN: Final = re.compile(rf"[!-~]{{{_PIECE_CHARS},}}")


@dataclass(frozen=True, slots=True)
class Canary:
    """A text, and the secrets in it, none of which may be seen again."""

    kind: str
    text: str
    secrets: tuple[str, ...]


_DRAWS_MAX: Final = 4
"""A random value may, once in a thousand times, look like a word; of so many one does not."""


def of_the_rules(rng: random.Random) -> list[Canary]:
    """One example of every rule. What of it is secret is what the scrubber finds; that it finds all that matters
    is the business of the tests of the rules. One without secrets: the rule does not know its own example."""
    return [_of_rule(rule, rng) for rule in rule_book().rules]


def of_the_corpus(rng: random.Random) -> list[Canary]:
    """One text of every kind that is known by what is said around it: named values in many languages, links, key
    files. Only those that are recognised: how many are is measured elsewhere."""
    told = (sample for sample in positives(rng.randrange(2**32), rows=1) if sample.kind not in TOKENS)
    found = [Canary(sample.kind, sample.text, sample.secrets) for sample in told]
    return [canary for canary in found if not is_seen(canary, scrub(canary.text))]


def is_seen(canary: Canary, text: str) -> bool:
    """Is a piece of twelve characters of a secret in `text`?"""
    return not canary.secrets or any(is_left(secret, text) for secret in canary.secrets)


def packed(canaries: Iterable[Canary]) -> list[tuple[Canary, ...]]:
    """Several to a message, in lines of their own; one that is seen in the company of the others flies alone."""
    packs: list[tuple[Canary, ...]] = [()]
    for canary in canaries:
        wider = (*packs[-1], canary)
        if len(text_of(wider)) <= PACK_CHARS_MAX:
            packs[-1] = wider
        else:
            packs.append((canary,))
    alone = {canary for pack in packs for canary in _seen_of(pack)}
    company = (tuple(canary for canary in pack if canary not in alone) for pack in packs)
    return [*filter(None, company), *((canary,) for canary in alone)]


def text_of(pack: Sequence[Canary]) -> str:
    """What is said of them."""
    return "\n\n".join(canary.text for canary in pack)


def beginning_of(pack: Sequence[Canary], chars_max: int) -> str:
    """As many of them, whole, as so many characters hold: the first of them at least."""
    count = 1
    while count < len(pack) and len(text_of(pack[: count + 1])) <= chars_max:
        count += 1
    return text_of(pack[:count])


class Watch:
    """Looks for a whole flock at once, in texts of many megabytes: by the end, the beginning and the middle of each
    secret, which no rule leaves."""

    def __init__(self, canaries: Iterable[Canary]) -> None:
        self._kinds = {piece: canary.kind for canary in canaries for piece in _telling(canary)}
        self._finder = finder(self._kinds)

    def seen(self, text: str) -> dict[str, str]:
        """The kinds that are seen, each with a little of what stands around its piece."""
        return {
            self._kinds[self._finder.literals[which]]: text[max(0, start - 80) : end + 20]
            for which, start, end in self._finder.find(text)
        }


def _seen_of(pack: tuple[Canary, ...]) -> list[Canary]:
    clean = scrub(text_of(pack))
    return [canary for canary in pack if is_seen(canary, clean)]


def _of_rule(rule: SecretRule, rng: random.Random) -> Canary:
    text = ""
    for _ in range(_DRAWS_MAX):
        text = fill(rng.choice(examples_of(rule)), rng)
        spans = [text[found.start : found.end] for found in findings(text)]
        drawn = Canary(rule.id, text, tuple(run for span in spans for run in (_RUN.findall(span) or [span])))
        if not is_seen(drawn, scrub(text)):
            return drawn
    return Canary(rule.id, text, ())


def _telling(canary: Canary) -> Iterator[str]:
    for secret in canary.secrets:
        middle = len(secret) // 2
        if len(secret) < _PIECE_CHARS:
            continue  # a short password may stand anywhere by chance
        yield secret[-_PIECE_CHARS:]
        if len(secret) >= 2 * _PIECE_CHARS:
            yield secret[middle - _PIECE_CHARS // 2 : middle + _PIECE_CHARS // 2]
