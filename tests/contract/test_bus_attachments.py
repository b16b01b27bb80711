"""Files of people on their way to a turn: asked for by an agent, lent by a channel in pieces, gone by themselves."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway import limits
from gateway.bus.bus import RedisBus
from gateway.contracts.errors import FileRefused
from gateway.contracts.ports import FetchedFile, WantedAttachment
from gateway.limits import ATTACHMENT_PIECE_BYTES, ATTACHMENT_PIECES_AHEAD, ATTACHMENT_TTL_S
from tests.parts.bus_samples import ANNA

WANTED = WantedAttachment("ticket-1", "telegram", ANNA, "AgACAgI", 1_000_000)
LONG = bytes(range(256)) * (ATTACHMENT_PIECE_BYTES // 256) * (2 * ATTACHMENT_PIECES_AHEAD) + b"and a rest"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever falls silent is given up at once."""
    monkeypatch.setattr(limits, "ATTACHMENT_SILENCE_S", 0.05)


async def asked(bus: RedisBus) -> WantedAttachment:
    wanted = await bus.files.wanted_attachment("telegram", wait_s=5)
    assert wanted is not None
    return wanted


@pytest.mark.parametrize("content", [b"short", b"", LONG], ids=["short", "empty", "long"])
async def test_what_a_turn_needs_comes_byte_for_byte(bus: RedisBus, content: bytes) -> None:
    """However long it is, and whoever of the channels answers."""
    file = FetchedFile("photo.jpg", "image/jpeg", content)
    async with asyncio.TaskGroup() as group:
        fetching = group.create_task(bus.files.fetch_attachment(WANTED))
        wanted = await asked(bus)
        assert wanted == WANTED
        assert await bus.files.put_attachment(wanted, file)
    assert fetching.result() == file


async def test_a_refusal_says_why(bus: RedisBus) -> None:
    async with asyncio.TaskGroup() as group:
        fetching = group.create_task(refused(bus))
        await bus.files.refuse_attachment(await asked(bus), reason="it is gone")
    assert fetching.result() == "it is gone"


async def refused(bus: RedisBus) -> str:
    with pytest.raises(FileRefused) as caught:
        await bus.files.fetch_attachment(WANTED)
    return str(caught.value)


async def test_nobody_answers_and_nothing_is_left(bus: RedisBus, bus_servers: Any, impatient: None) -> None:
    """A wish that was given up is not worked on by whoever comes later."""
    assert await bus.files.fetch_attachment(WANTED) is None
    assert await bus.files.wanted_attachment("telegram", wait_s=0) is None
    assert not [key for server in bus_servers.clients for key in server.scan_iter("*ticket-1*")]


async def test_who_was_killed_on_the_way_is_noticed(bus: RedisBus, impatient: None) -> None:
    """It took the wish, said that it is at it, and was never heard of again."""
    async with asyncio.TaskGroup() as group:
        fetching = group.create_task(bus.files.fetch_attachment(WANTED))
        await bus.files.note_fetching(await asked(bus))
    assert fetching.result() is None


async def test_who_says_that_it_is_at_it_is_waited_for(bus: RedisBus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ATTACHMENT_SILENCE_S", 0.6)
    async with asyncio.TaskGroup() as group:
        fetching = group.create_task(bus.files.fetch_attachment(WANTED))
        wanted = await asked(bus)
        for _ in range(8):  # more than the silence that would be its end
            await asyncio.sleep(0.1)
            await bus.files.note_fetching(wanted)
        await bus.files.put_attachment(wanted, FetchedFile("a", "b", b"c"))
    assert fetching.result() == FetchedFile("a", "b", b"c")


async def test_a_file_that_nobody_takes_is_never_whole_on_the_bus(
    bus: RedisBus, bus_servers: Any, impatient: None
) -> None:
    """A turn may end while its file is on the way."""
    assert not await bus.files.put_attachment(WANTED, FetchedFile("a", "b", LONG))
    assert not [key for server in bus_servers.clients for key in server.scan_iter("*ticket-1*")]


async def test_what_nobody_takes_ends_by_itself(bus: RedisBus, bus_servers: Any) -> None:
    assert await bus.files.put_attachment(WANTED, FetchedFile("a", "b", b"c"))
    ((server, key),) = [(server, key) for server in bus_servers.clients for key in server.scan_iter("*ticket-1*")]
    assert 0 < server.ttl(key) <= ATTACHMENT_TTL_S


async def test_each_channel_hears_of_its_own_files(bus: RedisBus, impatient: None) -> None:
    async with asyncio.TaskGroup() as group:
        fetching = group.create_task(bus.files.fetch_attachment(WANTED))
        assert await bus.files.wanted_attachment("discord", wait_s=0) is None
    assert fetching.result() is None
