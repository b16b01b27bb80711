"""Whatever a user asks for, by any command and any tool, with any id of another user: nothing of that other comes.

The matrix makes itself: the commands are those that /help lists, the tools those that the model is offered, the
arguments what their schemas allow. Ben knows everything about Ann that is not hers alone: her key, her titles, the
ids of her sessions, turns and messages, where her files lie. What she said, he never sees.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Final

import pytest

from agent.models.demo import ScriptedClient
from agent.models.requests import ModelAnswer, ModelEvent, ModelRequest, RequestedCall, TokenCount, ToolSpec
from gateway.bus.bus import RedisBus
from gateway.config.tools import ToolSettings
from gateway.contracts.ids import SessionKey, folder_name
from gateway.contracts.messages import ReplyKind
from gateway.contracts.sessions import Role, UsagePurpose
from gateway.store import Store
from tests.parts.agents import AgentProcess, running_agent

ANN: Final = "telegram:1"
BEN: Final = "telegram:2"
BEN_IN_HER_GROUP: Final = "telegram:2/-100"
ANN_IN_A_GROUP: Final = "telegram:1/-100"
TITLE: Final = "Plans of Ann"
EVERYTHING_ALLOWED: Final = ToolSettings(
    policy=tuple(f"allow {risk}" for risk in ("read", "write", "execute", "network"))
)
STARTING_PROCESSES: Final = frozenset({"sub_agent", "sub_agent_spawn", "orchestrate", "plan"})
TASKS: Final = frozenset({ANN, "diary.txt"})
CANARY: Final = re.compile(r"canary\w+", re.IGNORECASE)
BREAK_IN: Final = "break in with:"


class Burglar(ScriptedClient):
    """The demo model, which on demand calls every tool it is offered; it remembers all it was asked, by key."""

    def __init__(self) -> None:
        self.asked: list[ModelRequest] = []
        self.offered: dict[str, ToolSpec] = {}

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """One round of all tools, then the demo model's answer."""
        self.asked.append(request)
        self.offered |= {spec.name: spec for spec in request.tools}
        newest = request.messages[-1]
        if request.purpose is UsagePurpose.TURN and newest.role is Role.USER and BREAK_IN in newest.text:
            word = newest.text.rpartition(BREAK_IN)[2]
            yield ModelAnswer("", tuple(_attempts(request, word)), "tool_calls", TokenCount(1, 1), 0.0, request.model)
            return
        async for event in super().stream(request):
            yield event

    def seen_by(self, *keys: str) -> str:
        """Every byte of every prompt that was made for these keys."""
        return "\n".join(repr(request) for request in self.asked if str(request.key) in keys)


def _attempts(request: ModelRequest, word: str) -> Iterator[RequestedCall]:
    """What starts a process each time is tried with few words, and with one type of sub-agent: types differ in what
    they may do and not in whose they are."""
    for spec in request.tools:
        is_heavy = spec.name in STARTING_PROCESSES
        if is_heavy and word not in TASKS:
            continue
        for number, arguments in enumerate(islice(_arguments(spec.schema, word), 1 if is_heavy else None)):
            yield RequestedCall(f"{spec.name}-{number}", spec.name, json.dumps(arguments))


def _arguments(schema: Mapping[str, Any], word: str) -> Iterator[dict[str, Any]]:
    """What a stranger may pass: `word` wherever a text fits; one call for each choice of the first choice there is."""
    properties: Mapping[str, Any] = schema.get("properties", {})
    choices = next(((name, part["enum"]) for name, part in properties.items() if "enum" in part), ("", [None]))
    for choice in choices[1]:
        yield {name: choice if name == choices[0] else _filled(part, word) for name, part in properties.items()}


def _filled(schema: Mapping[str, Any], word: str) -> Any:
    match schema.get("type"):
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "boolean":
            return True
        case "array":
            return [_filled(schema.get("items", {}), word)]
        case "object":
            return next(_arguments(schema, word))
    return schema["enum"][0] if "enum" in schema else word[: schema.get("maxLength", len(word))]


@pytest.fixture
def model() -> Burglar:
    return Burglar()


@pytest.fixture
async def agent(bus: RedisBus, store: Store, tmp_path: Path, model: Burglar) -> AsyncIterator[AgentProcess]:
    async with running_agent(bus, store, model, tmp_path, tools=EVERYTHING_ALLOWED) as process:
        yield process


