"""What one process found is a secret for all of them: channels that start anew, agents, tools. On a real bus.

The value has no looks to be told by: whoever was not told of it lets it pass.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from channels.core.adapter import IntakeOutcome
from channels.core.intake import IntakeConfig, IntakeDeps, MessageIntake
from gateway.bus.bus import RedisBus
from gateway.clock import SystemClock
from gateway.config.tools import ToolSettings
from gateway.contracts.access import AccessPolicy, Projection, StrangerRule
from gateway.contracts.commands import find_command
from gateway.contracts.ids import WORKSPACES, SessionKey, SessionScope, folder_name
from gateway.contracts.sessions import Role
from gateway.scrub import Scrubber
from gateway.store import Store
from tests.canary.nests import rows
from tests.parts.agents import AgentProcess, running_agent
from tests.parts.incoming import private_message
from tests.parts.minds import Mind
from tests.parts.operator_api import app_of, client_of

ANN = SessionKey.parse("telegram:7")
VALUE, OTHER = "Trick#07x!z", "Plum;42qq-w"
ANNOUNCED = f"my password is {VALUE} ok"
_numbers = count(1)
FILES = {
    "notes.txt": f"on the blue note stood {VALUE} in pencil",
    "env.txt": f"DB_PASSWORD={OTHER}",
    "other.txt": f"on the red note stood {OTHER} in pencil",
}


def process_scrubber() -> Scrubber:
    """The scrubber of one more process of the installation."""
    return Scrubber(placeholder_key=b"installation")


class Channels:
    """A channels process that has just started."""

    def __init__(self, bus: RedisBus) -> None:
        deps = IntakeDeps.of(bus, process_scrubber(), SystemClock())
        self._intake = MessageIntake(deps, IntakeConfig(AccessPolicy(StrangerRule.OPEN), SessionScope.PLACE))
        self._newest = 0

    async def hear(self, text: str, *, edits: bool = False) -> IntakeOutcome:
        """Take in what Ann says on Telegram, or in what she changes what she said last."""
        self._newest = self._newest if edits else next(_numbers)
        said = replace(private_message(text), id=f"telegram:1:7:{self._newest}", command=find_command(text))
        return await self._intake.accept(replace(said, edited_at_ms=1 if edits else None))


@pytest.fixture
async def open_door(bus: RedisBus) -> None:
    await bus.access.project(Projection())


@pytest.fixture
def mind() -> Mind:
    return Mind()


@pytest.fixture(autouse=True)
def files(tmp_path: Path) -> None:
    """Ann's workspace."""
    folder = tmp_path / WORKSPACES / folder_name(ANN) / "files"
    folder.mkdir(parents=True)
    for name, text in FILES.items():
        (folder / name).write_text(text)


def reading(name: str) -> str:
    """The words that have the demo model read a file."""
    return f"tool file_read {json.dumps({'path': name})}"


def agent_process(
    bus: RedisBus, store: Store, mind: Mind, tmp_path: Path, *, is_steered: bool = False
) -> AbstractAsyncContextManager[AgentProcess]:
    tools = ToolSettings(policy=("allow file_read",))
    return running_agent(
        bus, store, mind, tmp_path, scrubber=process_scrubber(), tools=tools, is_steered=is_steered, admins=(ANN,)
    )


@pytest.fixture
async def agent(
    open_door: None, bus: RedisBus, sqlite_store: Store, mind: Mind, tmp_path: Path
) -> AsyncIterator[AgentProcess]:
    async with agent_process(bus, sqlite_store, mind, tmp_path) as process:
        yield process


def asked(mind: Mind) -> str:
    """Everything that models were asked."""
    return "\n".join(message.text for request in mind.made for message in request.messages)


def results(mind: Mind) -> list[str]:
    """The results of tools in the newest prompt of a turn."""
    return [message.text for message in mind.asked[-1].messages if message.role is Role.TOOL]


def test_nobody_tells_the_values_by_their_looks() -> None:
    for value in (VALUE, OTHER):
        assert value in process_scrubber().scrub(f"on the blue note stood {value} in pencil")


async def test_channels_that_start_anew_know_what_those_before_them_found(
    open_door: None, bus: RedisBus, raw_redis: Any
) -> None:
    await Channels(bus).hear(ANNOUNCED)
    after = Channels(bus)
    assert await after.hear(f"it was {VALUE} again") is IntakeOutcome.QUEUED
    assert await after.hear("once more: " + VALUE.encode().hex()) is IntakeOutcome.QUEUED
    await bus.lanes.register("w1", lease_ttl_s=60)
    (claim,) = (await bus.lanes.claim("w1", lanes_max=1, messages_max=9, attempts_max=3)).claims
    first, second, third = (message.text for message in claim.messages)
    assert second.removeprefix("it was ").removesuffix(" again") in first
    assert VALUE.encode().hex() not in third
    on_the_bus = "\n".join(rows(raw_redis))
    assert first in on_the_bus
    assert not any(form in on_the_bus for form in (VALUE, VALUE.encode().hex(), sha256(VALUE.encode()).hexdigest()))


