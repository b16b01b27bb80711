"""A turn whose answer grows before the eyes of people: an agent as far as a channel can tell."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from channels.core.adapter import StreamCadence
from channels.discord import limits as discord_limits
from channels.slack import limits as slack_limits
from channels.telegram import limits as telegram_limits
from gateway.bus.bus import RedisBus
from gateway.contracts.messages import Activity, CleanText, Draft, InboundMessage
from tests.parts.answering import EchoAgent
from tests.parts.towns import Town
from tests.parts.waiting import until

AT_ONCE = StreamCadence(first_after_s=0.01, every_s=0.02, chars_min=4)
AT_ONCE_WITH_STOP = replace(AT_ONCE, stop_chars_max=100)


def show_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every platform likes it as fast as that, and takes as much."""
    monkeypatch.setattr(telegram_limits, "DRAFT_CADENCE", AT_ONCE)
    for name in ("EDIT_CADENCE", "GROUP_CADENCE"):
        monkeypatch.setattr(telegram_limits, name, replace(AT_ONCE, stop_chars_max=telegram_limits.CALLBACK_BYTES_MAX))
    monkeypatch.setattr(discord_limits, "CADENCE", AT_ONCE_WITH_STOP)
    for name in ("STREAM_FIRST_S", "APPEND_EVERY_S", "APPEND_SHARE_S", "CHANGE_SHARE_S"):
        monkeypatch.setattr(slack_limits, name, 0.02)
    for limits, names in (
        (telegram_limits, ("CHAT_BURST", "GROUP_BURST")),
        (discord_limits, ("CHANNEL_BURST",)),
        (slack_limits, ("CHANNEL_BURST",)),
    ):
        for name in names:
            monkeypatch.setattr(limits, name, 1_000)


class Growing:
    """The running turn that answers `message`, with `answer` in the end."""

    def __init__(self, bus: RedisBus, agent: EchoAgent, message: InboundMessage, done: asyncio.Event) -> None:
        self._bus = bus
        self._agent = agent
        self._done = done
        self.message = message
        self.reply_id = f"{message.id}:answer"
        self.turn_id = f"turn-{message.id}"

    async def says(self, text: str) -> None:
        """The answer as far as it is."""
        draft = Draft(self.message.address, self.message.key, self.turn_id, self.reply_id, CleanText(text))
        await self._bus.deliveries.show_draft(draft)

    def answers(self, text: str) -> None:
        """It is whole."""
        self._agent.answer = lambda _: text
        self._done.set()

    async def ends(self) -> None:
        """There will be no answer."""
        await self._bus.deliveries.show_activity(Activity(self.message.address, self.turn_id, 0.0, ended=True))


@contextlib.asynccontextmanager
async def growing(
    town: Town, bus: RedisBus, place_id: str, *, mention_bot: bool = False, words: str = "tell me"
) -> AsyncIterator[Growing]:
    """Ann asks, and the turn runs. The line is up already."""
    agent, done = EchoAgent(bus), asyncio.Event()
    agent.think_until(done)
    async with agent.at_work():
        await town.stage.say(town.ann.id, place_id, words, mention_bot=mention_bot)
        await until(lambda: bool(agent.heard))
        yield Growing(bus, agent, agent.heard[0], done)
