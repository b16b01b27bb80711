"""The bytes of files: wished for by a channel, lent by an agent process, gone by themselves."""

from __future__ import annotations

import asyncio
from typing import Any

from gateway.bus.bus import RedisBus
from gateway.contracts.ports import WantedFile
from gateway.limits import LENT_TTL_S
from tests.parts.bus_samples import ANNA

WANTED = WantedFile(ANNA, "turn:1", 0)


async def test_what_is_wished_for_is_lent_byte_for_byte(bus: RedisBus) -> None:
    """To whoever waits, as soon as it is there."""
    content = bytes(range(256)) * 4_000
    async with asyncio.TaskGroup() as group:
        borrowing = group.create_task(bus.files.fetch_file(WANTED, wait_s=5))
        wanted = await bus.files.wanted_file(wait_s=5)
        assert wanted == WANTED
        await bus.files.put_file(wanted, content)
    assert borrowing.result() == content


async def test_a_wish_is_heard_by_one_and_forgotten_by_nobody(bus: RedisBus) -> None:
    """An agent process that died with the wish in its hand costs one more wish."""
    assert await bus.files.fetch_file(WANTED, wait_s=0) is None
    assert await bus.files.fetch_file(WANTED, wait_s=0) is None
    assert await bus.files.wanted_file(wait_s=0) == WANTED
    assert await bus.files.wanted_file(wait_s=0) is None
    assert await bus.files.fetch_file(WANTED, wait_s=0) is None
    assert await bus.files.wanted_file(wait_s=0) == WANTED


async def test_what_nobody_keeps_is_answered_too(bus: RedisBus) -> None:
    """Otherwise its reader would wait for ever."""
    await bus.files.put_file(WANTED, b"")
    assert await bus.files.fetch_file(WANTED, wait_s=5) == b""


async def test_what_nobody_fetches_ends_by_itself(bus: RedisBus, bus_servers: Any) -> None:
    await bus.files.put_file(WANTED, b"abc")
    await bus.files.put_file(WANTED, b"abc")
    found = {key: server for server in bus_servers.clients for key in server.scan_iter("*lent*")}
    assert len(found) == 1
    ((key, server),) = found.items()
    assert server.llen(key) == 1
    assert 0 < server.ttl(key) <= LENT_TTL_S
