"""A token that is known when it stands alone is known in every place of every platform's messages."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import Final

import pytest

from channels.core.sanitize import Sanitizer
from gateway.clock import SystemClock
from gateway.contracts.ids import SessionScope
from gateway.contracts.messages import InboundMessage
from gateway.scrub import Scrubber
from tests.scrubbing import TOKENS, fill, is_left
from tests.scrubbing.platforms import ARRIVALS

SCRUBBER = Scrubber(placeholder_key=b"platforms")
CLEANER = Sanitizer(SCRUBBER, SystemClock(), SessionScope.PLACE)
KINDS: Final = tuple(TOKENS)
EVERY: Final = 8
"""Of so many kinds one is tried in a place, each time others."""

_UNSEEN: Final = re.compile("[\u200b\u202e\x1b\\\\]")


def words_of(message: InboundMessage) -> Iterator[str]:
    """All that anybody may read of a message."""
    yield from (message.text, message.author_name)
    for file in (*message.attachments, *(file for quote in message.quotes for file in quote.attachments)):
        yield from (file.name, file.media_type)
    for quote in message.quotes:
        yield from (quote.text, quote.author_name)


def leaking(place: str, kinds: tuple[str, ...], seed: int) -> list[str]:
    rng = random.Random(seed)
    drawn = ((kind, fill(TOKENS[kind], rng)) for kind in kinds)
    known = [(kind, token) for kind, token in drawn if not is_left(token, SCRUBBER.scrub(f"a {token} b"))]
    assert len(known) >= len(kinds) - 1
    return [kind for kind, token in known if is_left(token, _shown(CLEANER.clean(ARRIVALS[place](token))))]


def _shown(message: InboundMessage) -> str:
    return "\n".join(_UNSEEN.sub("", words) for words in words_of(message))


@pytest.mark.parametrize(("number", "place"), list(enumerate(ARRIVALS)))
def test_a_token_goes_wherever_the_platform_puts_it(number: int, place: str) -> None:
    assert leaking(place, KINDS[number % EVERY :: EVERY], seed=number) == []


@pytest.mark.long
@pytest.mark.parametrize("place", list(ARRIVALS))
def test_a_token_of_every_kind_goes_wherever_the_platform_puts_it(place: str) -> None:
    assert leaking(place, KINDS, seed=3) == []
