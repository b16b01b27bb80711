"""What a sub-agent in the background may do, when the turn that started it is long over."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from agent.models.requests import ModelRequest, RequestedCall
from gateway.bus.bus import RedisBus
from gateway.config.tools import ToolSettings
from gateway.contracts.ids import WORKSPACES, folder_name
from gateway.contracts.sessions import GrantRole, UsagePurpose
from gateway.contracts.subagents import TaskState
from gateway.store import Store
from tests.parts.agents import running_agent
from tests.parts.keepers import keeper_of
from tests.parts.waiting import until
from tests.story.test_sub_agents import ANN, Cast, Words, children, delegated, newest, results, using

WRITING = {"path": "note.txt", "content": "hello"}


def note(data_dir: Path) -> Path:
    return data_dir / WORKSPACES / folder_name(ANN) / "files" / "note.txt"


async def test_a_person_approves_what_a_background_child_asks_also_behind_another_turn(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> None:
    """The turn that started it has ended, and another has been taken since: the question is the child's."""
    child = using("file_write", **WRITING)
    spawning = [delegated("write a note", "writer", tool="sub_agent_spawn")]
    model = Cast(spawning, "Under way.", "Still under way.", "It is written.", child=child)
    async with running_agent(bus, sqlite_store, model, tmp_path, admins=(ANN,)) as agent:
        assert await agent.ask("have a note written meanwhile") == "Under way."
        question = await agent.question()
        await agent.ask("how is it going?")
        await agent.press(question.choices[0].command, str(ANN))
        await until(note(tmp_path).exists)
        assert note(tmp_path).read_text() == "hello"


async def test_nobody_approves_what_a_child_asked_that_is_over(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> None:
    """Its end takes the question back; a press that comes all the same is no answer."""
    spawning = [delegated("write a note", "writer", tool="sub_agent_spawn")]
    model = Cast(spawning, "Under way.", child=using("file_write", **WRITING))
    async with running_agent(bus, sqlite_store, model, tmp_path, admins=(ANN,)) as agent:
        await agent.ask("have a note written meanwhile")
        question = await agent.question()
        model.turn = [
            [RequestedCall("c2", "sub_agent_cancel", json.dumps({"id": (await newest(sqlite_store)).id}))],
            "Ended.",
        ]
        await agent.ask("end it")
        told = await agent.press(question.choices[0].command, str(ANN))
        assert told
        assert "Approved" not in told
        assert not note(tmp_path).exists()


@pytest.mark.parametrize("role", [GrantRole.BLOCKED, GrantRole.GUEST])
async def test_a_child_does_nothing_more_for_somebody_who_lost_his_rights(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path, role: GrantRole
) -> None:
    """It was started by a member, who may write here; a guest may not, and who is blocked may nothing."""

    def writes(request: ModelRequest) -> Words:
        return "\n".join(results(request)) or [RequestedCall("t1", "file_write", json.dumps(WRITING))]

    model = Cast([delegated("write a note", "writer", tool="sub_agent_spawn")], "Under way.", child=writes)
    model.gate = asyncio.Event()
    tools = ToolSettings(policy=("allow write for member",))
    keeper = keeper_of(sqlite_store, bus)
    await keeper.grant(ANN, GrantRole.MEMBER, actor="admin")
    async with running_agent(bus, sqlite_store, model, tmp_path, tools=tools) as agent:
        assert await agent.ask("have a note written meanwhile") == "Under way."
        await until(lambda: model.of(UsagePurpose.SUBAGENT))
        await keeper.grant(ANN, role, actor="admin")
        model.gate.set()
        while not (task := await newest(sqlite_store)).state.is_over:  # noqa: ASYNC110 - the board tells nobody here
            await asyncio.sleep(0.02)
        assert (task.state, task.reason) == (TaskState.CANCELLED, "not_allowed")
        assert len(model.of(UsagePurpose.SUBAGENT)) == 1
        assert children() == set()
    assert note(tmp_path).exists() is False
