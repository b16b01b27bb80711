"""What a model thought before it called a tool goes back with the results, unchanged, as its vendor demands it; and
nowhere else. On the real litellm against providers on loopback."""

from __future__ import annotations

import base64
import json
import random
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import pytest

from agent.engine import FirstPrompt, PromptWindow, Turn
from agent.models.client import ModelClient
from agent.models.litellm import LitellmClient
from agent.models.requests import LONG_WORK, ModelRequest, PromptMessage, Thoughts, ask
from agent.models.transcript import as_prompt
from agent.runtime.steps import Steps
from gateway.clock import SystemClock
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import literal_text
from gateway.contracts.sessions import Entry, Role, ToolCall, UsagePurpose
from gateway.scrub import Scrubber
from tests.parts.providers.anthropic import thinking_fault
from tests.parts.providers.script import Answer, Body, Call
from tests.parts.providers.vendors import VENDORS, asked
from tests.parts.tooling import context, registry, tool
from tests.parts.turns import Boundless, begun_turn

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:Pydantic serializer warnings")
CLAUDE, GEMINI = VENDORS["anthropic"], VENDORS["gemini"]
ASKED: Final = PromptMessage(Role.USER, literal_text("look around"))
FIRST: Final = Answer(("Let me see.",), (Call("look", id="toolu_1"),), ("I should ", "look."), signature="Zmlyc3Q=")
HIDDEN: Final = Answer((), (Call("look", id="toolu_2"), Call("look", id="toolu_3")), hidden="b3BhcXVl")
LAST: Final = Answer(("A hill.",), thinking=("So.",), signature="bGFzdA==")


class Rebuilt:
    """A window in which every prompt is made anew of what the transcript will hold."""

    async def condensed(
        self, in_flight: Sequence[Entry], *, counted: int, is_refused: bool = False
    ) -> Sequence[PromptMessage]:
        return (ASKED, *as_prompt(in_flight))


async def turn(client: LitellmClient, model: str, room: PromptWindow) -> Turn:
    taken = begun_turn()
    steps = Steps(ModelClient(client), registry(tool("look")), Scrubber(), SystemClock(), rounds_max=9)
    system = literal_text("You are a test.")
    await steps.take_steps(taken, context(), FirstPrompt(model, system, (ASKED,), room))
    return taken


def spoken(body: Body) -> list[list[Any]]:
    """What the assistant has said, as a request of Anthropic's has it, without marks for caches."""
    contents = [message["content"] for message in body["messages"] if message["role"] == "assistant"]
    return [[block for block in content if block["type"] != "tool_use"] for content in contents]


@pytest.mark.parametrize("room", [Boundless(), Rebuilt()])
async def test_claude_gets_its_thoughts_back_with_the_results_of_its_calls(room: PromptWindow) -> None:
    """Shown and hidden ones, in every round of the turn, also where the prompt was made anew; none is ever stored."""
    left = deque((FIRST, HIDDEN, LAST))
    async with asked(CLAUDE, lambda body: thinking_fault(body) or left.popleft(), effort="medium") as (server, client):
        taken = await turn(client, CLAUDE.model, room)
    first = {"type": "thinking", "thinking": "I should look.", "signature": "Zmlyc3Q="}
    begun = [first, {"type": "text", "text": "Let me see."}]
    assert [spoken(body) for body in server.requests] == [
        [],
        [begun],
        [begun, [{"type": "redacted_thinking", "data": "b3BhcXVl"}]],
    ]
    assert [body["thinking"]["type"] for body in server.requests] == ["enabled"] * 3
    assert taken.answer == "A hill."
    kept = repr(taken.entries) + repr(taken.usage)
    assert not any(raw in kept for raw in ("I should", "Zmlyc3Q=", "b3BhcXVl", "bGFzdA=="))


def with_results(thoughts: Thoughts | None) -> ModelRequest:
    """The round after a call, for a model that does or does not know what it thought."""
    call = ToolCall("toolu_1", literal_text("look"), literal_text("{}"))
    messages = (
        ASKED,
        PromptMessage(Role.ASSISTANT, literal_text(""), (call,)),
        PromptMessage(Role.TOOL, literal_text("a hill"), tool_call_id="toolu_1"),
    )
    key, system = SessionKey("telegram", "1"), literal_text("You are a test.")
    request = ModelRequest(CLAUDE.model, UsagePurpose.TURN, key, system, messages)
    return request if thoughts is None else replace(request, thoughts={"toolu_1": thoughts})