async def test_an_edit_tells_of_it_as_well(open_door: None, bus: RedisBus) -> None:
    before, after = Channels(bus), Channels(bus)
    await before.hear("wait a moment")
    assert await before.hear(ANNOUNCED, edits=True) is IntakeOutcome.AMENDED
    await after.hear(f"it was {VALUE} again")
    await bus.lanes.register("w1", lease_ttl_s=60)
    (claim,) = (await bus.lanes.claim("w1", lanes_max=1, messages_max=9, attempts_max=3)).claims
    assert not any(VALUE in message.text for message in claim.messages)


async def test_a_tool_that_prints_what_a_person_has_said_shows_it_to_no_model(agent: AgentProcess, mind: Mind) -> None:
    channels = Channels(agent.bus)
    await channels.hear(ANNOUNCED)
    await agent.heard(1)
    await channels.hear(reading("notes.txt"))
    await agent.heard(2)
    (result,) = results(mind)
    assert "on the blue note stood [redacted:" in result
    assert VALUE not in asked(mind)
    assert not any(VALUE in text for text in await agent.transcript(str(ANN)))


async def test_without_the_persons_word_the_file_is_read_as_it_is(agent: AgentProcess, mind: Mind) -> None:
    await Channels(agent.bus).hear(reading("notes.txt"))
    await agent.heard(1)
    assert VALUE in results(mind)[0]


async def test_words_that_come_while_a_turn_runs_count_for_the_rest_of_it(agent: AgentProcess, mind: Mind) -> None:
    """They wait for a turn of their own; what is secret in them is so at once."""
    channels, gate = Channels(agent.bus), mind.hold()
    await channels.hear(reading("notes.txt"))
    await mind.until_asked(1)
    await channels.hear(ANNOUNCED)
    gate.set()
    await agent.heard(2)
    assert VALUE not in asked(mind)


async def test_what_a_tool_found_is_gone_from_what_a_person_says_later(agent: AgentProcess, mind: Mind) -> None:
    """The channels have asked before, and ask only once: the agent takes it out."""
    channels = Channels(agent.bus)
    await channels.hear("hello")
    await agent.heard(1)
    await channels.hear(reading("env.txt"))
    await agent.heard(2)
    await channels.hear(f"is {OTHER} the one?")
    await agent.heard(3)
    assert OTHER not in asked(mind)
    assert not any(OTHER in text for text in await agent.transcript(str(ANN)))


async def test_the_next_agent_process_knows_what_a_tool_of_the_last_one_found(
    open_door: None, bus: RedisBus, sqlite_store: Store, tmp_path: Path, mind: Mind
) -> None:
    channels = Channels(bus)
    async with agent_process(bus, sqlite_store, Mind(), tmp_path) as first:
        await channels.hear("hello")
        await first.heard(1)
        await channels.hear(reading("env.txt"))
        await first.heard(2)
    await channels.hear(f"is {OTHER} the one?")
    async with agent_process(bus, sqlite_store, mind, tmp_path) as second:
        await second.heard(1)
        await channels.hear(reading("other.txt"))
        await second.heard(2)
        assert not any(OTHER in text for text in await second.transcript(str(ANN)))
    assert "stood [redacted:" in results(mind)[-1]
    assert OTHER not in asked(mind)


async def test_what_joins_a_turn_is_cleaned_like_what_began_it(
    open_door: None, bus: RedisBus, sqlite_store: Store, tmp_path: Path, mind: Mind
) -> None:
    channels = Channels(bus)
    async with agent_process(bus, sqlite_store, mind, tmp_path, is_steered=True) as agent:
        await channels.hear("hello")  # they ask about the lane now, and of what comes later never
        await agent.heard(1)
        await channels.hear(reading("env.txt"))
        await agent.heard(2)
        before, gate = len(mind.asked), mind.hold()
        await channels.hear(reading("env.txt"))
        await mind.until_asked(before + 1)
        await channels.hear(f"is {OTHER} the one?")
        gate.set()
        await agent.heard(3)
    assert "the one?" in mind.heard()[-1]
    assert OTHER not in asked(mind)


async def test_a_sub_agent_hands_nothing_back_that_its_parent_knows(agent: AgentProcess, mind: Mind) -> None:
    channels = Channels(agent.bus)
    await channels.hear(ANNOUNCED)
    await agent.heard(1)
    await channels.hear(f"tool sub_agent {json.dumps({'type': 'explore', 'task': reading('notes.txt')})}")
    await agent.heard(2)
    assert "on the blue note stood [redacted:" in asked(mind)
    assert VALUE not in asked(mind)


async def test_each_is_written_once(agent: AgentProcess) -> None:
    """What comes after it brings nothing, in either process."""
    channels = Channels(agent.bus)
    for number, said in enumerate((ANNOUNCED, reading("env.txt"))):
        await channels.hear(said)
        await agent.heard(2 * number + 1)
        assert await agent.bus.intake.met(ANN)
        await agent.bus.lanes.forget_met(ANN)
        await channels.hear("thanks")
        await agent.heard(2 * number + 2)
        assert await agent.bus.intake.met(ANN) == []


async def test_who_is_erased_leaves_no_hash(open_door: None, bus: RedisBus, sqlite_store: Store) -> None:
    await Channels(bus).hear(ANNOUNCED)
    assert await bus.intake.met(ANN)
    async with client_of(app_of(sqlite_store, bus)) as operator:
        assert (await operator.delete(f"/api/v1/users/{ANN}")).status_code == 200
    assert await bus.intake.met(ANN) == []
