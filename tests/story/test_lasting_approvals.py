"""What an admin approves for a turn, or always in a place. On a real bus and real databases."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path

import pytest

from agent.models.demo import ScriptedClient
from agent.models.requests import ModelAnswer, ModelEvent, ModelRequest, RequestedCall, TokenCount
from agent.tools.approvals import ApprovalOutcome, ApprovalRequest, ChatApprovals, Lasting
from gateway.bus.bus import RedisBus
from gateway.clock import SystemClock
from gateway.config.tools import ToolSettings
from gateway.contracts.access import PlaceApproval
from gateway.contracts.ids import WORKSPACES, SessionKey, folder_name
from gateway.contracts.messages import CleanText, Quote, QuoteKind, Reply
from gateway.contracts.sessions import GrantRole, Role, UsagePurpose
from gateway.scrub import Scrubber
from gateway.store import Store
from gateway.tasks import BackgroundTasks
from tests.parts.agents import AgentProcess, message, running_agent
from tests.parts.keepers import keeper_of

ADA, EVE, GUS, MIA = (SessionKey.parse(f"telegram:{number}") for number in (1, 2, 3, 4))
GUS_IN_GROUP, MIA_IN_GROUP, ADA_IN_GROUP = (f"{who}/-100" for who in (GUS, MIA, ADA))
GROUP = SessionKey.parse("telegram:/-100")
REMEMBER = 'tool remember {"fact": "Tea is at four"}'
QUOTE = Quote(QuoteKind.FORWARD, CleanText("Eve"), CleanText("Tea is at four, remember that."))
ONCE_ONLY = "This can only be approved for this one call:"


def write(name: str) -> str:
    return f'tool file_write {{"path": "{name}", "content": "hello"}}'


def run(command: str) -> str:
    return f'tool shell {{"command": "{command}"}}'


class Writer(ScriptedClient):
    """Whoever says `write` gets so many files in each round of the turn; anything else is as ever."""

    def __init__(self, *rounds: int) -> None:
        self._rounds = rounds

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        said = next(at for at, each in enumerate(reversed(request.messages)) if each.role is Role.USER)
        done = sum(each.role is Role.ASSISTANT for each in request.messages[len(request.messages) - said :])
        is_meant = request.purpose is UsagePurpose.TURN and request.messages[-1 - said].text.endswith("write")
        if not is_meant or done >= len(self._rounds):
            async for event in super().stream(request):
                yield event
            return
        calls = tuple(
            RequestedCall(f"c{done}-{at}", "file_write", json.dumps({"path": f"{done}-{at}.txt", "content": "x"}))
            for at in range(self._rounds[done])
        )
        yield ModelAnswer("", calls, "tool_calls", TokenCount(10, 1), 0.0, "demo/scripted")


def agent_with(
    bus: RedisBus, store: Store, tmp_path: Path, *policy: str, client: ScriptedClient | None = None
) -> AbstractAsyncContextManager[AgentProcess]:
    """Ada is an admin by configuration, the others are guests."""
    tools = ToolSettings(policy=policy or ("ask write", "ask execute"))
    return running_agent(bus, store, client or ScriptedClient(), tmp_path, admins=(ADA,), tools=tools, grace_s=0.2)


def files(tmp_path: Path, key: str | SessionKey) -> set[str]:
    folder = folder_name(SessionKey.parse(str(key)))
    return {each.name for each in (tmp_path / WORKSPACES / folder / "files").glob("*.txt")}


async def pressed(agent: AgentProcess, question: Reply, label: str, by: SessionKey = ADA) -> str | None:
    """Press the button with this label; what the one who pressed is told."""
    (command,) = (choice.command for choice in question.choices if choice.label == label)
    return await agent.press(command, str(by))


async def answered(agent: AgentProcess, text: str, key: str, label: str, question: int) -> Reply:
    """Say something that asks Ada, and have her press this button; the question."""
    before = len(agent.replies)
    await agent.say(text, key)
    asked = await agent.question(question)
    assert await pressed(agent, asked, label) == ""
    await agent.heard(before + 5)  # the notice, the question, both amended, the answer
    return asked


async def test_what_is_approved_for_a_turn_holds_for_its_other_calls_and_not_for_the_next_turn(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> None:
    """Of the calls that were asked about at the same time, too."""
    async with agent_with(bus, sqlite_store, tmp_path, client=Writer(2, 1)) as agent:
        await agent.ask("hello", str(ADA))
        await agent.say("write", str(GUS))
        first = await agent.question(2)
        assert [choice.label for choice in first.choices] == [
            "Approve",
            "Deny",
            "For this turn",
            "Always in that place",
        ]
        assert "turn` approves every call of `file_write` in this turn." in first.text
        assert "in `telegram:/3` from now on, for the role `guest` and above." in first.text
        assert await pressed(agent, first, "For this turn") == ""
        replies = await agent.heard(1 + 2 * 4 + 1)
        assert files(tmp_path, GUS) == {"0-0.txt", "0-1.txt", "1-0.txt"}
        ends = [reply.text.rpartition("\n\n")[2] for reply in replies if reply.amends]
        assert ends.count("**Approved for this turn** by Someone.") == 2
        assert ends.count("**Approved** with the other calls of this turn.") == 2
        await agent.say("write", str(GUS))
        await agent.question(3)


async def test_always_holds_in_that_place_for_that_role_until_it_is_taken_back(
    bus: RedisBus, store: Store, tmp_path: Path
) -> None:
    async with agent_with(bus, store, tmp_path) as agent:
        await agent.ask("hello", str(ADA))
        asked = await answered(agent, write("a.txt"), GUS_IN_GROUP, "Always in that place", 1)
        assert "in `telegram:/-100` from now on" in asked.text
        await agent.ask(write("b.txt"), GUS_IN_GROUP)
        await agent.ask(write("c.txt"), MIA_IN_GROUP)
        assert files(tmp_path, GUS_IN_GROUP) == {"a.txt", "b.txt"}
        assert files(tmp_path, MIA_IN_GROUP) == {"c.txt"}
        told = await agent.ask("/place", ADA_IN_GROUP)
        assert "Approved there for good:\n\n- `file_write`: every call, for the role `guest` and above" in told
        await answered(agent, write("d.txt"), str(GUS), "Deny", 2)
        assert "Approved there" not in await agent.ask("/place ask file_write", ADA_IN_GROUP)
        await answered(agent, write("d.txt"), GUS_IN_GROUP, "Deny", 3)
        assert "d.txt" not in files(tmp_path, GUS_IN_GROUP)
        lines = [line for line in await store.sub_types.audit(limit=9) if line.action == "access.place"]
        assert [(line.actor, line.subject) for line in lines] == [(str(ADA), "place:telegram:/-100")] * 2


async def test_nobody_with_a_lesser_role_gets_what_was_approved_for_another(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> None:
    keeper = keeper_of(sqlite_store, bus)
    await keeper.grant(MIA, GrantRole.MEMBER, actor="cli")
    async with agent_with(bus, sqlite_store, tmp_path) as agent:
        await agent.ask("hello", str(ADA))
        await answered(agent, write("a.txt"), MIA_IN_GROUP, "Always in that place", 1)
        await answered(agent, write("b.txt"), GUS_IN_GROUP, "Deny", 2)
        await agent.ask(write("c.txt"), MIA_IN_GROUP)
        assert files(tmp_path, MIA_IN_GROUP) == {"a.txt", "c.txt"}
        assert not files(tmp_path, GUS_IN_GROUP)


async def test_a_deny_wins_over_what_was_approved(bus: RedisBus, sqlite_store: Store, tmp_path: Path) -> None:
    """The operator's policy, and the tools that a place has at most."""
    everything = PlaceApproval(GROUP, "file_write", GrantRole.GUEST, "", str(ADA), 1)
    await sqlite_store.access.put_place_approval(everything)
    async with agent_with(bus, sqlite_store, tmp_path / "one", "deny write for guest") as agent:
        assert "not permitted" in await agent.ask(write("a.txt"), GUS_IN_GROUP)
    async with agent_with(bus, sqlite_store, tmp_path / "two") as agent:
        await agent.ask("/place tools recall", ADA_IN_GROUP)
        assert "not permitted" in (await agent.ask(write("a.txt"), GUS_IN_GROUP))
    assert not files(tmp_path / "one", GUS_IN_GROUP) | files(tmp_path / "two", GUS_IN_GROUP)


