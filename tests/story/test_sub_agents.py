"""Sub-agents in a user's turn: real child processes, a real bus and a real database; only the model is scripted."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

from agent.model.client import ModelAnswer, ModelEvent, ModelRequest, RequestedCall, TextDelta, TokenCount
from agent.model.scripted import ScriptedClient
from gateway.bus.bus import RedisBus
from gateway.contracts.entries import Role, UsagePurpose
from gateway.contracts.ids import SessionKey
from gateway.contracts.subagents import TaskState
from gateway.store.store import SqlStore
from tests.parts.agents import running_agent

ANN = SessionKey.parse("telegram:1")
Words = str | Sequence[RequestedCall] | Exception


def ordered(number: int, sub_type: str, task: str, **more: object) -> RequestedCall:
    """A call of `sub_agent`."""
    return RequestedCall(f"c{number}", "sub_agent", json.dumps({"type": sub_type, "task": task, **more}))


class Cast(ScriptedClient):
    """A model in two roles: `parent` says its answers one after the other, `child` answers by the task it was given."""

    def __init__(self, *parent: Words, child: Callable[[ModelRequest], Words]) -> None:
        self.parent = list(parent)
        self.child = child
        self.asked: list[ModelRequest] = []

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        if request.purpose not in {UsagePurpose.TURN, UsagePurpose.SUBAGENT}:
            async for event in super().stream(request):
                yield event
            return
        self.asked.append(request)
        await request.permit()
        said = self.parent.pop(0) if request.purpose is UsagePurpose.TURN else self.child(request)
        if isinstance(said, Exception):
            raise said
        text, calls = (said, ()) if isinstance(said, str) else ("", tuple(said))
        yield TextDelta(text)
        yield ModelAnswer(text, calls, "stop", TokenCount(100, 10), 0.5, request.model)

    def results(self) -> list[str]:
        """What the tools of the user's turn answered, as its model read it last."""
        turns = [request for request in self.asked if request.purpose is UsagePurpose.TURN]
        return [message.text for message in turns[-1].messages if message.role is Role.TOOL]


def answers(request: ModelRequest) -> str:
    return f"done: {request.messages[0].text}"


async def test_a_turn_has_three_sub_agents_at_once_and_answers_with_what_they_said(
    bus: RedisBus, sqlite_store: SqlStore, tmp_path: Path
) -> None:
    model = Cast(
        [ordered(number, "explore", f"part {number}") for number in range(3)], "All three are done.", child=answers
    )
    async with running_agent(bus, sqlite_store, model, tmp_path) as agent:
        assert await agent.ask("split it") == "All three are done."
        print(model.results())
        tasks = await sqlite_store.tasks.newest(limit=10)
        print(tasks)
        assert [task.state for task in tasks] == [TaskState.COMPLETED] * 3
