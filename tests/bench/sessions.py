"""A hundred thousand sessions with one message each: how fast they come and go, and what each of them takes."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from redis.asyncio import Redis

from gateway.bus.embedded import EmbeddedValkey
from gateway.bus.keys import ShardKeys
from gateway.contracts.envelope import encode
from gateway.contracts.ids import SessionKey
from tests.bench.chats import QUESTION
from tests.bench.contest.ours import message, open_ours
from tests.bench.contest.race import Tally, drain, fill, timed
from tests.bench.crew import open_crew
from tests.bench.databases import DATABASES
from tests.bench.figures import Figure, Findings
from tests.bench.sizes import Size

ARRIVAL_BYTES: Final = 13
"""The time in front of each envelope in a mailbox: part of the message, as we count."""
FURTHER: Final = 10
"""One session in so many gets a second message."""
AT_ONCE: Final = 64
_SETTLE_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class Held:
    """What the server holds: everything but buffers, the dedupe ids in it, and the number of keys."""

    used: int
    dedupe: int
    keys: int

    @property
    def rest(self) -> int:
        """Everything but the ids, which outlive their messages by a day."""
        return self.used - self.dedupe


async def sessions(size: Size) -> Findings:
    """On the bus, then in each database."""
    stored = [await _stored_bytes(kind, size.stored_sessions) for kind in DATABASES]
    note = f"of {size.stored_sessions:,}, one question and one answer each, with everything we keep"
    figures = [
        Figure(f"SQL per session, {kind}", bytes_each, "B", note=note)
        for kind, bytes_each in zip(DATABASES, stored, strict=True)
    ]
    return Findings((*await _on_the_bus(size.sessions), *figures))


async def _on_the_bus(count: int) -> tuple[Figure, ...]:
    further = count // FURTHER
    async with _server() as url, Redis.from_url(url) as redis, open_ours(url) as ours:
        await fill(ours, range(2 * count, 2 * count + AT_ONCE), count)  # scripts and connections come with it
        await drain(ours, Tally(AT_ONCE))
        empty = await _held(redis)
        filled_s = await timed(fill(ours, range(count), count))
        filled = await _held(redis)
        await fill(ours, range(count, count + further), count)
        fuller = await _held(redis)
        drained_s = await timed(drain(ours, Tally(count + further)))
        await redis.delete(*await _seen(redis))  # measured by itself, and only nearly: nothing shall be left of it
        await asyncio.sleep(_SETTLE_S)  # the server gives the room of its table of keys back by and by
        idle = await _held(redis)
    session_bytes = (filled.rest - empty.rest - _payload(range(count), count)) / count
    further_bytes = (fuller.rest - filled.rest - _payload(range(count, count + further), count)) / further
    idle_bytes = max(idle.rest - empty.rest, 0) / count
    left = f"{idle.keys - empty.keys} keys more than before, {idle.rest - empty.rest:,} B in all"
    return (
        Figure(f"enqueue, {count:,} sessions", count / filled_s, "/s"),
        Figure(f"drain, {count:,} sessions", (count + further) / drained_s, "/s"),
        Figure("memory per idle session", idle_bytes, "B", aim="idle-session", note=left),
        Figure("overhead per queued session", session_bytes, "B", aim="session"),
        Figure("overhead per further message", further_bytes, "B", aim="further"),
        Figure("memory per dedupe id", fuller.dedupe / (count + further), "B", aim="dedupe"),
    )


def _payload(numbers: range, keys: int) -> int:
    """The bytes of the messages themselves."""
    return sum(ARRIVAL_BYTES + len(encode(message(number % keys, number))) for number in numbers)


async def _held(redis: Redis) -> Held:
    memory: dict[str, Any] = await redis.info("memory")
    dedupe = sum([int(await redis.memory_usage(key, samples=0) or 0) for key in await _seen(redis)])
    used = memory["used_memory"] - memory["mem_clients_normal"] - memory["mem_aof_buffer"]
    return Held(used, dedupe, await redis.dbsize())


async def _seen(redis: Redis) -> list[bytes]:
    """The sets of dedupe ids."""
    return [key async for key in redis.scan_iter(f"{ShardKeys(0).seen('')}*")]


async def _stored_bytes(kind: str, count: int) -> float:
    """What the database grows by for each session."""
    async with open_crew(kind, model="demo/scripted") as crew:
        before = await crew.database.size_bytes()
        await crew.hire(1)
        free = asyncio.Semaphore(AT_ONCE)

        async def talk(number: int) -> None:
            async with free:
                await crew.desk.ask(SessionKey("telegram", str(number)), QUESTION.format(number=number))

        await asyncio.gather(*map(talk, range(count)))
        await asyncio.sleep(_SETTLE_S)  # titles and receipts come after the answer
        await crew.dismiss()
        return (await crew.database.size_bytes() - before) / count


@asynccontextmanager
async def _server() -> AsyncIterator[str]:
    with tempfile.TemporaryDirectory(prefix="trivet-bench-", ignore_cleanup_errors=True) as folder:
        server = EmbeddedValkey(Path(folder))
        try:
            yield await server.start()
        finally:
            await server.stop()
