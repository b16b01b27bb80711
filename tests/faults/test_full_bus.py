"""A full embedded server takes in nothing new, and what it has is answered: nothing is lost, nothing comes twice."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from redis.asyncio import Redis
from redis.exceptions import OutOfMemoryError
from structlog.testing import capture_logs

from channels.emulators.stage import Person, Place
from gateway.bus.bus import RedisBus, open_bus
from gateway.bus.embedded import EmbeddedValkey
from gateway.contracts.access import Projection
from gateway.contracts.errors import BusUnavailable
from gateway.contracts.messages import DeliveryRecord, DeliveryState
from gateway.contracts.ports import Cancel, CancelKind, Verdict
from gateway.store import Store
from tests.parts.agents import message as message_of_a_person
from tests.parts.agents import running_agent
from tests.parts.answering import EchoAgent
from tests.parts.bus_samples import ANNA, BORIS, control, message, receipt, reply
from tests.parts.claiming import claim_now
from tests.parts.databases import INSTALLATION
from tests.parts.leases import beat
from tests.parts.minds import Mind
from tests.parts.postmen import delivering, with_files
from tests.parts.towns import Town, town
from tests.parts.waiting import until

__all__ = ["town"]

MEMORY_MB = 6
BALLAST = "{q0}:ballast"


@dataclass(frozen=True)
class Small:
    """A server with little memory, a bus on it, and what fills it."""

    bus: RedisBus
    raw: Redis

    async def fill(self) -> None:
        """Take what there is, and some more, so that nothing small finds a gap: a server counts before a command."""
        await self.raw.setrange(BALLAST, MEMORY_MB * 1024**2, "x")
        with pytest.raises(OutOfMemoryError):
            await self.raw.set(f"{BALLAST}:more", b"x")

    async def make_room(self) -> None:
        await self.raw.delete(BALLAST)


@pytest.fixture
async def small(tmp_path: Path) -> AsyncIterator[Small]:
    server = EmbeddedValkey(tmp_path, memory_mb=MEMORY_MB)
    bus = await open_bus(await server.start(), installation=INSTALLATION)
    await bus.access.project(Projection())
    raw = Redis.from_url(server.url, protocol=2)
    yield Small(bus, raw)
    await raw.aclose()
    await bus.close()
    await server.stop()


async def test_nothing_is_evicted_and_the_bound_is_the_settings_own(small: Small) -> None:
    configured = await small.raw.config_get("maxmemory*")
    assert configured["maxmemory"] == str(MEMORY_MB * 1024**2)
    assert configured["maxmemory-policy"] == "noeviction"


async def test_a_full_bus_takes_nothing_and_what_it_has_is_answered_to_the_end(small: Small) -> None:
    """Every step from the claim to the receipt, a worker's life, and /stop."""
    bus, full = small.bus, pytest.raises(BusUnavailable, match=r"is full: .* raise redis\.memory_mb")
    lanes, deliveries = bus.lanes, bus.deliveries
    await lanes.register("w1", lease_ttl_s=60)
    for number in (1, 2):
        await bus.intake.enqueue(message(number))
    await bus.intake.enqueue(message(1, BORIS))
    await small.fill()
    with full:
        await bus.intake.enqueue(message(3))
    await lanes.register("w2", lease_ttl_s=60)
    assert await beat(lanes, "w2", lease_ttl_s=60) == ()
    batch = await lanes.claim("w2", lanes_max=2, messages_max=10, attempts_max=4)
    first, other = batch.claims
    assert (await bus.intake.request_control(control(1, BORIS))).verdict is Verdict.ACCEPTED
    assert await beat(lanes, "w2", lease_ttl_s=60) == (Cancel(str(BORIS), CancelKind.STOP),)
    assert await lanes.retry_later(other, delay_s=0, error="it was stopped")
    assert await lanes.commit(first, handled=1, replies=[reply(1)])
    assert await deliveries.hold("deliver:telegram", "c1", ttl_s=60)
    (pending,) = await deliveries.replies("telegram", "c1", count=10, wait_s=0)
    assert await deliveries.record("telegram", pending.entry_id, DeliveryRecord(reply(1).id, DeliveryState.SENDING))
    await deliveries.finish("telegram", pending.entry_id, receipt(reply(1)))
    ((entry, told),) = await deliveries.take_receipts("w2", count=10, wait_s=0)
    assert told.record.reply_id == reply(1).id
    await deliveries.finish_receipts([entry])
    with full:
        await bus.intake.enqueue(message(3))
    await small.make_room()
    assert (await bus.intake.enqueue(message(3))).verdict is Verdict.ACCEPTED
    assert (await bus.intake.enqueue(message(3))).verdict is Verdict.DUPLICATE
    (last,) = [each for each in await claim_now(bus) if each.key == ANNA]
    assert [each.id for each in last.messages] == [message(2).id, message(3).id]


def strangers(town: Town, *names: str) -> list[tuple[Person, Place]]:
    people = [town.stage.add_person(name) for name in names]
    return [(person, town.dm(person)) for person in people]


@pytest.mark.long_on("discord", "slack")
async def test_who_speaks_while_the_bus_is_full_is_answered_once_there_is_room(
    town: Town, small: Small, caplog: pytest.LogCaptureFixture
) -> None:
    """And is told nothing in between: nothing was lost, and nobody promised anything."""
    agent = EchoAgent(small.bus)
    async with agent.at_work(), town.line(small.bus):
        await town.stage.say(town.ann.id, town.dm(town.ann).id, "before")
        await town.until_answers(1)
        people = strangers(town, "Cleo", "Dan", "Eve")
        await small.fill()
        caplog.clear()
        for person, dm in people:
            await town.stage.say(person.id, dm.id, f"hello from {person.name}")
        await until(lambda: any("be read back" in line or "stay with Telegram" in line for line in caplog.messages))
        assert any("is full" in line for line in caplog.messages)
        assert not any(town.texts(dm) for _, dm in people)
        await small.make_room()
        for person, dm in people:
            await until(lambda dm=dm, person=person: town.texts(dm) == [f"echo: hello from {person.name}"])  # type: ignore[misc]
        await town.stays_silent(4)
        assert len(agent.heard) == 4


async def test_a_file_that_finds_no_room_on_the_way_is_waited_for(
    small: Small, sqlite_store: Store, tmp_path: Path
) -> None:
    """The model is shown the file, not that there was no room for it."""
    mind = Mind()
    async with running_agent(small.bus, sqlite_store, mind, tmp_path) as agent, delivering(small.bus) as postman:
        notes = postman.post("notes.txt", b"buy milk")
        done = mind.hold()
        await small.bus.intake.enqueue(message_of_a_person("first"))
        await mind.until_asked(1)
        await small.bus.intake.enqueue(with_files("and these?", notes))
        await small.fill()
        with capture_logs() as log:
            done.set()
            await until(lambda: [line["event"] for line in log].count("away.retry") > 1)
        await small.make_room()
        assert len(await agent.heard(2)) == 2
        assert "buy milk" in mind.asked[-1].messages[-1].text
    assert await small.bus.operator.dead_letters(limit=10) == []
