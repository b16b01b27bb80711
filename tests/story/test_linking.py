"""What people experience who are one person on several platforms, and that nobody else becomes one with them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.bus.bus import RedisBus
from gateway.contracts.entries import GrantRole
from gateway.contracts.ids import SessionKey
from gateway.store.store import SqlStore
from tests.parts.agents import AgentProcess, running_agent
from tests.parts.minds import Mind

ANNA, DORA, SUE, ANNA_IN_GROUP = "telegram:1", "discord:7", "slack:U5", "telegram:1/-100"


@pytest.fixture
def mind() -> Mind:
    return Mind()


@pytest.fixture
async def agent(bus: RedisBus, store: SqlStore, mind: Mind, tmp_path: Path) -> AsyncIterator[AgentProcess]:
    async with running_agent(bus, store, mind, tmp_path, admins=(SessionKey.parse(ANNA),)) as process:
        yield process


def told(mind: Mind) -> str:
    """The newest user message of the newest prompt, with all that the gateway put in front of it."""
    return mind.asked[-1].messages[-1].text


async def code_for(agent: AgentProcess, key: str) -> str:
    found = re.search(r"/link ([A-Z0-9]{8})\b", await agent.ask("/link", key))
    assert found is not None
    return found[1]


async def linked(agent: AgentProcess, one: str, other: str) -> str:
    """Make two accounts one person; the notice to the first, which has been delivered."""
    code, channel = await code_for(agent, one), SessionKey.parse(one).platform
    before = len(await agent.heard(0, channel))
    assert "are one person" in await agent.ask(f"/link {code}", other)
    notice = (await agent.heard(before + 1, channel))[-1]
    assert notice.id.startswith("notice:linked:")
    assert str(notice.key) == one
    return notice.text


async def test_what_is_said_on_one_platform_is_known_on_the_others_until_they_part(
    agent: AgentProcess, mind: Mind
) -> None:
    await agent.ask("remember My dog is called Rex", ANNA)
    await linked(agent, ANNA, DORA)
    assert "discord:7" in await agent.ask("/unlink", ANNA)
    await agent.ask("what does my dog eat", DORA)
    assert "My dog is called Rex" in told(mind)
    await agent.ask("what does my dog eat", SUE)
    assert "Rex" not in told(mind)
    await agent.ask("/unlink telegram", DORA)
    await agent.ask("/new", DORA)
    assert "Rex" not in await agent.ask("/memory", DORA)
    assert "Rex" in await agent.ask("/memory", ANNA)


async def test_whoever_asked_for_the_code_is_told_who_used_it(agent: AgentProcess) -> None:
    notice = await linked(agent, ANNA, DORA)
    assert DORA in notice
    assert "/unlink all" in notice


async def test_a_code_that_was_said_in_a_group_is_worth_nothing(agent: AgentProcess) -> None:
    code = await code_for(agent, DORA)
    assert "worth nothing" in await agent.ask(f"/link {code}", ANNA_IN_GROUP)
    assert "I do not know that code" in await agent.ask(f"/link {code}", ANNA)
    assert "direct messages" in await agent.ask("/link", ANNA_IN_GROUP)


async def test_group_talk_stays_in_its_group(agent: AgentProcess, mind: Mind) -> None:
    await agent.ask("remember The canary sings at noon", ANNA_IN_GROUP)
    await linked(agent, ANNA, DORA)
    await agent.ask("when does the canary sing", DORA)
    assert "noon" not in told(mind)
    assert "noon" not in await agent.ask("/memory", DORA)
    assert "noon" in await agent.ask("/memory", ANNA)


async def test_a_block_of_one_account_blocks_the_person(agent: AgentProcess, bus: RedisBus) -> None:
    await linked(agent, DORA, SUE)
    await agent.ask(f"/block {DORA}", ANNA)
    for key in (DORA, SUE):
        assert (await bus.access.view(SessionKey.parse(key))).granted == GrantRole.BLOCKED.value
    assert await agent.ask(f"/unblock {SUE}", ANNA) == (
        f"Nothing was decided about {SUE}. The same person is blocked as {DORA}, and that holds for both."
    )
    assert await agent.ask(f"/unblock {SUE}", ANNA_IN_GROUP) == (
        f"Nothing was decided about {SUE}. A linked account is blocked, and that holds for both: "
        "ask me in a direct message which."
    )
    assert await agent.ask(f"/unblock {DORA}", ANNA) == f"Nothing is decided about {DORA} any more."
    assert (await bus.access.view(SessionKey.parse(SUE))).granted is None
