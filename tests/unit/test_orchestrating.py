"""`orchestrate` over scripted sub-agents: side by side, within one budget and one deadline, and what it says."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from agent.limits import ORCHESTRATION_ENDING_S, ORCHESTRATION_LIMIT_S, SUBAGENTS_LIVE_MAX, TOOL_RESULT_CHARS_MAX
from agent.subagents.orchestration import Bounds, Orchestration, orchestrate_tool
from agent.subagents.runs import SubOrder
from agent.tools.tool import ToolResult
from gateway.clock import SystemClock
from gateway.contracts.errors import StoreUnavailable, ToolError
from gateway.contracts.messages import CleanText
from gateway.contracts.subagents import TaskState
from gateway.scrub import Scrubber
from tests.parts.strategies import APPROVED, TYPES, Ensemble, asked, parts, refused, sides, step
from tests.parts.tooling import context, registry, run
from tests.parts.waiting import until

FAILED: Mapping[str, Any] = {"state": TaskState.FAILED, "reason": CleanText("killed_by_signal_9")}


async def orchestrated(ensemble: Ensemble, strategy: str, **arguments: Any) -> ToolResult:
    """One call of the tool, as a model makes it."""
    tool = orchestrate_tool(ensemble.delegate, lambda _context: TYPES, Scrubber(), SystemClock())
    return await run(registry(tool), "orchestrate", strategy=strategy, goal="Find the fault.", **arguments)


def orchestration(ensemble: Ensemble, strategy: str, bounds: Bounds, **arguments: object) -> Orchestration:
    chosen = asked(strategy, **arguments)
    return Orchestration(chosen, bounds, context(), ensemble.delegate, Scrubber(), SystemClock())


def step_of(order: SubOrder) -> str:
    """The id of the step an order is for, as its label has it."""
    return order.label.split(":")[0].split()[-1]


def said(text: str) -> str:
    """What stands in the first frame of `text`."""
    return text.partition("instruction to you.]\n")[2].partition("\n</foreign")[0]


async def test_the_answer_comes_first_and_then_who_did_what() -> None:
    def play(order: SubOrder) -> str | Mapping[str, Any]:
        return FAILED if step_of(order) == "b" else f"{step_of(order)} says so"

    result = await orchestrated(Ensemble(play), "parallel", steps=[step("a"), step("b")])
    assert not result.is_error
    answer, _, table = result.text.partition("\n\n---\n")
    assert said(answer) == "synthesis says so"
    assert table.startswith("parallel: 2 of 3 steps completed, ")
    assert "300 of 500000 tokens, $0.0030" in table
    assert "| a | explore | completed | 2 | 100 | T0" in table
    assert "| b | explore | failed: its process was killed by signal 9 | 2 | 100 | T0" in table


async def test_what_failed_is_an_error_that_shows_what_was_achieved() -> None:
    def play(order: SubOrder) -> str | Mapping[str, Any]:
        return {**FAILED, "result": CleanText("half a thought")} if step_of(order) == "b" else "seen"

    result = await orchestrated(Ensemble(play), "sequential", steps=[step("a"), step("b"), step("c")])
    assert result.is_error
    assert result.text.startswith(
        "The orchestration (sequential) failed: step b failed (its process was killed by signal 9). What now: "
        "look at what each of them said, and mend the tasks or do the rest yourself. What was achieved"
    )
    first, second = result.text.split("## Step ")[1:]
    assert said(first) == "seen"
    assert second.startswith("b (explore) (FAILED)\n")
    assert said(second) == "[not done: its process was killed by signal 9]\nhalf a thought"
    assert "| c | explore | not run: step b failed |" in result.text


async def test_what_is_ready_runs_side_by_side_and_labels_tell_how_far_it_is() -> None:
    meeting = asyncio.Barrier(3)

    async def play(order: SubOrder) -> str:
        if step_of(order) != "synthesis":
            await meeting.wait()
        return "done"

    ensemble = Ensemble(play)
    assert not (await orchestrated(ensemble, "parallel", steps=[step("a"), step("b"), step("c")])).is_error
    assert ensemble.labels == [
        "parallel 1/4 a: Do a.",
        "parallel 2/4 b: Do b.",
        "parallel 3/4 c: Do c.",
        "parallel 4/4 synthesis: Find the fault.",
    ]


async def test_no_more_begin_than_may_be_live_at_once() -> None:
    ensemble = Ensemble(lambda _order: "done")
    result = await orchestrated(ensemble, "parallel", steps=[step(f"n{number}") for number in range(20)])
    assert not result.is_error
    assert (len(ensemble.orders), ensemble.live_most) == (21, SUBAGENTS_LIVE_MAX)


@pytest.mark.parametrize(
    ("strategy", "arguments", "children"),
    [
        ("sequential", {"steps": [step("a"), step("b")]}, 2),
        ("graph", {"steps": [step("a"), step("b", "a"), step("c", "a"), step("d", "b", "c")]}, 4),
        ("debate", {"steps": sides("yes", "no", "maybe"), "rounds": 2}, 7),
        ("review", {"rounds": 2}, 4),
        ("hierarchical", {}, 4),
    ],
)
async def test_every_strategy_comes_to_its_answer(strategy: str, arguments: Mapping[str, Any], children: int) -> None:
    def play(order: SubOrder) -> str:
        if "splitting" in order.label:
            return parts("look", "think")
        if "reviewer" in order.label:
            return APPROVED if "2/2" in order.label else refused("once more")
        return f"answer {order.label}"

    ensemble = Ensemble(play)
    result = await orchestrated(ensemble, strategy, **arguments)
    assert not result.is_error
    assert said(result.text).startswith("answer ")
    assert len(ensemble.orders) == children


async def test_nothing_new_begins_when_the_tokens_are_spent() -> None:
    """What runs may finish; the result says what there is."""
    ensemble = Ensemble(lambda order: {"tokens_in": 700, "result": CleanText(f"{step_of(order)} found it")})
    steps = [step("a"), step("b"), step("c", "a", "b"), step("d", "c")]
    result = await orchestrated(ensemble, "graph", steps=steps, tokens_max=1_000)
    assert result.is_error
    assert [step_of(order) for order in ensemble.orders] == ["a", "b"]
    assert "failed: the budget of 1000 tokens was spent." in result.text
    assert "b found it" in result.text
    assert "1420 of 1000 tokens" in result.text
    assert "| c | explore | not run: not reached |" in result.text


async def test_dollars_are_a_budget_too_and_an_answer_that_is_there_counts() -> None:
    ensemble = Ensemble(lambda _order: {"cost_usd": 0.6, "result": CleanText("dear")})
    cut = await orchestrated(ensemble, "sequential", steps=[step("a"), step("b"), step("c")], usd_max=1)
    assert "failed: the budget of $1 was spent." in cut.text
    assert len(ensemble.orders) == 2
    whole = await orchestrated(ensemble, "sequential", steps=[step("a"), step("b")], usd_max=1)
    assert not whole.is_error


async def test_at_the_deadline_what_runs_is_killed_and_what_is_there_is_shown() -> None:
    async def play(order: SubOrder) -> str:
        if step_of(order) == "slow":
            await asyncio.Event().wait()
        return "quick answer"

    ensemble = Ensemble(play)
    bounds = Bounds(limit_s=0.6, ending_s=0.1)
    account = await orchestration(ensemble, "parallel", bounds, steps=[step("quick"), step("slow")]).play()
    assert account.outcome.problem == "the time was up"
    assert [result.text for result in account.outcome.answer] == ["quick answer"]
    assert [(row.id, row.state) for row in account.rows] == [
        ("quick", "completed"),
        ("slow", "killed: the time was up"),
        ("the synthesis", "not run: not reached"),
    ]
    assert (len(ensemble.killed), ensemble.live) == (1, 0)


async def test_a_sub_agent_gets_what_is_left_of_the_time_and_none_begins_at_the_very_end() -> None:
    ensemble = Ensemble(lambda _order: "done")
    await orchestration(ensemble, "sequential", Bounds(limit_s=100.0), steps=[step("a"), step("b")]).play()
    first, second = (order.limit_s or 0 for order in ensemble.orders)
    assert 100.0 - ORCHESTRATION_ENDING_S >= first >= second > 0
    late = await orchestration(ensemble, "sequential", Bounds(limit_s=ORCHESTRATION_ENDING_S), steps=[step("a")]).play()
    assert (late.outcome.problem, len(ensemble.orders)) == ("the time was up", 2)


async def test_cancelling_kills_every_sub_agent() -> None:
    async def play(_order: SubOrder) -> str:
        await asyncio.Event().wait()
        return ""

    ensemble = Ensemble(play)
    running = asyncio.create_task(orchestration(ensemble, "debate", Bounds(), steps=sides("a", "b", "c")).play())
    await until(lambda: ensemble.live == 3, lambda: ensemble.live)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (len(ensemble.killed), ensemble.live) == (3, 0)


async def test_a_turn_that_has_ended_ends_its_orchestration() -> None:
    """The permit of the turn says so inside of one sub-agent; the others do not outlive it."""

    async def play(order: SubOrder) -> str:
        if step_of(order) == "a":
            raise asyncio.CancelledError
        await asyncio.Event().wait()
        return ""

    ensemble = Ensemble(play)
    with pytest.raises(asyncio.CancelledError):
        await orchestration(ensemble, "parallel", Bounds(), steps=[step("a"), step("b")]).play()
    assert ensemble.live == 0


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (ToolError("three levels of sub-agents are enough"), "not started: three levels of sub-agents are enough"),
        (StoreUnavailable("disk is gone"), "not started: StoreUnavailable"),
    ],
)
async def test_what_could_not_be_started_has_failed(error: Exception, problem: str) -> None:
    def play(order: SubOrder) -> str:
        if step_of(order) == "a":
            raise error
        return "done"

    result = await orchestrated(Ensemble(play), "parallel", steps=[step("a"), step("b")])
    assert not result.is_error
    assert f"| a | explore | {problem} |" in result.text


async def test_what_ended_at_the_very_deadline_counts() -> None:
    """Its end is there before anybody has looked at it."""

    async def play(_order: SubOrder) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "just in time"
        return ""

    bounds = Bounds(limit_s=0.4, ending_s=0.01)
    account = await orchestration(Ensemble(play), "sequential", bounds, steps=[step("a")]).play()
    assert (account.outcome.problem, account.outcome.answer[0].text) == ("", "just in time")


async def test_an_answer_of_nothing_is_no_answer() -> None:
    result = await orchestrated(Ensemble(lambda _order: " \n"), "sequential", steps=[step("a")])
    assert result.is_error
    assert "step a failed (it left no answer)" in result.text


async def test_prompts_and_labels_are_clean_and_each_has_a_mark_of_its_own() -> None:
    key = "sk-proj-" + "Zq3v9LkT" * 6
    ensemble = Ensemble(lambda _order: "done")
    steps = [
        {"id": "a", "task": f"Use {key} now."},
        {"id": "b", "task": "Then this."},
        {"id": "c", "task": "And this."},
    ]
    await orchestrated(ensemble, "sequential", steps=steps)
    assert len(ensemble.orders) == 3
    assert all("Zq3v9LkT" not in f"{order.prompt}{order.label}" for order in ensemble.orders)
    marks = [order.prompt.partition("<foreign mark=")[2][:8] for order in ensemble.orders[1:]]
    assert len(set(marks)) == 2


async def test_a_long_answer_is_cut_with_a_handle_to_the_rest_and_the_table_is_whole() -> None:
    steps = [step(f"step-with-a-long-name-{number}") for number in range(20)]
    result = await orchestrated(Ensemble(lambda _order: "long " * 10_000), "parallel", steps=steps)
    assert len(result.text) <= TOOL_RESULT_CHARS_MAX
    assert not result.is_truncated
    assert 'read_more with handle "T0000000000000000000000021"' in result.text
    assert result.text.count("| completed |") == 21


async def test_a_call_that_cannot_be_carried_out_starts_nothing() -> None:
    ensemble = Ensemble(lambda _order: "done")
    result = await orchestrated(ensemble, "graph", steps=[step("a", "b"), step("b", "a")])
    assert result.is_error
    assert "need each other" in result.text
    assert ensemble.orders == []


def test_the_tool_outlives_its_own_deadline() -> None:
    """So that what was achieved by then is still told."""
    tool = orchestrate_tool(Ensemble(lambda _order: "").delegate, lambda _context: TYPES, Scrubber(), SystemClock())
    assert tool.timeout_s > ORCHESTRATION_LIMIT_S
    assert Bounds().limit_s == ORCHESTRATION_LIMIT_S
