"""The demo model does what its first word says, and says what it is."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from agent.model.client import ModelAnswer, ModelRequest, PromptMessage, TextDelta, ask
from agent.model.scripted import SIGNATURE, ScriptedClient, latency_s
from agent.prompts.library import PROMPTS
from agent.tools.framing import framed
from gateway.contracts.entries import Role, ToolCall, UsagePurpose
from gateway.contracts.errors import ConfigError, ContextTooLong, ModelError, ModelRejected, ModelUnavailable
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText, own_words


def asking(*said: str, purpose: UsagePurpose = UsagePurpose.TURN) -> ModelRequest:
    messages: list[PromptMessage] = []
    for text in said:
        messages += [PromptMessage(Role.USER, CleanText(text)), PromptMessage(Role.ASSISTANT, own_words("ok"))]
    return ModelRequest("demo/scripted", purpose, SessionKey("telegram", "1"), own_words("s"), tuple(messages[:-1]))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hello", "You said: hello"),
        ("say **hi** there", "**hi** there"),
        ("<now>\nMonday\n</now>\n\nsay hi", "hi"),
        ("long 500", "The end of the long answer."),
        ("markdown", "| platform | limit |"),
        ("slow 0.01", "0.01 seconds"),
        ("slow 0.01 say hi", "hi"),
        ("slow 0.01 slow 0.02", "0.01 seconds"),
    ],
)
async def test_every_reply_says_that_it_is_a_demo(text: str, expected: str) -> None:
    answer = await ask(ScriptedClient(), asking(text))
    assert expected in answer.text
    assert answer.text.endswith(SIGNATURE)


async def test_it_streams_what_it_answers() -> None:
    """The deltas are the answer."""
    events = [event async for event in ScriptedClient().stream(asking("long 2000"))]
    assert isinstance(events[-1], ModelAnswer)
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == events[-1].text
    assert len(events) > 20


async def test_history_shows_only_what_was_sent() -> None:
    answer = await ask(ScriptedClient(), asking("first thing", "history"))
    assert "I can see 2 message(s)" in answer.text
    assert "1. first thing" in answer.text


@pytest.mark.parametrize(
    ("text", "error"), [("fail", ModelRejected), ("fail busy", ModelUnavailable), ("fail long", ContextTooLong)]
)
async def test_it_fails_when_told_to(text: str, error: type[ModelError]) -> None:
    with pytest.raises(error):
        await ask(ScriptedClient(), asking(text))


@pytest.mark.parametrize(
    ("text", "name", "arguments"),
    [
        ("remember I like tea", "remember", '{"fact": "I like tea"}'),
        ("recall tea", "recall", '{"query": "tea"}'),
        ('tool todo_read {"x": 1}', "todo_read", '{"x": 1}'),
    ],
)
async def test_it_calls_tools_when_told_to(text: str, name: str, arguments: str) -> None:
    answer = await ask(ScriptedClient(), asking(text))
    assert [(call.name, call.arguments) for call in answer.calls] == [(name, arguments)]


async def test_it_makes_titles_and_summaries() -> None:
    title = await ask(ScriptedClient(), asking("plan a trip to rome with my two children", purpose=UsagePurpose.TITLE))
    assert title.text == "Plan a trip to rome with"
    summary = await ask(ScriptedClient(), asking("User: plan a trip", purpose=UsagePurpose.COMPACTION))
    assert summary.text.startswith("Goal:")


def test_its_name_carries_its_latency() -> None:
    assert latency_s("demo/scripted@500ms") == 0.5
    with pytest.raises(ConfigError):
        latency_s("demo/other")


def _calls(answer: ModelAnswer) -> list[tuple[str, dict[str, str]]]:
    return [(call.name, json.loads(call.arguments)) for call in answer.calls]


async def test_it_splits_a_job_over_sub_agents() -> None:
    """One call for each task, all in one round; a type in front of a task chooses who does it."""
    answer = await ask(ScriptedClient(), asking("split say one | code: say two: three | slow 5"))
    assert _calls(answer) == [
        ("sub_agent", {"type": "explore", "task": "say one"}),
        ("sub_agent", {"type": "code", "task": "say two: three"}),
        ("sub_agent", {"type": "explore", "task": "slow 5"}),
    ]
    assert len({call.id for call in answer.calls}) == 3


async def test_what_it_spawned_it_waits_for() -> None:
    request = asking("spawn say one | say two")
    spawned = await ask(ScriptedClient(), request)
    assert [name for name, _ in _calls(spawned)] == ["sub_agent_spawn", "sub_agent_spawn"]
    calls = tuple(ToolCall(call.id, call.name, own_words("{}")) for call in spawned.calls)
    results = tuple(PromptMessage(Role.TOOL, own_words("queued"), tool_call_id=call.id) for call in calls)
    after = replace(
        request, messages=(*request.messages, PromptMessage(Role.ASSISTANT, own_words(""), calls), *results)
    )
    assert [name for name, _ in _calls(await ask(ScriptedClient(), after))] == ["sub_agent_wait"]


async def test_a_sub_agent_does_what_its_task_says() -> None:
    answer = await ask(ScriptedClient(), asking("say found it", purpose=UsagePurpose.SUBAGENT))
    assert "found it" in answer.text


def _after_round(*results: str, note: str = "") -> ModelRequest:
    """`split one | two`, and what came of it."""
    calls = tuple(ToolCall(f"c{number}", "sub_agent", own_words("{}")) for number, _ in enumerate(results))
    messages = [
        *asking("split one | two").messages,
        PromptMessage(Role.ASSISTANT, own_words(""), calls),
        *(PromptMessage(Role.TOOL, CleanText(text), tool_call_id=f"c{at}") for at, text in enumerate(results)),
        *([PromptMessage(Role.USER, CleanText(note))] if note else ()),
    ]
    return replace(asking(""), messages=tuple(messages))


async def test_what_sub_agents_answered_it_passes_on_without_the_frame() -> None:
    answer = await ask(ScriptedClient(), _after_round(framed("Two tests.", "X7"), framed("None.", "Y8")))
    assert answer.text == f"The sub-agents answered:\n\n> Two tests.\n\n> None.\n\n{SIGNATURE}"


async def test_a_note_on_failures_is_nobodys_request() -> None:
    note = "<tool-failures>\n- sub_agent: killed\nFind the cause.\n</tool-failures>"
    answer = await ask(ScriptedClient(), _after_round("Its process was killed by signal 9.", note=note))
    assert answer.text.startswith("The sub-agents answered:\n\n> Its process was killed by signal 9.")


async def test_woken_it_tells_what_its_sub_agents_did() -> None:
    """The time of day stands behind what nobody wrote."""
    woken = f"{PROMPTS.woken}\n\n{framed('Two tests.', 'X7')}\n\n<now>\nMonday\n</now>"
    answer = await ask(ScriptedClient(), asking(woken))
    assert answer.text == f"The sub-agents in the background have ended:\n\n> Two tests.\n\n{SIGNATURE}"