async def live(agent: AgentProcess) -> None:
    """Ann's life with Trivet: two conversations, a title, facts, tasks, files, a group."""
    await agent.ask("say canaryanswer and nothing else", ANN)
    await agent.ask("remember that I own canaryfact", ANN)
    await agent.ask("todo feed canarytask", ANN)
    await agent.ask('tool file_write {"path": "diary.txt", "content": "canarydiary"}', ANN)
    await agent.ask("what is a canarycache made of, in one word?", ANN)
    await agent.ask("/remind in 5 hours to feed canaryreminder", ANN)
    await agent.ask("long 900 canarylong", ANN)
    await agent.ask("/undo", ANN)
    await agent.ask(f"/title {TITLE}", ANN)
    await agent.ask("/new", ANN)
    await agent.ask("say canarysecond", ANN)
    await agent.ask("say canarygroup", ANN_IN_A_GROUP)


async def known_of(agent: AgentProcess, store: Store, data_dir: Path) -> list[str]:
    """What one user may know or guess of another."""
    key = SessionKey.parse(ANN)
    sessions = await store.sessions.page(key=key)
    entries = [entry for session in sessions for entry in await store.transcript.page(session.id)]
    home = data_dir / "workspaces" / folder_name(key)
    return [
        ANN,
        TITLE,
        "1",
        "*",
        "%",
        "",
        "own feed say long",  # words that she used
        "diary.txt",
        *(session.id for session in sessions),
        next(entry.turn_id for entry in entries if entry.turn_id),
        next(entry.message_id for entry in entries if entry.message_id),
        str(home / "files" / "diary.txt"),
        f"../../{home.name}/files/diary.txt",
    ]


async def tried(agent: AgentProcess, text: str, key: str) -> str:
    """Say it, say no to whatever is asked, and hear everything until the lane is empty: sub-agents wake it, too."""
    began = seen = len(agent.replies)
    await agent.say(text, key)
    while seen == began or await agent.bus.lanes.depth(SessionKey.parse(key)) != (0, False):
        await agent.deliver("telegram")
        for reply in agent.replies[seen:]:
            if reply.kind is ReplyKind.QUESTION:
                await agent.say_to_control(reply.choices[-1].command, key)
        seen = len(agent.replies)
    return "\n".join(reply.text for reply in agent.replies[began:])


@pytest.mark.parametrize("burglar", [BEN, pytest.param(BEN_IN_HER_GROUP, marks=pytest.mark.long)])
async def test_no_command_and_no_tool_gives_what_is_anothers(
    agent: AgentProcess, store: Store, model: Burglar, tmp_path: Path, burglar: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every command and every tool, with everything that Ben may know of Ann."""
    await live(agent)
    assert len(set(CANARY.findall(model.seen_by(ANN, ANN_IN_A_GROUP)))) >= 6, "Ann's canaries sing"
    known = await known_of(agent, store, tmp_path)
    commands = re.findall(r"^- (/\w+)", await agent.ask("/help", burglar), re.MULTILINE)
    assert len(commands) >= 7
    capsys.readouterr()
    replies = [await tried(agent, f"{command} {word}".strip(), burglar) for command in commands for word in known]
    replies += [await tried(agent, f"{BREAK_IN}{word}", burglar) for word in known]
    printed = capsys.readouterr()
    called = {call.name for request in model.asked for message in request.messages for call in message.tool_calls}
    assert set(model.offered) <= called, "a tool was never tried"
    for where, text in {
        "replies": "\n".join(replies),
        "prompts and results": model.seen_by(burglar),
        "logs": printed.out + printed.err,
    }.items():
        assert not CANARY.findall(text), where


async def test_what_was_said_in_private_does_not_surface_in_a_group(agent: AgentProcess, model: Burglar) -> None:
    """The same person, another place: her private conversation and files stay where they are."""
    await live(agent)
    await agent.ask("tell me about canaryanswer and canarydiary again", ANN_IN_A_GROUP)
    for word in ("answer", "diary.txt", "*"):
        await tried(agent, f"{BREAK_IN}{word}", ANN_IN_A_GROUP)
    heard = model.seen_by(ANN_IN_A_GROUP).replace("canaryanswer and canarydiary again", "")
    assert set(CANARY.findall(heard)) == {"canarygroup"}
