"""Asks a model what a case says, with the prompts and the tools that the agent itself would send."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from agent import limits
from agent.features.memory.knowledge import recollection_block
from agent.features.titles import first_request, sanitize_title
from agent.models.demo import ScriptedClient
from agent.models.requests import ModelEvent, ModelProvider, ModelRequest, PromptMessage, ToolSpec, ask
from agent.models.transcript import preamble
from agent.prompts.library import PROMPTS
from agent.runtime.compaction_plan import length_note, material, summary_request
from gateway.bus.bus import RedisBus, open_bus
from gateway.bus.embedded import EmbeddedValkey
from gateway.clock import SystemClock
from gateway.contracts.access import Projection
from gateway.contracts.errors import ModelError
from gateway.contracts.ids import SessionKey
from gateway.contracts.memory import Fact, Recollection
from gateway.contracts.messages import CleanText, joined
from gateway.contracts.sessions import Entry, Role, ToolCall, UsagePurpose
from gateway.scrub import Scrubber
from gateway.store import Store, open_store
from gateway.store.migrations import migrate
from tests.eval.judging import Case, Given
from tests.parts.agents import running_agent

KEY: Final = SessionKey("telegram", "1")
ANSWER_TOKENS_MAX: Final = 500
TIMEOUT_S: Final = 180.0
_SCRUBBER: Final = Scrubber()


@dataclass(frozen=True, slots=True)
class Prompted:
    """What stands in front of the words of an admin in a direct message, and the tools that are offered there."""

    system: CleanText
    tools: tuple[ToolSpec, ...]


class _Listening(ScriptedClient):
    """Keeps the first request of a turn."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: ModelRequest | None = None

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        if request.purpose is UsagePurpose.TURN:
            self.heard = self.heard or request
        async for event in super().stream(request):
            yield event


async def prompted() -> Prompted:
    """Have an agent of its own begin a turn, and return what it sends."""
    listening = _Listening()
    with TemporaryDirectory() as name:
        folder = Path(name)
        async with (
            _bus(folder) as bus,
            _store(folder) as store,
            running_agent(bus, store, listening, folder, admins=(KEY,)) as agent,
        ):
            await agent.ask("hello")
    assert listening.heard is not None
    return Prompted(listening.heard.system, listening.heard.tools)


async def given_by(provider: ModelProvider, model: str, case: Case, here: Prompted) -> Given:
    """Ask the model. A call that fails is an answer without words, and says why."""
    request = _request(case, here, model)
    is_reasoning = provider.facts(model).is_reasoning
    if is_reasoning and request.completion_tokens_max is not None:
        request = replace(request, completion_tokens_max=request.completion_tokens_max + limits.SUMMARY_THOUGHT_TOKENS)
    try:
        async with asyncio.timeout(TIMEOUT_S):
            answer = await ask(provider, request)
    except (ModelError, TimeoutError) as error:
        return Given("", (f"(nothing: {type(error).__name__})",))
    text = sanitize_title(answer.text, _SCRUBBER.scrub) if case.kind == "title" else answer.text
    return Given(text, tuple(call.name for call in answer.calls))


def _request(case: Case, here: Prompted, model: str) -> ModelRequest:
    """Build the request of the kind of the case. Only where tools are the subject they are offered: a model that calls
    one gives no answer to judge."""
    plain = ModelRequest(model, UsagePurpose.TURN, KEY, here.system, (), timeout_s=TIMEOUT_S)
    match case.kind:
        case "title":
            return replace(
                plain,
                purpose=UsagePurpose.TITLE,
                system=PROMPTS.title,
                messages=first_request(CleanText(case.said)),
                completion_tokens_max=limits.TITLE_TOKENS_MAX,
                temperature=limits.TITLE_TEMPERATURE,
            )
        case "summary":
            entries = [Entry(Role(role), CleanText(text)) for role, text in case.history]
            length = CleanText(length_note(limits.SUMMARY_TOKENS_MAX))
            return replace(
                plain,
                purpose=UsagePurpose.COMPACTION,
                system=PROMPTS.summary,
                messages=summary_request(material(entries, _SCRUBBER.scrub), length=length),
                completion_tokens_max=limits.SUMMARY_TOKENS_MAX,
                temperature=limits.SUMMARY_TEMPERATURE,
            )
        case "tool" | "no_tool":
            return replace(plain, messages=_messages(case), tools=here.tools)
    return replace(plain, messages=_messages(case), completion_tokens_max=ANSWER_TOKENS_MAX)


def _messages(case: Case) -> tuple[PromptMessage, ...]:
    now_ms = SystemClock().now_ms()
    facts = tuple(Fact(at, KEY, at, CleanText(text), now_ms) for at, text in enumerate(case.facts, 1))
    memory = recollection_block(Recollection(facts, ()), case.said)
    note = preamble(now_ms, memory=CleanText(memory) if memory else None)
    said = PromptMessage(Role.USER, joined(note, CleanText(case.said), by="\n\n"))
    if not case.tool:
        return (said,)
    call = ToolCall("call_1", CleanText(case.tool), CleanText("{}"))
    return (
        said,
        PromptMessage(Role.ASSISTANT, CleanText(""), (call,)),
        PromptMessage(Role.TOOL, CleanText(case.result), tool_call_id=call.id),
    )


@asynccontextmanager
async def _bus(folder: Path) -> AsyncIterator[RedisBus]:
    server = EmbeddedValkey(folder / "valkey")
    await server.start()
    try:
        bus = await open_bus(server.url, installation="eval")
        await bus.access.project(Projection())
        yield bus
        await bus.close()
    finally:
        await server.stop()


@asynccontextmanager
async def _store(folder: Path) -> AsyncIterator[Store]:
    url = f"sqlite+aiosqlite:///{folder}/trivet.db"
    await migrate(url)
    store = open_store(url)
    yield store
    await store.close()
