"""Suggestions: asked by a channel, said by an agent process, gone by themselves."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from gateway.bus.bus import RedisBus
from gateway.contracts.commands import Suggestion, SuggestionRequest, Suggests
from gateway.contracts.messages import literal_text
from gateway.limits import SUGGESTIONS_BURST, SUGGESTIONS_TTL_S
from tests.parts.bus_samples import ANNA, BORIS

WANTED = SuggestionRequest(ANNA, ANNA, Suggests.SESSIONS, literal_text("gär"), "de")
GARDEN = Suggestion(literal_text("3. Der Gärtner"), literal_text("3"))


async def test_what_is_asked_is_answered_to_whoever_waits(bus: RedisBus) -> None:
    async with asyncio.TaskGroup() as group:
        asking = group.create_task(bus.suggestions.ask(WANTED, wait_s=5))
        wanted = await bus.suggestions.wanted(wait_s=5)
        assert wanted == WANTED
        await bus.suggestions.suggest(wanted, [GARDEN])
    assert asking.result() == (GARDEN,)


async def test_an_answer_reaches_nobody_who_asked_something_else(bus: RedisBus) -> None:
    """Neither another person nor the same one two letters later."""
    await bus.suggestions.suggest(WANTED, [GARDEN])
    assert await bus.suggestions.ask(replace(WANTED, owner=BORIS), wait_s=0) == ()
    assert await bus.suggestions.ask(replace(WANTED, key=BORIS), wait_s=0) == ()
    assert await bus.suggestions.ask(replace(WANTED, typed=literal_text("gärt")), wait_s=0) == ()


async def test_each_question_is_heard_once(bus: RedisBus) -> None:
    """Two who ask the same are both answered."""
    async with asyncio.TaskGroup() as group:
        asking = [group.create_task(bus.suggestions.ask(WANTED, wait_s=5)) for _ in range(2)]
        for _ in asking:
            wanted = await bus.suggestions.wanted(wait_s=5)
            assert wanted is not None
            await bus.suggestions.suggest(wanted, [GARDEN])
    assert [asked.result() for asked in asking] == [(GARDEN,), (GARDEN,)]
    assert await bus.suggestions.wanted(wait_s=0) is None


async def test_where_nobody_answers_nothing_is_suggested_and_nothing_stays(bus: RedisBus, bus_servers: Any) -> None:
    assert await bus.suggestions.ask(WANTED, wait_s=0) == ()
    await bus.suggestions.suggest(replace(WANTED, owner=BORIS), [GARDEN])
    lives = [
        server.pttl(key)
        for server in bus_servers.clients
        for name in ("*asked", "*sugg*")
        for key in server.scan_iter(name)
    ]
    assert len(lives) == 2
    assert all(0 < life <= SUGGESTIONS_TTL_S * 1000 for life in lives)


async def test_what_cannot_be_read_counts_as_not_said(bus: RedisBus, bus_servers: Any) -> None:
    """A process of another release may have written it."""
    await bus.suggestions.suggest(WANTED, [GARDEN])
    for server in bus_servers.clients:
        for key in server.scan_iter("*sugg*"):
            server.delete(key)
            server.rpush(key, b"{")
            server.pexpire(key, 1_000)
    assert await bus.suggestions.ask(WANTED, wait_s=5) == ()


async def test_who_asks_too_often_is_not_asked_for_and_others_are(bus: RedisBus) -> None:
    """The bucket may gain some while this goes on, but hardly as many again."""
    for number in range(4 * SUGGESTIONS_BURST):
        await bus.suggestions.ask(replace(WANTED, typed=literal_text(str(number))), wait_s=0)
    await bus.suggestions.ask(replace(WANTED, owner=BORIS), wait_s=0)
    asked = []
    while (wanted := await bus.suggestions.wanted(wait_s=0)) is not None:
        asked.append(wanted.owner)
    assert SUGGESTIONS_BURST <= asked.count(ANNA) < 2 * SUGGESTIONS_BURST
    assert asked[-1] == BORIS
