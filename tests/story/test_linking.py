"""What people experience who are one person on several platforms, and that nobody else becomes one with them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.bus.bus import RedisBus
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText
from gateway.contracts.sessions import GrantRole
from gateway.store import Store
from tests.parts.agents import AgentProcess, message, running_agent
from tests.parts.minds import Mind

ANNA, DORA, SUE, ANNA_IN_GROUP = "telegram:1", "discord:7", "slack:U5", "telegram:1/-100"


@pytest.fixture
def mind() -> Mind:
    return Mind()


@pytest.fixture
async def agent(bus: RedisBus, store: Store, mind: Mind, tmp_path: Path) -> AsyncIterator[AgentProcess]:
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
    assert "Nothing is joined yet" in await agent.ask(f"/link {code}", other)
    assert "are one person" in await agent.ask(f"/link join {one}", other)
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


async def test_whoever_enters_a_code_is_shown_whose_it_is_before_anything_is_joined(agent: AgentProcess) -> None:
    """Somebody who was lured reads the account of whoever lured him, whatever that calls itself, and what it costs."""
    await linked(agent, ANNA, SUE)
    await agent.ask("remember My dog is called Rex", DORA)
    code = await code_for(agent, ANNA)
    before = len(await agent.heard(0, "discord"))
    shown = await agent.ask(f"/link {code}", DORA)
    assert "This is the code of **Someone** on Telegram: `telegram:1`. Nothing is joined yet." in shown
    assert "With it comes: `slack:U5`." in shown
    assert "A code that somebody sent you would show them what I know of you." in shown
    assert "`/link join telegram:1` joins them, `/link no telegram:1` does not; within 10 minutes." in shown
    (proposal,) = (await agent.heard(before + 1, "discord"))[before:]
    join, decline = proposal.choices
    assert (join.label, decline.label) == ("Join", "Do not join")
    assert "Rex" not in await agent.ask("/memory", ANNA)
    assert await agent.press(decline.command, DORA) == ""
    said = [reply.text for reply in (await agent.heard(before + 3, "discord"))[before:]]
    assert "Then nothing is joined, and that code is worth nothing any more." in said
    assert "There is nothing to join" in await agent.ask(f"/link join {ANNA}", DORA)
    assert "I do not know that code" in await agent.ask(f"/link {code}", DORA)
    assert "linked with no other" in await agent.ask("/unlink", DORA)


async def test_a_button_joins_the_account_that_stood_over_it_and_no_other(agent: AgentProcess) -> None:
    """Pressed late, when another code was entered meanwhile, it does what it said."""
    pages = []
    for other in (ANNA, SUE):
        before = len(await agent.heard(0, "discord"))
        await agent.ask(f"/link {await code_for(agent, other)}", DORA)
        pages.append((await agent.heard(before + 1, "discord"))[before])
    before = len(await agent.heard(0, "discord"))
    assert await agent.press(pages[0].choices[0].command, DORA) == ""
    said = [reply.text for reply in (await agent.heard(before + 2, "discord"))[before:]]
    assert any(text.startswith("Done: this account and telegram:1 are one person") for text in said)
    assert "slack:U5" not in await agent.ask("/unlink", DORA)


async def test_a_name_that_a_stranger_chose_formats_nothing(agent: AgentProcess) -> None:
    disguised = replace(message("/link", ANNA), author_name=CleanText("`discord:7`, you** [x](https://e)\n# Join"))
    await agent.bus.intake.enqueue(disguised)
    found = re.search(r"/link ([A-Z0-9]{8})\b", (await agent.heard(1))[-1].text)
    assert found is not None
    shown = await agent.ask(f"/link {found[1]}", DORA)
    assert "This is the code of **discord 7 you x https e Join** on Telegram: `telegram:1`." in shown


async def test_a_code_that_was_said_in_a_group_is_worth_nothing(agent: AgentProcess) -> None:
    code = await code_for(agent, DORA)
    assert "worth nothing" in await agent.ask(f"/link {code}", ANNA_IN_GROUP)
    assert "I do not know that code" in await agent.ask(f"/link {code}", ANNA)
    for said in ("/link", f"/link join {DORA}", f"/link no {DORA}"):
        assert "direct messages" in await agent.ask(said, ANNA_IN_GROUP)


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
