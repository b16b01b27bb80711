"""What only an admin may approve, for people who are none. On a real bus and a real database."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path

from agent.models.demo import ScriptedClient
from gateway.bus.bus import RedisBus
from gateway.config.tools import ToolSettings
from gateway.contracts.ids import WORKSPACES, SessionKey, folder_name
from gateway.contracts.messages import Reply, ReplyKind
from gateway.contracts.sessions import GrantRole
from gateway.store import Store
from tests.parts.agents import AgentProcess, running_agent
from tests.parts.keepers import keeper_of

ADA, EVE, GUS = (SessionKey.parse(f"telegram:{number}") for number in (1, 2, 3))
WRITE = 'tool file_write {"path": "note.txt", "content": "hello"}'
NOT_YOURS = "Only the person I asked, or an admin, can answer this."


def agent_with(
    bus: RedisBus, store: Store, tmp_path: Path, *policy: str, approval_ttl_s: int = 900
) -> AbstractAsyncContextManager[AgentProcess]:
    """Ada is an admin by configuration, Gus a guest."""
    tools = ToolSettings(policy=policy or ("ask write",), approval_ttl_s=approval_ttl_s)
    return running_agent(bus, store, ScriptedClient(), tmp_path, admins=(ADA,), tools=tools)


def note(tmp_path: Path) -> Path:
    return tmp_path / WORKSPACES / folder_name(GUS) / "files" / "note.txt"


def of(agent: AgentProcess, key: SessionKey) -> list[Reply]:
    return [reply for reply in agent.replies if reply.key == key]


async def test_an_admin_is_asked_in_private_and_nobody_approves_himself(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> None:
    async with agent_with(bus, sqlite_store, tmp_path) as agent:
        await agent.ask("hello", str(ADA))
        await agent.say(WRITE, str(GUS))
        question = await agent.question()
        assert (question.key, question.address) == (ADA, of(agent, ADA)[0].address)
        assert question.text.startswith("`telegram:3` asks for something that an admin has to approve.")
        assert "note.txt" in question.text
        (told,) = of(agent, GUS)
        assert (told.kind, told.choices) == (ReplyKind.NOTICE, ())
        assert told.text.startswith("This needs the approval of an admin, and I have asked for it.")
        approve, *_ = question.choices
        assert await agent.press(approve.command, str(GUS)) == NOT_YOURS
        assert not note(tmp_path).exists()
        assert await agent.press(approve.command, str(ADA)) == ""
        await agent.heard(6)
        assert note(tmp_path).read_text() == "hello"
        ends = {reply.amends: reply.text for reply in agent.replies if reply.amends}
        assert ends.keys() == {question.id, told.id}
        assert all(text.endswith("**Approved** by Someone.") for text in ends.values())


async def test_every_admin_is_asked_and_one_denies_for_all(bus: RedisBus, sqlite_store: Store, tmp_path: Path) -> None:
    """Also one who was made an admin; who is none any more is not asked, and not heard."""
    keeper = keeper_of(sqlite_store, bus)
    await keeper.grant(EVE, GrantRole.ADMIN, actor="admin")
    async with agent_with(bus, sqlite_store, tmp_path) as agent:
        await agent.ask("hello", str(ADA))
        await agent.ask("hello", str(EVE))
        await agent.say(WRITE, str(GUS))
        questions = [await agent.question(1), await agent.question(2)]
        assert {question.key for question in questions} == {ADA, EVE}
        (deny,) = {question.choices[1].command for question in questions}
        await keeper.grant(EVE, GrantRole.MEMBER, actor="admin")
        assert await agent.press(deny, str(EVE)) == NOT_YOURS
        assert await agent.press(deny, str(ADA)) == ""
        await agent.heard(9)
        assert "not approved" in of(agent, GUS)[-1].text
        assert {reply.key for reply in agent.replies if reply.amends} == {ADA, EVE, GUS}
        assert not note(tmp_path).exists()


async def test_where_no_admin_can_be_asked_it_is_not_done(bus: RedisBus, sqlite_store: Store, tmp_path: Path) -> None:
    async with agent_with(bus, sqlite_store, tmp_path) as agent:
        answer = await agent.ask(WRITE, str(GUS))
        assert "needs the approval of an admin, and none can be asked" in answer
        assert not note(tmp_path).exists()


async def test_an_admin_answers_for_himself_where_he_asked(bus: RedisBus, sqlite_store: Store, tmp_path: Path) -> None:
    async with agent_with(bus, sqlite_store, tmp_path) as agent:
        await agent.say(WRITE, str(ADA))
        question = await agent.question()
        assert question.key == ADA
        assert question.text.startswith("May I run `file_write`?")
        assert await agent.press(question.choices[0].command, str(ADA)) == ""
        await agent.heard(3)


async def test_with_ask_self_whoever_asked_may_approve(bus: RedisBus, sqlite_store: Store, tmp_path: Path) -> None:
    async with agent_with(bus, sqlite_store, tmp_path, "ask-self write") as agent:
        await agent.ask("hello", str(ADA))
        await agent.say(WRITE, str(GUS))
        question = await agent.question()
        assert question.key == GUS
        assert await agent.press(question.choices[0].command, str(EVE)) == NOT_YOURS
        assert await agent.press(question.choices[0].command, str(GUS)) == ""
        await agent.heard(4)
        assert note(tmp_path).read_text() == "hello"


async def test_a_question_that_no_admin_answers_is_a_no_for_everybody_who_saw_it(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> None:
    async with agent_with(bus, sqlite_store, tmp_path, approval_ttl_s=1) as agent:
        await agent.ask("hello", str(ADA))
        await agent.say(WRITE, str(GUS))
        replies = await agent.heard(6)
        ends = [reply for reply in replies if reply.amends]
        assert {reply.key for reply in ends} == {ADA, GUS}
        assert all("Nobody answered in time" in reply.text for reply in ends)
        assert "in time" in of(agent, GUS)[-1].text
