"""Two whole Trivets on one server: in two databases of it they never hear each other, in one the second is refused."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from agent.models.demo import SIGNATURE
from channels.emulators.stage import EventKind, StageEvent
from gateway.bus.embedded import EmbeddedValkey
from gateway.process import EXIT_CONFIG
from tests.parts.product import Product, running_product
from tests.parts.waiting import PATIENCE_S, until

STORY = "once upon a time there was an answer that nobody else was to read, " * 4
pytestmark = [pytest.mark.long, pytest.mark.timeout(180)]


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[EmbeddedValkey]:
    """A Valkey that belongs to neither."""
    valkey = EmbeddedValkey(tmp_path)
    await valkey.start()
    yield valkey
    await valkey.stop()


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """Where each of them lives."""
    made = tmp_path / "a", tmp_path / "b"
    for folder in made:
        folder.mkdir()
    return made


@contextlib.asynccontextmanager
async def trivet(server: EmbeddedValkey, folder: Path, *, database: int, waits: bool = True) -> AsyncIterator[Product]:
    """One of them, with a database of its own in SQL."""
    settings = {"TRIVET_REDIS__URL": f"{server.url}?db={database}"}
    async with running_product(folder, settings=settings, platforms=("telegram",), waits=waits) as product:
        yield product


async def test_they_never_hear_each_other(server: EmbeddedValkey, folders: tuple[Path, Path]) -> None:
    """Ann has the same ids at both, so that whatever one of them overheard, it would show or stop."""
    async with trivet(server, folders[0], database=0) as one, trivet(server, folders[1], database=1) as other:
        ann, twin = one.chat("telegram", "Ann"), other.chat("telegram", "Ann")
        assert (ann.person.id, ann.place.id) == (twin.person.id, twin.place.id)
        shown_here: list[StageEvent] = []
        shown_there: list[StageEvent] = []

        async def watch(product: Product, events: list[StageEvent]) -> None:
            async for event in product.stages["telegram"].events():
                events.append(event)  # noqa: PERF401 - the list is read while it grows

        watching = [asyncio.create_task(watch(one, shown_here)), asyncio.create_task(watch(other, shown_there))]
        await ann.say(f"slow 6 say {STORY}")
        await until(lambda: EventKind.DRAFT in kinds(shown_here), lambda: f"a draft in {kinds(shown_here)}")
        assert kinds(shown_there) == []
        assert "nothing to stop" in await twin.ask("/stop")
        await ann.until_answered(SIGNATURE.strip("_"))
        assert STORY.strip() in ann.heard
        for task in watching:
            task.cancel()
        assert EventKind.DRAFT not in kinds(shown_there)
        assert len(twin.answers) == 1
        mine, theirs = installation_in(server, 0), installation_in(server, 1)
        assert mine != theirs
        with Redis.from_url(server.url, decode_responses=True) as client:
            assert {name.partition(":")[0] for name in client.pubsub_channels()} == {mine, theirs}
            groups = [row["name"] for stream in streams(client) for row in client.xinfo_groups(stream)]
            holders = [client.get(name) for name in client.scan_iter("{q0}:hold:*")]
            workers = client.zrange("{q0}:wk", 0, -1)
        assert min(len(groups), len(holders), len(workers)) > 0
        assert {name.partition(":")[0] for name in (*groups, *holders, *workers)} == {mine}


def streams(client: Any) -> list[str]:
    """The streams of one database."""
    return [key for key in client.scan_iter() if client.type(key) == "stream" and key != "{q0}:dlq"]


def kinds(events: Sequence[StageEvent]) -> list[EventKind]:
    """What a platform showed, in order."""
    return [event.kind for event in events]


def installation_in(server: EmbeddedValkey, database: int) -> str:
    """Whose a database of the server is, as it says itself."""
    with Redis.from_url(f"{server.url}?db={database}", decode_responses=True) as client:
        return str(client.hget("{q0}:meta", "installation"))


async def test_the_second_in_a_database_is_refused(server: EmbeddedValkey, folders: tuple[Path, Path]) -> None:
    """Before any of its roles has begun: nothing that is said to it reaches the first."""
    async with (
        trivet(server, folders[0], database=0) as one,
        trivet(server, folders[1], database=0, waits=False) as other,
    ):
        assert other.process is not None
        assert await asyncio.wait_for(other.process.wait(), PATIENCE_S) == EXIT_CONFIG
        assert f"belongs to the installation {installation_in(server, 0)}" in other.log
        assert "role started" not in other.log
        assert "hello" in await one.chat("telegram", "Ann").ask("say hello")
