"""What people meet of plug-ins: tools that ask first, commands, rules of the house; and of those that are broken."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent.models.demo import ScriptedClient
from agent.models.requests import ModelEvent, ModelRequest
from gateway.bus.bus import RedisBus
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import ReplyKind
from gateway.contracts.sessions import UsagePurpose
from gateway.plugins import Hooks
from gateway.store import Store
from tests.parts.agents import running_agent
from tests.parts.plugins import DECLARED, Site, site
from tests.parts.waiting import PATIENCE_S

__all__ = ["site"]

ADA, GUS = "telegram:1", "telegram:2"
SECRET = "ghp_" + "aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5"
HOSTILE = f"""{DECLARED}
import asyncio
from gateway.plugins import command
async def hang(event):
    await asyncio.Event().wait()
def fail(event):
    raise ValueError(event.text)
def leak(event):
    return event.text + " {SECRET}"
@command()
def crash(argument, caller):
    "break"
    raise ValueError(argument)
"""
HOOKS = {"before_model": "hostile:hang", "after_answer.1": "hostile:fail", "after_answer.2": "hostile:leak"}
EXAMPLES = ("trivet-dice", "trivet-oncall", "trivet-house-rules")


class Listening(ScriptedClient):
    """The demo model, which remembers what its turns were asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        if request.purpose is UsagePurpose.TURN:
            self.asked.append("\n".join(message.text for message in request.messages))
        async for event in super().stream(request):
            yield event


async def test_tools_commands_and_rules_of_others_are_part_of_the_house(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path, site: Site
) -> None:
    """A tool that writes asks an admin, and is denied to a guest; a command is in the help of those who may use it;
    a rule reaches the model, a signature the answer and the transcript."""
    for package in EXAMPLES:
        site.install_example(package)
    model, admins = Listening(), (SessionKey.parse(ADA),)
    async with running_agent(bus, sqlite_store, model, tmp_path, plugins=EXAMPLES, admins=admins) as agent:
        assert "/oncall [week]: who is on call" in await agent.ask("/help", ADA)
        assert "/oncall" not in await agent.ask("/help", GUS)
        assert await agent.ask("/oncall 3", ADA) == "In week 3 it is Ada."
        assert await agent.ask("/oncall 3", GUS) == (
            "Only members and admins may use /oncall. /help lists what I understand."
        )
        assert (await agent.ask("say what is the price?", ADA)).endswith("— the house")
        assert "<advice>\nPrices are in euro, VAT included.\n</advice>" in model.asked[-1]
        assert (await agent.transcript(ADA))[-1].endswith("— the house")
        assert "is not permitted" in await agent.ask('tool keep_roll {"points": 9}', GUS)
        await agent.say('tool keep_roll {"points": 9}', ADA)
        question = await agent.question()
        assert "keep_roll" in question.text
        await agent.press(question.choices[0].command, ADA)
        async with asyncio.timeout(PATIENCE_S):
            while '"best": 9' not in agent.replies[-1].text:
                await agent.deliver("telegram")


async def test_broken_ones_cost_no_message_and_let_no_secret_out(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Hooks.__init__, "__kwdefaults__", {"timeout_s": 0.1})
    site.install("hostile", {"trivet.hooks": HOOKS, "trivet.commands": {"crash": "hostile:crash"}}, HOSTILE)
    missing = ("hostile", "gone")
    async with running_agent(bus, sqlite_store, ScriptedClient(), tmp_path, plugins=missing) as agent:
        for number in range(3):
            assert f"number {number}" in await agent.ask(f"say number {number}")
        assert await agent.ask("/crash now") == "/crash did not work. The operator's log says why."
        answers = [reply for reply in agent.replies if reply.kind is ReplyKind.ANSWER]
        assert len(answers) == 3
        assert not any(SECRET in text for text in (*(reply.text for reply in answers), *await agent.transcript()))
        assert "[redacted" in answers[0].text
