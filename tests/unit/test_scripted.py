"""The demo model does what its first word says, and says what it is."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from agent.models.demo import HELP, HINT, SIGNATURE, ScriptedClient, latency_s
from agent.models.demo_subagents import STRATEGIES, part_played
from agent.models.requests import ModelAnswer, ModelRequest, PromptMessage, TextDelta, ask
from agent.prompts.library import PROMPTS
from agent.subagents.strategies import schema, strategy_of
from agent.subagents.texts import result_text
from agent.tools.results import framed
from gateway.contracts.errors import ConfigError, ContextTooLong, ModelError, ModelUnavailable
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText, literal_text
from gateway.contracts.sessions import Role, ToolCall, UsagePurpose
from gateway.contracts.subagents import TaskState
from tests.unit.test_status_texts import over


def asking(*said: str, purpose: UsagePurpose = UsagePurpose.TURN) -> ModelRequest:
    messages: list[PromptMessage] = []
    for text in said:
        messages += [PromptMessage(Role.USER, CleanText(text)), PromptMessage(Role.ASSISTANT, literal_text("ok"))]
    return ModelRequest("demo/scripted", purpose, SessionKey("telegram", "1"), literal_text("s"), tuple(messages[:-1]))


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
    ("text", "error"), [("fail", ModelError), ("fail busy", ModelUnavailable), ("fail long", ContextTooLong)]
)
async def test_it_fails_when_told_to(text: str, error: type[ModelError]) -> None:
    with pytest.raises(error):
        await ask(ScriptedClient(), asking(text))


async def test_it_cannot_be_reached_while_its_cable_is_pulled(tmp_path: Path) -> None:
    """Neither at the beginning of an answer nor in its middle."""
    client = ScriptedClient()
    client.away = away = tmp_path / "away"
    answer = client.stream(asking("long 2000"))
    assert isinstance(await anext(answer), TextDelta)
    away.touch()
    with pytest.raises(ModelUnavailable):
        await anext(answer)
    with pytest.raises(ModelUnavailable):
        await ask(client, asking("say hello"))
    away.unlink()
    assert "hello" in (await ask(client, asking("say hello"))).text


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


def _calls(answer: ModelAnswer) -> list[tuple[str, Any]]:
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
    calls = tuple(ToolCall(call.id, call.name, literal_text("{}")) for call in spawned.calls)
    results = tuple(PromptMessage(Role.TOOL, literal_text("queued"), tool_call_id=call.id) for call in calls)
    after = replace(
        request, messages=(*request.messages, PromptMessage(Role.ASSISTANT, literal_text(""), calls), *results)
    )
    assert [name for name, _ in _calls(await ask(ScriptedClient(), after))] == ["sub_agent_wait"]


async def test_a_sub_agent_does_what_its_task_says() -> None:
    answer = await ask(ScriptedClient(), asking("say found it", purpose=UsagePurpose.SUBAGENT))
    assert "found it" in answer.text


def _after_round(*results: str, note: str = "") -> ModelRequest:
    """`split one | two`, and what came of it."""
    calls = tuple(ToolCall(f"c{number}", "sub_agent", literal_text("{}")) for number, _ in enumerate(results))
    messages = [
        *asking("split one | two").messages,
        PromptMessage(Role.ASSISTANT, literal_text(""), calls),
        *(PromptMessage(Role.TOOL, CleanText(text), tool_call_id=f"c{at}") for at, text in enumerate(results)),
        *([PromptMessage(Role.USER, CleanText(note))] if note else ()),
    ]
    return replace(asking(""), messages=tuple(messages))


async def test_what_sub_agents_answered_it_passes_on_without_the_frame() -> None:
    answer = await ask(ScriptedClient(), _after_round(framed("Two tests.", "X7"), framed("None.", "Y8")))
    assert answer.text == f"The sub-agents answered:\n\n> Two tests.\n\n> None.\n\n{SIGNATURE}"


_DONE = 'Sub-agent AB12 (explore) "count the files" completed after 10 s, 403 tokens.\n\nTwelve.\n\n' + SIGNATURE
_ENDED = over(TaskState.FAILED, reason="killed_by_signal_9", tokens=0, took_ms=2_000)
_KILLED = result_text(replace(_ENDED, id="CD34", sub_type="code", label=CleanText("mend it")), 4_000)


async def test_it_tells_which_sub_agent_did_not_complete_and_why() -> None:
    """As somebody would who watched: named by their tasks, without ids, and with what may be done about it."""
    answer = await ask(ScriptedClient(), _after_round(framed(_DONE, "X7"), framed(_KILLED, "Y8")))
    assert answer.text == (
        "The sub-agents answered: 1 of 2 completed.\n\n"
        "**count the files** (explore, 10 s, 403 tokens)\n\n> Twelve.\n\n"
        "**mend it** (code, 2 s) failed: its process was killed by signal 9.\n\n"
        "What did not complete is missing here; the others were not disturbed by it. /retry does all of it once more."
        f"\n\n{SIGNATURE}"
    )


async def test_several_that_ended_together_are_told_apart() -> None:
    both = f"{_DONE}\n\n{_KILLED}"
    answer = await ask(ScriptedClient(), asking(f"{PROMPTS.woken}\n\n{framed(both, 'X7')}"))
    opening = "The sub-agents in the background have ended: 1 of 2 completed."
    assert answer.text.startswith(f"{opening}\n\n**count the files**")
    assert "\n\n**mend it** (code, 2 s) failed: its process was killed by signal 9." in answer.text


async def test_whoever_speaks_of_sub_agents_gets_some() -> None:
    """No word has to be learned, and they take long enough to be seen at work."""
    answer = await ask(ScriptedClient(), asking("Please have three helpers do this: read it, say hi and test it"))
    assert _calls(answer) == [
        ("sub_agent", {"type": "explore", "task": "slow 5 read it", "label": "read it"}),
        ("sub_agent", {"type": "explore", "task": "say hi"}),
        ("sub_agent", {"type": "explore", "task": "slow 7 test it", "label": "test it"}),
    ]
    behind = await ask(ScriptedClient(), asking("Compare frameworks with two sub-agents in the background"))
    assert [name for name, _ in _calls(behind)] == ["sub_agent_spawn", "sub_agent_spawn"]


async def test_a_sub_agent_that_is_told_of_others_starts_none() -> None:
    answer = await ask(ScriptedClient(), asking("use three sub-agents", purpose=UsagePurpose.SUBAGENT))
    assert not answer.calls


@pytest.mark.parametrize("name", STRATEGIES)
async def test_it_asks_for_each_strategy_by_its_name(name: str) -> None:
    """What it asks for is valid."""
    answer = await ask(ScriptedClient(), asking(f"orchestrate {name} cats | dogs | birds"))
    [call] = answer.calls
    assert call.name == "orchestrate"
    arguments = json.loads(call.arguments)
    jsonschema.validate(arguments, schema())
    assert strategy_of(arguments, ("explore", "general")).name == name


async def test_as_a_lead_it_splits_by_the_goal_and_joins_without_splitting_again() -> None:
    """A form that is asked of somebody else, in what he wrote, is none."""
    goal = "# What all of it is for\nbow | stern"
    asked = f"You lead a piece of work.\n\n{goal}\n\nAt most 2 parts.\n\n" + '{"parts": []}'
    played = part_played(asked)
    assert played is not None
    assert json.loads(played.task) == {"parts": [{"task": "bow"}, {"task": "stern"}]}
    joined = part_played(f"You lead.\n\n{goal}\n\n# Material\n\n" + framed('{"parts": []}', "X7"))
    assert joined is not None
    assert not joined.is_answer


async def test_an_approved_plan_is_ticked_off() -> None:
    plan = "/plan a trip\n\nThe user approved this plan, and the task list holds its steps.\n\n**Plan: a trip**"
    request = asking(f"{plan}\n\n**S1. Look at it**\n\n**S2. Do it** (after S1)")
    [(name, arguments)] = _calls(await ask(ScriptedClient(), request))
    assert (name, [todo["text"] for todo in arguments["todos"]]) == ("todo_write", ["S1: Look at it", "S2: Do it"])
    called = PromptMessage(Role.ASSISTANT, literal_text(""), (ToolCall("c", "todo_write", literal_text("{}")),))
    result = PromptMessage(Role.TOOL, literal_text("ok"), tool_call_id="c")
    after = await ask(ScriptedClient(), replace(request, messages=(*request.messages, called, result)))
    assert "- S1 Look at it: done\n- S2 Do it: done" in after.text


async def test_what_was_noted_before_is_not_what_is_said_now() -> None:
    """As after a plan that was denied."""
    noted = "The user did not approve this plan.\n\n<now>\nMonday\n</now>\n\nsay hi"
    assert (await ask(ScriptedClient(), asking(noted))).text == f"hi\n\n{SIGNATURE}"


async def test_it_says_what_it_can_do() -> None:
    assert HELP in (await ask(ScriptedClient(), asking("help"))).text
    assert HINT in (await ask(ScriptedClient(), asking("hello"))).text
    assert HINT not in (await ask(ScriptedClient(), asking("hello", "hello again"))).text


async def test_a_note_on_failures_is_nobodys_request() -> None:
    note = "<tool-failures>\n- sub_agent: killed\nFind the cause.\n</tool-failures>"
    answer = await ask(ScriptedClient(), _after_round("Its process was killed by signal 9.", note=note))
    assert answer.text.startswith("The sub-agents answered:\n\n> Its process was killed by signal 9.")


async def test_woken_it_tells_what_its_sub_agents_did() -> None:
    """The time of day stands behind what nobody wrote."""
    woken = f"{PROMPTS.woken}\n\n{framed('Two tests.', 'X7')}\n\n<now>\nMonday\n</now>"
    answer = await ask(ScriptedClient(), asking(woken))
    assert answer.text == f"The sub-agents in the background have ended:\n\n> Two tests.\n\n{SIGNATURE}"