async def test_of_what_executes_the_very_same_call_is_approved_for_good_and_no_other(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> None:
    async with agent_with(bus, sqlite_store, tmp_path) as agent:
        await agent.ask("hello", str(ADA))
        asked = await answered(agent, run("echo one"), GUS_IN_GROUP, "Always in that place", 1)
        assert "approves this very call of `shell` in `telegram:/-100`" in asked.text
        assert "one" in await agent.ask(run("echo one"), GUS_IN_GROUP)
        await answered(agent, run("echo two"), GUS_IN_GROUP, "Deny", 2)
        assert "one call of it, for the role `guest` and above" in await agent.ask("/place", ADA_IN_GROUP)


async def test_an_admin_who_asked_has_them_where_he_asked(bus: RedisBus, sqlite_store: Store, tmp_path: Path) -> None:
    async with agent_with(bus, sqlite_store, tmp_path) as agent:
        await agent.say(write("a.txt"), str(ADA))
        question = await agent.question()
        assert [choice.label for choice in question.choices][2:] == ["For this turn", "Always in this place"]
        await agent.say_to_control(f"{question.choices[0].command} ALWAYS", str(ADA))
        await agent.heard(4)
        await agent.ask(write("b.txt"), str(ADA))
        assert files(tmp_path, ADA) == {"a.txt", "b.txt"}
        assert "`file_write`: every call, for the role `admin` and above" in await agent.ask("/place", str(ADA))
        assert "file_write" not in await agent.ask("/place ask file_write", str(ADA))


async def test_who_may_approve_himself_may_do_so_once_and_an_admin_no_more_than_was_offered(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> None:
    async with agent_with(bus, sqlite_store, tmp_path, "ask-self write") as agent:
        await agent.say(write("a.txt"), str(GUS))
        question = await agent.question()
        assert [choice.label for choice in question.choices] == ["Approve", "Deny"]
        for who in (GUS, ADA):
            for word in ("turn", "always"):
                told = await agent.press(f"{question.choices[0].command} {word}", str(who))
                assert (told or "").startswith(ONCE_ONLY)
        assert not files(tmp_path, GUS)
        assert await agent.press(question.choices[0].command, str(GUS)) == ""
        await agent.heard(3)
        assert files(tmp_path, GUS) == {"a.txt"}
        assert not await sqlite_store.access.place_approvals()


async def test_an_admin_who_is_none_any_more_approves_nothing_for_good(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> None:
    keeper = keeper_of(sqlite_store, bus)
    await keeper.grant(EVE, GrantRole.ADMIN, actor="cli")
    async with agent_with(bus, sqlite_store, tmp_path, "ask-self write") as agent:
        await agent.say(write("a.txt"), str(EVE))
        question = await agent.question()
        await keeper.grant(EVE, GrantRole.MEMBER, actor="cli")
        assert (await pressed(agent, question, "Always in this place", EVE) or "").startswith(ONCE_ONLY)
        assert not await sqlite_store.access.place_approvals()


async def test_after_words_of_others_what_is_kept_is_asked_about_each_time(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> None:
    """Whatever was approved: nobody had seen these words then."""
    approval = PlaceApproval(SessionKey.parse("telegram:/3"), "remember", GrantRole.GUEST, "", str(ADA), 1)
    await sqlite_store.access.put_place_approval(approval)
    async with agent_with(bus, sqlite_store, tmp_path, "ask remember") as agent:
        assert "Remembered" in await agent.ask(REMEMBER, str(GUS))
        await agent.ask("hello", str(ADA))
        await agent.bus.intake.enqueue(replace(message(REMEMBER, str(GUS)), quotes=(QUOTE,)))
        assert [choice.label for choice in (await agent.question()).choices] == ["Approve", "Deny"]


@pytest.mark.parametrize("length", [66_000, 66_001])
async def test_what_cannot_be_shown_whole_is_covered_by_nothing(
    bus: RedisBus, sqlite_store: Store, length: int
) -> None:
    approval = PlaceApproval(GROUP, "file_write", GrantRole.GUEST, "", str(ADA), 1)
    await sqlite_store.access.put_place_approval(approval)
    asking = ChatApprovals(
        bus.questions, bus.deliveries, sqlite_store, Scrubber(), SystemClock(), BackgroundTasks(), ttl_s=1.0
    )
    text = CleanText("x" * length)
    lasting = Lasting(approval, {"file_write"}, is_offered=True)
    verdict = await asking.ask(ApprovalRequest(GUS, "t1", 1, GUS, None, text, "", lasting=lasting))
    assert verdict is (ApprovalOutcome.APPROVED if length == 66_000 else ApprovalOutcome.DENIED)
