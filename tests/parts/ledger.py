"""Who said what and what was answered: the one thing that all fault runs are judged by.

Every message carries a word of its own and the demo model repeats it. What the bot said is read off the
emulated platforms; so an answer that is missing, doubled or out of order shows.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from channels.core.adapter import MARK
from tests.parts.product import Chat
from tests.parts.waiting import comes_true

_WORD: Final = re.compile(r"\bw\d+z\b")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What went wrong. `marked` are repetitions that say so themselves, which is allowed."""

    said: int
    lost: tuple[str, ...]
    doubled: tuple[str, ...]
    misordered: tuple[str, ...]
    marked: tuple[str, ...]

    @property
    def is_clean(self) -> bool:
        """Every message has one answer, in order."""
        return not (self.lost or self.doubled or self.misordered)

    def __str__(self) -> str:
        names = ("lost", "doubled", "misordered", "marked")
        found = {name: getattr(self, name) for name in names}
        parts = [f"{len(words)} {name} ({', '.join(words)})" for name, words in found.items() if words]
        return f"{self.said} said: {', '.join(parts) or 'each answered once, in order'}"


@dataclass(slots=True)
class Ledger:
    """The chats of one run and the words said in each."""

    chats: Sequence[Chat]
    said: dict[int, list[str]] = field(default_factory=dict)
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    async def say(self, chat: Chat, order: str = "{word}") -> str:
        """One more message in this chat; its word. `order` is what the demo model is told to do with it."""
        word = f"w{next(self._numbers)}z"
        self.said.setdefault(self.chats.index(chat), []).append(word)
        await chat.say(order.format(word=word))
        return word

    async def say_everywhere(self, order: str = "{word}") -> None:
        """One more message in every chat."""
        for chat in self.chats:
            await self.say(chat, order)

    def open_words(self, chat: Chat | None = None) -> list[str]:
        """Words that nobody has answered yet."""
        if chat is not None:
            heard = set(_WORD.findall("\n".join(text for text, _ in _answers(chat))))
            return [word for word in self.said.get(self.chats.index(chat), []) if word not in heard]
        return [word for each in self.chats for word in self.open_words(each)]

    async def until_answered(self, *, within_s: float) -> bool:
        """Wait until nothing is open; False when that takes longer."""
        return await comes_true(lambda: not self.open_words(), within_s=within_s)

    def verdict(self) -> Verdict:
        """The judgement on all that was said so far."""
        lost: list[str] = []
        doubled: list[str] = []
        misordered: list[str] = []
        marked: list[str] = []
        for number, words in self.said.items():
            told = [
                (word, is_marked) for text, is_marked in _answers(self.chats[number]) for word in _WORD.findall(text)
            ]
            mine = [(word, is_marked) for word, is_marked in told if word in words]
            for word in words:
                times = [is_marked for each, is_marked in mine if each == word]
                if not times:
                    lost.append(word)
                elif len(times) > 1:
                    (marked if sum(times) >= len(times) - 1 else doubled).append(word)
            first = list(dict.fromkeys(word for word, _ in mine))
            if first != [word for word in words if word in first]:
                misordered.extend(first)
        return Verdict(sum(map(len, self.said.values())), tuple(lost), tuple(doubled), tuple(misordered), tuple(marked))


def _answers(chat: Chat) -> list[tuple[str, bool]]:
    """What the bot said where this chat is, and in threads that it opened there, oldest first."""
    places = [place.id for place in chat.stage.places() if chat.place.id in (place.id, place.parent_id)]
    said = [said for place in places for said in chat.stage.said(place) if said.author.is_bot]
    said.sort(key=lambda each: each.at_ms)
    return [(each.text, MARK in each.text) for each in said]