@pytest.mark.parametrize("thoughts", [None, Thoughts("openai/gpt-4o-mini", ({"type": "thinking", "thinking": "x"},))])
async def test_results_of_calls_that_somebody_else_made_are_read_without_thinking(thoughts: Thoughts | None) -> None:
    """Calls of an earlier turn, or of a model that was asked instead: their thoughts belong to nobody here."""
    async with asked(CLAUDE, lambda body: thinking_fault(body) or LAST, effort="medium") as (server, client):
        answer = await ask(client, with_results(thoughts))
    (body,) = server.requests
    assert (answer.text, "thinking" in body, spoken(body)) == ("A hill.", False, [[]])


async def test_a_model_that_did_not_think_although_it_might_still_may() -> None:
    """Newer ones decide that by themselves, call by call."""
    async with asked(CLAUDE, lambda _body: LAST, effort="medium") as (server, client):
        await ask(client, with_results(Thoughts(CLAUDE.model)))
    assert server.requests[0]["thinking"]["type"] == "enabled"


@pytest.mark.parametrize("purpose", UsagePurpose)
async def test_a_request_that_thinks_keeps_the_rules_of_thinking(purpose: UsagePurpose) -> None:
    """Small work has too few tokens for a thought, and keeps its temperature; long work thinks, without one."""
    is_long = purpose in LONG_WORK
    request = replace(with_results(None), messages=(ASKED,), purpose=purpose)
    if not is_long:
        request = replace(request, completion_tokens_max=512, temperature=0.3)
    answering = asked(CLAUDE, lambda body: thinking_fault(body) or LAST, effort="medium", temperature=0.7)
    async with answering as (server, client):
        assert (await ask(client, request)).text == "A hill."
    (body,) = server.requests
    assert ("thinking" in body, body.get("temperature")) == ((True, None) if is_long else (False, 0.3))


@pytest.mark.parametrize(
    ("max_tokens", "effort", "thinks"),
    [
        (4_096, "high", 2_048),
        (4_097, "high", 4_096),
        (2_048, "medium", 1_024),
        (1_025, "low", 1_024),
        (1_024, "low", 0),
    ],
)
async def test_a_thought_leaves_room_for_the_answer(max_tokens: int, effort: str, thinks: int) -> None:
    """An entry whose `max_tokens` lies below what its effort would take thinks less, or not at all."""
    request = replace(with_results(None), messages=(ASKED,))
    answering = asked(CLAUDE, lambda body: thinking_fault(body) or LAST, effort=effort, max_tokens=max_tokens)
    async with answering as (server, client):
        assert (await ask(client, request)).text == "A hill."
    (body,) = server.requests
    assert (body["max_tokens"], body.get("thinking", {}).get("budget_tokens", 0)) == (max_tokens, thinks)


def marred_by_the_scrubber() -> str:
    """A signature such as Gemini's, some thousand random bytes, in which the scrubber finds a secret."""
    drawn = (base64.b64encode(random.Random(seed).randbytes(3_000)).decode() for seed in range(500))
    return next(one for one in drawn if Scrubber().scrub(f"call_1__thought__{one}") != f"call_1__thought__{one}")


async def test_a_thought_of_gemini_goes_back_with_its_call_letter_by_letter() -> None:
    """Whatever its letters look like: only the first of parallel calls has one."""
    signature = marred_by_the_scrubber()
    calls = Answer(
        (), (Call("look", ('{"at": "a"}',)), Call("look", ('{"at": "b"}',))), thinking=("Hm.",), signature=signature
    )
    left = deque((calls, calls, Answer(("A hill.",))))
    async with asked(GEMINI, lambda _body: left.popleft()) as (server, client):
        taken = await turn(client, GEMINI.model, Boundless())
    sent = [part for content in server.requests[-1]["contents"] for part in content["parts"] if "function_call" in part]
    assert [part.get("thoughtSignature") for part in sent] == [signature, None] * 2
    assert taken.answer == "A hill."
    assert "thought" not in repr(taken.entries)
    assert signature not in json.dumps(server.requests[0])
