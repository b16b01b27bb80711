"""Presses of buttons: on the bus before the update is confirmed, answered as soon as there is a word for them.

Telegram's client shows that it waits until the query is answered, and shows the text of that one answer to whoever
pressed, and to nobody else. A query that is too old to be answered harms nobody.
"""

from __future__ import annotations

import asyncio
from typing import Any

from telegram import Bot
from telegram.error import RetryAfter

from channels.adapter import Door
from channels.errands import Errands
from channels.normalized import Ignored, Incoming
from channels.telegram import limits
from channels.telegram.errors import seconds
from channels.telegram.normalize import TelegramIdentity
from channels.telegram.presses import normalize_press, query_id_of
from channels.telegram.render import render
from gateway.contracts.messages import CleanText, own_words


class Presses:
    """The callback queries of one bot."""

    def __init__(self, bot: Bot, me: TelegramIdentity, errands: Errands) -> None:
        self._bot = bot
        self._me = me
        self._errands = errands

    async def hand_in(self, update: Any, door: Door) -> None:
        """Return when the bus has it; every query is answered, whatever it says. Raises `BusUnavailable`."""
        query_id, press = query_id_of(update), normalize_press(update, self._me)
        if isinstance(press, Ignored):
            self._errands.start(self._answer(query_id, own_words("")))
            return
        word = await door.press(press)
        self._errands.start(self._pass_on(query_id, press, door) if word is None else self._answer(query_id, word))

    async def _pass_on(self, query_id: str, press: Incoming, door: Door) -> None:
        await self._answer(query_id, await door.told(press))

    async def _answer(self, query_id: str, word: CleanText) -> None:
        shown = " ".join(chunk.text for chunk in render(word))[: limits.TOAST_CHARS_MAX]
        try:
            await self._bot.answer_callback_query(query_id, shown or None)
        except RetryAfter as error:
            if (wait_s := seconds(error.retry_after)) > limits.TOAST_LATE_S:
                raise
            await asyncio.sleep(wait_s)
            await self._bot.answer_callback_query(query_id, shown or None)
