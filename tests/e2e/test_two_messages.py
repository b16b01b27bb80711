"""A secret in two messages: once the second half has arrived, no half of it is left anywhere.

On the running product and its three platforms. Some people wait until the first half was answered (it is in the
database by then, quoted by the model, and in the logs of both stores), others send the rest at once.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from gateway.scrub import scrub
from tests.parts.model_server import serve_model
from tests.parts.product import PLATFORMS, Chat, Product, running_product
from tests.parts.waiting import until
from tests.scrubbing import TOKENS, fill

PAIRS = 50
PIECE_CHARS = 12
IN_THE_AIR = 8  # conversations at once


@dataclass(frozen=True, slots=True)
class Pair:
    """A secret cut in two, and the text around it."""

    number: int
    secret: str
    cut: int

    @property
    def halves(self) -> tuple[str, str]:
        return f"pair {self.number}: {self.secret[: self.cut]}", f"{self.secret[self.cut :]} that is all"

    def left_in(self, text: str) -> list[str]:
        """Pieces of the secret that still say something."""
        ends = range(len(self.secret) - PIECE_CHARS + 1)
        return [piece for at in ends if (piece := self.secret[at : at + PIECE_CHARS]) in text]


def pairs(seed: int, count: int) -> Iterator[Pair]:
    """Secrets of as many kinds as the scrubber knows, each cut so that both halves are long enough to count."""
    rng = random.Random(seed)
    templates = itertools.cycle(rng.sample(list(TOKENS.values()), len(TOKENS)))
    known = filter(is_known, (fill(template, rng) for template in templates))
    for number, secret in enumerate(itertools.islice(known, count)):
        yield Pair(number, secret, rng.randrange(PIECE_CHARS, len(secret) - PIECE_CHARS + 1))


def is_known(secret: str) -> bool:
    """Is it long enough, and found in one message? What is not is the business of the rules."""
    return len(secret) >= 3 * PIECE_CHARS and not Pair(0, secret, 0).left_in(scrub(f"pair 0: {secret} that is all"))


async def say(chat: Chat, pair: Pair, sky: asyncio.Semaphore, *, at_once: bool) -> None:
    """Say both halves, and wait for the answer to the second."""
    first, second = pair.halves
    async with sky:
        if at_once:
            await chat.say(first)
        else:
            await chat.ask(first, f"pair {pair.number}")
        await chat.ask(second, "that is all")


def files(folder: Path) -> dict[str, str]:
    """Every file that Trivet wrote: databases, their logs, the log of the bus."""
    found = {}
    for path in folder.rglob("*"):
        if path.is_file():
            found[path.name] = path.read_bytes().decode("utf-8", "replace")
    return found


def spread(product: Product, said: Sequence[Pair]) -> dict[str, list[str]]:
    """Where anything of the secrets is left, by file."""
    return {
        name: [f"{pair.number}: {left[0]}" for pair in said if (left := pair.left_in(text))]
        for name, text in files(product.data_dir).items()
        if any(pair.left_in(text) for pair in said)
    }


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_nothing_of_a_secret_in_two_messages_is_left_once_both_have_come(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    said, sky, platforms = list(pairs(seed, PAIRS)), asyncio.Semaphore(IN_THE_AIR), itertools.cycle(PLATFORMS)
    async with serve_model() as model, running_product(tmp_path, model=model) as product:
        chats = [product.chat(next(platforms), f"Ann {pair.number}") for pair in said]
        telling = (say(chat, pair, sky, at_once=bool(pair.number % 2)) for chat, pair in zip(chats, said, strict=True))
        await asyncio.gather(*telling)
        await product.until_settled()
        asked = len(model.requests)
        for chat in chats:
            await chat.ask("and now?", "and now?")
        later = json.dumps(model.requests[asked:], ensure_ascii=False)
        assert [pair.number for pair in said if pair.left_in(later)] == []
        await until(lambda: not spread(product, said), lambda: spread(product, said))
        told = "\n".join(chat.heard for chat in chats)
        assert told.count("together held") >= PAIRS // 2
