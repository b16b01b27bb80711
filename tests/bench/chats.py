"""People who talk to the bot: one after another, or many at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tests.bench.product import Product
from tests.bench.town import Chat, Town

CHAT_LENGTH: Final = 10
"""Messages of one chat that are measured: a longer one would measure how long its history is, and how often one person
may write."""
QUESTION: Final = "Could you tell me in a few words what the weather is like in Ushuaia today, message {number}?"


@dataclass(frozen=True, slots=True)
class Load:
    """What answering a number of messages took."""

    messages: int
    elapsed_s: float
    cpu_s: dict[str, float]
    """By role."""

    @property
    def per_s(self) -> float:
        return self.messages / self.elapsed_s

    @property
    def cpu_ms(self) -> float:
        """CPU of all processes for one message."""
        return 1000 * sum(self.cpu_s.values()) / self.messages

    @property
    def shares(self) -> str:
        """The same by role, dearest first."""
        spent = sorted(self.cpu_s.items(), key=lambda item: -item[1])
        return ", ".join(f"{role} {1000 * cpu_s / self.messages:.1f}" for role, cpu_s in spent)


async def one_after_another(town: Town, chat: Chat, count: int) -> list[float]:
    """The seconds each of `count` messages had to wait for its answer."""
    return [await town.ask(chat, QUESTION.format(number=number)) for number in range(count)]


async def all_together(town: Town, product: Product, chats: Sequence[Chat], count: int) -> Load:
    """Everybody writes `count` messages, each when the one before is answered."""
    before = product.cpu_s()
    began_s = asyncio.get_running_loop().time()
    await asyncio.gather(*(one_after_another(town, chat, count) for chat in chats))
    elapsed_s = asyncio.get_running_loop().time() - began_s
    after = product.cpu_s()
    spent = {role: after[role] - before.get(role, 0.0) for role in after}
    return Load(len(chats) * count, elapsed_s, spent)
