"""Answers that a model could not end: none of their calls runs, and no half is taken for the whole. On the real litellm
against providers on loopback."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from agent.engine import FirstPrompt, Turn
from agent.models.catalog import ModelCatalog, ModelEndpoint
from agent.models.client import ModelClient
from agent.models.litellm import LitellmClient
from agent.models.requests import ModelRequest, PromptMessage, StopReason, ask
from agent.runtime.steps import Steps
from agent.texts import ending_note
from gateway.bus.bus import RedisBus
from gateway.clock import SystemClock
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import ReplyKind, literal_text
from gateway.contracts.sessions import EntryKind, Role, UsagePurpose
from gateway.i18n import words_for
from gateway.scrub import Scrubber
from gateway.store import Store
from tests.parts.agents import running_agent
from tests.parts.model_server import Body, Failure, ModelServer, call, serve_model
from tests.parts.providers.anthropic import Step, serve_anthropic
from tests.parts.tooling import context, registry, tool
from tests.parts.turns import Boundless, FreeHold, begun_turn

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:Pydantic serializer warnings")
OPENAI, CLAUDE = "openai/gpt-4o-mini", "anthropic/claude-sonnet-4-5"
WHOLE = '{"path": "a.txt", "content": "all of it"}'
HALF = '{"path": "a.txt", "content": "half of'
UNFINISHED_NOTE, FILTERED_NOTE, REFUSED_NOTE = (
    ending_note(ending, words_for("en")) for ending in (StopReason.CUT, StopReason.FILTERED, StopReason.REFUSED)
)
CALL_CUT_NOTE = ending_note(StopReason.CUT, words_for("en"), has_calls=True)
SECRET = "ghp_" + "aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5"


class Writing:
    """The one tool: what was written, in order."""

    def __init__(self) -> None:
        self.written: list[str] = []
        text = {"type": "string"}
        self.tool = tool("file_write", self._write, properties={"path": text, "content": text})

    def _write(self, arguments: Mapping[str, Any]) -> str:
        self.written.append(arguments["content"])
        return "written"


@pytest.fixture
async def provider() -> AsyncIterator[ModelServer]:
    async with serve_model() as model:
        yield model


def answering(provider: ModelServer, *answers: Body) -> None:
    """From now on the provider gives these answers, one after the other."""
    left = deque(answers)
    provider.answer = lambda _body: left.popleft()


def two_calls(first: str, second: str) -> Body:
    made = [call("file_write", first, "c1")["tool_calls"][0], call("file_write", second, "c2")["tool_calls"][0]]
    return {"tool_calls": made}


async def turn(
    url: str, writing: Writing, *, model: str = OPENAI, hold: FreeHold | None = None, rounds_max: int = 25
) -> Turn:
    """What one turn leaves behind."""
    client = LitellmClient(ModelCatalog(), lambda name: ModelEndpoint(name, url, "key-of-the-test"))
    steps = Steps(ModelClient(client), registry(writing.tool), Scrubber(), SystemClock(), rounds_max=rounds_max)
    taken = begun_turn(hold)
    try:
        asked = (PromptMessage(Role.USER, literal_text("write a file")),)
        first = FirstPrompt(model, literal_text("You are a test."), asked, Boundless())
        await steps.take_steps(taken, context(), first)
    finally:
        await client.close()
    return taken


def calls_kept(taken: Turn) -> list[str]:
    return [made.arguments for entry in taken.entries for made in entry.tool_calls]


# --- calls


@pytest.mark.parametrize(
    "cut",
    [
        call("file_write", HALF) | {"finish_reason": "length"},
        call("file_write", WHOLE) | {"finish_reason": "length"},
        two_calls(WHOLE, HALF) | {"finish_reason": "length"},
        two_calls(WHOLE, WHOLE) | {"finish_reason": "max_tokens", "content": "I write it now."},
        call("file_write", WHOLE) | {"finish_reason": "content_filter"},
    ],
)
async def test_a_call_of_an_answer_that_was_cut_off_does_not_run(provider: ModelServer, cut: Body) -> None:
    """Not even where its arguments happen to be whole; nothing of it is kept."""
    answering(provider, cut, {"content": "I could not."})
    writing = Writing()
    taken = await turn(provider.url, writing)
    assert writing.written == []
    assert calls_kept(taken) == []
    assert len(provider.requests) == (1 if cut["finish_reason"] == "content_filter" else 2)


async def test_a_call_that_was_cut_off_is_asked_for_once_more_with_more_tokens(provider: ModelServer) -> None:
    """The model is told; the new call runs, once; both calls are paid for, and the cut one is not on record."""
    cut = call("file_write", HALF) | {"finish_reason": "length", "content": "I write it now. " * 20}
    answering(provider, cut, call("file_write", WHOLE), {"content": "It is done."})
    writing = Writing()
    taken = await turn(provider.url, writing)
    assert writing.written == ["all of it"]
    assert (taken.answer, taken.notes) == ("It is done.", [])
    first, second, _ = provider.requests
    assert "max_tokens" not in first
    assert second["max_tokens"] > taken.usage[0].completion_tokens
    assert "Nothing of it was run" in second["messages"][-1]["content"]
    assert len(taken.usage) == 3
    assert [json.loads(kept) for kept in calls_kept(taken)] == [json.loads(WHOLE)]


async def test_a_call_that_is_cut_off_twice_is_given_up_and_its_reader_is_told(provider: ModelServer) -> None:
    provider.answer = lambda _body: call("file_write", HALF) | {"finish_reason": "length"}
    writing = Writing()
    taken = await turn(provider.url, writing, rounds_max=0)
    assert writing.written == []
    assert taken.answer == CALL_CUT_NOTE
    assert len(provider.requests) == 2
    assert [entry.text for entry in taken.entries] == [CALL_CUT_NOTE]


@pytest.mark.parametrize("finish", ["stop", "tool_calls", None])
async def test_whole_calls_run_whatever_reason_a_provider_gives_and_open_ones_do_not(
    provider: ModelServer, finish: str | None
) -> None:
    """A text without its end is no call, even from a provider that says nothing of a limit."""
    answering(
        provider, two_calls(WHOLE, HALF) | {"finish_reason": finish}, call("file_write", WHOLE), {"content": "Done."}
    )
    writing = Writing()
    taken = await turn(provider.url, writing)
    assert writing.written == ["all of it"] * 2
    (error,) = [entry.text for entry in taken.entries if entry.is_error]
    assert "before they are complete" in error
    assert taken.answer == "Done."


# --- texts


async def test_a_text_that_was_cut_off_goes_on_and_is_one_answer(provider: ModelServer) -> None:
    """In the draft, in the transcript and for the cache; a secret across the seam is found."""
    hold = FreeHold()
    answering(
        provider,
        {"content": f"One, two, {SECRET[:20]}", "finish_reason": "length"},
        {"content": f"{SECRET[20:]}, three."},
    )
    taken = await turn(provider.url, Writing(), hold=hold)
    assert taken.answer is not None
    assert taken.answer.startswith("One, two, [redacted:github")
    assert taken.answer.endswith("three.")
    assert SECRET[20:] not in taken.answer
    assert hold.drafts[-1]() == taken.answer
    assert [entry.text for entry in taken.entries] == [taken.answer]
    assert (taken.finish_reason, taken.notes, len(taken.usage)) == ("stop", [], 2)
    *_, said, told = provider.requests[1]["messages"]
    assert said["content"].startswith("One, two, ")
    assert "Go on exactly where it ends" in told["content"]


async def test_a_stream_that_breaks_while_it_goes_on_begins_again_behind_what_was_there(provider: ModelServer) -> None:
    answering(provider, {"content": "One, ", "finish_reason": "length"}, {"content": "broken"}, {"content": "two."})
    seen = 0

    async def gate(_body: Body) -> None:
        nonlocal seen
        seen += 1
        if seen == 2:
            provider.failures.append(Failure(200))

    provider.gate = gate
    taken = await turn(provider.url, Writing())
    assert taken.answer == "One, two."


async def test_a_text_that_is_cut_off_twice_is_marked(provider: ModelServer) -> None:
    provider.answer = lambda _body: {"content": "and on ", "finish_reason": "length"}
    taken = await turn(provider.url, Writing())
    assert taken.answer == "and on and on "
    assert taken.notes == [UNFINISHED_NOTE]
    assert taken.finish_reason == "length"
    assert len(provider.requests) == 2


async def test_what_there_is_stays_when_nobody_goes_on(provider: ModelServer) -> None:
    answering(provider, {"content": "One, two,", "finish_reason": "length"})

    async def gate(_body: Body) -> None:
        if len(provider.requests) == 2:
            provider.failures.append(Failure(401))

    provider.gate = gate
    taken = await turn(provider.url, Writing())
    assert (taken.answer, taken.notes) == ("One, two,", [UNFINISHED_NOTE])


@pytest.mark.parametrize(
    ("message", "answer", "notes"),
    [
        ({"content": "Half of", "finish_reason": "content_filter"}, "Half of", [FILTERED_NOTE]),
        ({"content": "", "finish_reason": "content_filter"}, FILTERED_NOTE, []),
        ({"refusal": "I will not."}, "I will not.", [REFUSED_NOTE]),
        ({"content": "", "finish_reason": "length"}, "", []),
        ({"content": ""}, "", []),
    ],
)
async def test_each_end_that_is_not_the_models_own_is_told(
    provider: ModelServer, message: Body, answer: str, notes: list[str]
) -> None:
    provider.answer = lambda _body: message
    taken = await turn(provider.url, Writing())
    assert (taken.answer, taken.notes) == (answer, notes)


async def test_whoever_shows_nothing_meanwhile_learns_how_an_answer_ended(provider: ModelServer) -> None:
    client = LitellmClient(ModelCatalog(), lambda name: ModelEndpoint(name, provider.url, "key-of-the-test"))
    request = ModelRequest(
        OPENAI,
        UsagePurpose.TITLE,
        SessionKey("telegram", "1"),
        literal_text("You are a test."),
        (PromptMessage(Role.USER, literal_text("hello")),),
    )
    answering(provider, *({"content": "hm", "finish_reason": reason} for reason in ("length", "stop", None)))
    endings = [await ask(client, request) for _ in range(3)]
    assert [(one.ending, one.finish_reason) for one in endings] == [
        (StopReason.CUT, "length"),
        (StopReason.OWN, "stop"),
        (StopReason.OWN, ""),
    ]
    await client.close()


# --- Anthropic's way to say it


@pytest.mark.parametrize("arguments", [HALF, json.loads(WHOLE)])
async def test_claude_at_its_limit_writes_nothing(arguments: str | Body) -> None:
    steps = [
        Step("Now.", [("file_write", arguments)], "max_tokens"),
        Step("", [("file_write", json.loads(WHOLE))]),
        Step("Written."),
    ]
    writing = Writing()
    async with serve_anthropic(steps, prefix="") as api:
        taken = await turn(api.url, writing, model=CLAUDE)
        asked = [json.dumps(request["messages"]) for request in api.requests]
    assert writing.written == ["all of it"]
    assert taken.answer == "Written."
    assert "Nothing of it was run" in asked[1]


@pytest.mark.parametrize(("stop", "note"), [("refusal", FILTERED_NOTE), ("model_context_window_exceeded", None)])
async def test_claude_refuses_or_has_no_more_room(stop: str, note: str | None) -> None:
    async with serve_anthropic([Step("Half", stop=stop), Step(" a text.")], prefix="") as api:
        taken = await turn(api.url, Writing(), model=CLAUDE)
    assert (taken.answer, taken.notes) == (("Half", [note]) if note else ("Half a text.", []))


# --- a whole product


async def test_a_reply_is_whole_marked_or_says_why_there_is_none(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path, provider: ModelServer
) -> None:
    """And its ledger has every call."""
    client = ModelClient(LitellmClient(ModelCatalog(), lambda name: ModelEndpoint(name, provider.url, "key")))
    provider.answer = lambda _body: {"content": "and on ", "finish_reason": "length"}
    async with running_agent(bus, sqlite_store, client, tmp_path, model=OPENAI) as agent:
        for asked in (2, 4):
            answer = await agent.ask("what is the longest story of all?")
            assert answer == f"and on and on \n\n{UNFINISHED_NOTE}"
            assert sum(bool(body.get("tools")) for body in provider.requests) == asked
        session = await sqlite_store.sessions.current(SessionKey.parse("telegram:1"))
        assert session is not None
        kept = [
            str(one.text) for one in await sqlite_store.transcript.page(session.id) if one.kind is EntryKind.MESSAGE
        ]
        assert kept.count("and on and on ") == 2
        answering(provider, *[{"content": ""}] * 4)
        said = await agent.ask("and now?")
        assert said.startswith("The model ended without saying anything. /retry asks it once more.")
        assert agent.replies[-1].kind is ReplyKind.ERROR
    await client.close()
