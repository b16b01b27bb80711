"""From an order to an ended sub-agent, on a real database: what is ended how, who waits, what is refused."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from agent.features.plans import NoPlan
from agent.limits import SUBAGENT_DEPTH_MAX, SUBAGENT_LABEL_CHARS_MAX, SUBAGENT_PROMPT_CHARS_MAX, SUBAGENTS_LIVE_MAX
from agent.subagents.orchestration import write_plan
from agent.subagents.runs import SubagentRun, SubOrder
from agent.tools.tool import CallOrigin, ToolContext
from gateway.contracts.budgets import Measure
from gateway.contracts.errors import BudgetSpent, ConfigError, QueryRefused, Reason, ToolError
from gateway.contracts.messages import CleanText, literal_code
from gateway.contracts.sessions import UsagePurpose
from gateway.contracts.subagents import Audited, SubTask, SubTypeChange, TaskEnding, TaskMode, TaskState
from gateway.store import Store
from gateway.tasks import Deadline, while_asking
from tests.contract.store_samples import ANN
from tests.contract.subtask_samples import asked, started
from tests.parts.scripted_children import ScriptedChildren, echo, never, scripted_children
from tests.parts.waiting import PATIENCE_S, until

SECRET = "ghp_" + "aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5"


def order(task: str = "look around", sub_type: str = "explore", *, label: str = "", limit_s: float = 60) -> SubOrder:
    return SubOrder(sub_type, CleanText(task), CleanText(label), limit_s)


async def alive(made: ScriptedChildren, count: int) -> None:
    """Return when so many run."""
    await until(lambda: len(made.began) >= count)


async def stopped(task: asyncio.Task[object]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


# --- how it ends


async def test_what_it_said_last_is_its_result_and_is_clean(sqlite_store: Store) -> None:
    async def tells(_life: SubagentRun) -> str:
        return f"the token is {SECRET}"

    async with scripted_children(sqlite_store, tells) as made:
        task = await made.agents.delegate(made.context, order())
        assert task.state is TaskState.COMPLETED
        assert SECRET not in task.result
        assert task.result.startswith("the token is [redacted")
        assert (task.parent_session_id, task.depth, task.mode) == (
            made.context.call_origin.session_id,
            1,
            TaskMode.INLINE,
        )
        assert task.finished_at_ms >= task.started_at_ms >= task.created_at_ms
        assert made.board.seen == [
            (task.id, TaskState.QUEUED),
            (task.id, TaskState.RUNNING),
            (task.id, TaskState.COMPLETED),
        ]
        assert made.board.rung == 0


@pytest.mark.parametrize(
    ("error", "reason"),
    [(BudgetSpent(Measure.TOKENS, reset_at_ms=0), "budget_spent"), (RuntimeError("a fault of ours"), "crashed")],
)
async def test_whatever_goes_wrong_is_an_ending_with_a_reason(
    sqlite_store: Store, error: Exception, reason: str
) -> None:
    async def fails(_life: SubagentRun) -> str:
        raise error

    async with scripted_children(sqlite_store, fails) as made:
        task = await made.agents.delegate(made.context, order())
        assert (task.state, task.reason) == (TaskState.FAILED, reason)


@pytest.mark.parametrize("error", [QueryRefused("no"), ConfigError("the database is damaged"), RuntimeError("ours")])
async def test_whoever_asks_is_told_what_keeps_it_from_being_written_down(
    sqlite_store: Store, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """At once, and whatever it is: nobody waits for what never begins."""

    async def fails(*_: object, **__: object) -> SubTask:
        raise error

    async with scripted_children(sqlite_store) as made:
        monkeypatch.setattr(sqlite_store.tasks, "open", fails)
        for asks in (made.agents.delegate, made.agents.spawn):
            with pytest.raises(type(error)):
                await asyncio.wait_for(asks(made.context, order()), PATIENCE_S)
        await until(lambda: not list(made.registry))


async def test_an_inline_one_ends_with_the_turn_that_waits_for_it(sqlite_store: Store) -> None:
    was_cancelled = asyncio.Event()

    async def works(_life: SubagentRun) -> str:
        try:
            return await never(_life)
        finally:
            was_cancelled.set()

    async with scripted_children(sqlite_store, works) as made:
        running = asyncio.create_task(made.agents.delegate(made.context, order()))
        await alive(made, 1)
        await stopped(running)
        assert was_cancelled.is_set()
        await made.began[0].written.wait()
        (task,) = await made.newest()
        assert (task.state, task.reason) == (TaskState.CANCELLED, "turn_ended")


async def test_one_whose_turn_may_do_nothing_more_ends(sqlite_store: Store) -> None:
    """Its permit says so where a call is made, before anybody cancels it."""

    async def ended() -> None:
        raise asyncio.CancelledError

    async def asks(run: SubagentRun) -> str:
        await run.assignment.context.permit()
        return "went on"

    async with scripted_children(sqlite_store, asks) as made:
        task = await made.agents.delegate(replace(made.context, permit=ended), order())
        assert (task.state, task.result) == (TaskState.CANCELLED, "")


async def test_what_works_for_a_sub_agent_ends_with_it(sqlite_store: Store) -> None:
    async def splits(run: SubagentRun) -> str:
        if run.task.depth == 1:
            inner = asyncio.create_task(made.agents.delegate(run.assignment.context, order("deeper")))
            await until(lambda: len(made.began) == 2)
            inner.add_done_callback(lambda task: task.cancelled() or task.exception())
            return "I do not wait for it"
        return await never(run)

    async with scripted_children(sqlite_store, splits) as made:
        await made.agents.delegate(made.context, order())
        await made.began[1].written.wait()
        inner = next(task for task in await made.newest() if task.depth == 2)
        assert (inner.state, inner.reason) == (TaskState.CANCELLED, "parent_ended")
        assert inner.parent_session_id == made.began[0].task.session_id


# --- in the background


async def test_one_in_the_background_outlives_its_turn_and_rings_when_it_is_over(sqlite_store: Store) -> None:
    gate = asyncio.Event()

    async def turn_is_over() -> None:
        raise asyncio.CancelledError

    async def works(run: SubagentRun) -> str:
        await gate.wait()
        await run.assignment.context.permit()
        return "found it"

    async with scripted_children(sqlite_store, works) as made:
        task = await made.agents.spawn(replace(made.context, permit=turn_is_over), order())
        assert task.state is TaskState.QUEUED
        await alive(made, 1)
        gate.set()
        await made.began[0].written.wait()
        (ended,) = await made.newest()
        assert (ended.state, ended.result, ended.mode) == (TaskState.COMPLETED, "found it", TaskMode.BACKGROUND)
        assert made.board.rung == 1


async def test_whoever_wants_one_ended_says_so_in_the_database(sqlite_store: Store) -> None:
    async with scripted_children(sqlite_store, never) as made:
        task = await made.agents.spawn(made.context, order())
        await alive(made, 1)
        assert await sqlite_store.tasks.want_cancelled(ANN) == 1
        await made.began[0].written.wait()
        (ended,) = await made.newest()
        assert (ended.id, ended.state, ended.reason) == (task.id, TaskState.CANCELLED, "cancelled")


async def test_one_that_was_found_lost_does_nothing_more(sqlite_store: Store) -> None:
    """Its process was paused for too long; others have ended it and said so."""
    gate, permitted = asyncio.Event(), []

    async def works(run: SubagentRun) -> str:
        await gate.wait()
        await run.assignment.context.permit()
        permitted.append(run)
        return "went on"

    async with scripted_children(sqlite_store, works) as made:
        task = await made.agents.spawn(made.context, order())
        await alive(made, 1)
        await made.registry.permit(task.id)
        lost = await sqlite_store.tasks.lose(now_ms=task.created_at_ms + 3_600_000)
        assert [one.id for one in lost] == [task.id]
        made.registry._alive_until_s = 0.0  # the pause
        gate.set()
        await made.began[0].written.wait()
        (ended,) = await made.newest()
        assert (ended.state, ended.reason) == (TaskState.FAILED, "worker_lost")
        assert permitted == []


@pytest.mark.parametrize("mode", TaskMode)
async def test_one_that_was_found_lost_or_erased_ends_whatever_it_does(sqlite_store: Store, mode: TaskMode) -> None:
    """It may ask for nothing more for a long time: its process is ended all the same, and nothing is written down."""
    async with scripted_children(sqlite_store, never) as made:
        start = made.agents.delegate if mode is TaskMode.INLINE else made.agents.spawn
        both = [asyncio.create_task(start(made.context, order())) for _ in range(2)]
        await alive(made, 2)
        await sqlite_store.tasks.finish(
            made.began[0].task.id, TaskEnding(TaskState.FAILED, 1, literal_code(Reason.WORKER_LOST))
        )
        await made.began[0].written.wait()
        assert (await made.newest())[1].reason == "worker_lost"
        await sqlite_store.people.erase(ANN)
        await made.began[1].written.wait()
        assert await made.newest() == []
        heard = await asyncio.gather(*both, return_exceptions=True)
        assert any(isinstance(said, ToolError) for said in heard) is (mode is TaskMode.INLINE)


async def test_one_that_a_run_spawns_which_lost_its_lane_never_begins(sqlite_store: Store) -> None:
    async with scripted_children(sqlite_store, never) as made:
        await made.agents.spawn(replace(made.context, fence=10_000), order())
        await until(lambda: not list(made.registry))
        (task,) = await made.newest()
        assert (task.state, made.began) == (TaskState.CANCELLED, [])
        assert await sqlite_store.tasks.due_wakes(limit=9) == []


async def test_what_still_lives_when_its_process_ends_is_ended(sqlite_store: Store) -> None:
    """Nobody waits for the inline one any more; the background one was lost, and its user has to be told."""
    async with scripted_children(sqlite_store, never) as made:
        running = asyncio.create_task(made.agents.delegate(made.context, order("inline")))
        await made.agents.spawn(made.context, order("background"))
        await alive(made, 2)
    running.cancel()
    ended = {task.mode: (task.state, task.reason) for task in await made.newest()}
    assert ended == {
        TaskMode.INLINE: (TaskState.CANCELLED, "turn_ended"),
        TaskMode.BACKGROUND: (TaskState.FAILED, "worker_lost"),
    }


# --- clocks


async def standstill(limit: Deadline) -> bool:
    """Whether the limit stands still while somebody is asked here."""
    with while_asking():
        before_s = limit.left_s
        await asyncio.sleep(0.02)
        return limit.left_s == before_s


async def test_a_person_who_is_asked_by_a_child_stops_the_clock_of_whoever_waits_for_the_child(
    sqlite_store: Store,
) -> None:
    limit, stood = Deadline(60), list[bool]()

    async def asks(_life: SubagentRun) -> str:
        stood.append(await standstill(limit))
        return "approved"

    async with scripted_children(sqlite_store, asks) as made, limit:
        await made.agents.delegate(made.context, order())
        await made.agents.spawn(made.context, order())
        await alive(made, 2)
        await made.began[1].written.wait()
    assert stood == [True, False], "inline it does, from the background it does not"


# --- who waits


async def test_a_tenth_of_one_session_waits_until_one_of_nine_is_over(sqlite_store: Store) -> None:
    gates = {f"part {number}": asyncio.Event() for number in range(SUBAGENTS_LIVE_MAX + 1)}

    async def works(run: SubagentRun) -> str:
        await gates[run.task.prompt].wait()
        return "done"

    async with scripted_children(sqlite_store, works) as made:
        *nine, tenth = gates
        running = [asyncio.create_task(made.agents.delegate(made.context, order(part))) for part in nine]
        await alive(made, SUBAGENTS_LIVE_MAX)
        running.append(asyncio.create_task(made.agents.delegate(made.context, order(tenth))))
        while len(board := await made.newest()) <= SUBAGENTS_LIVE_MAX:
            assert not running[-1].done(), "it waits, and nobody is told that it failed"
            await asyncio.sleep(0.01)
        assert [task.state for task in board].count(TaskState.RUNNING) == SUBAGENTS_LIVE_MAX
        (queued,) = (task for task in board if task.state is TaskState.QUEUED)
        first = made.began[0]
        gates[first.task.prompt].set()
        await alive(made, SUBAGENTS_LIVE_MAX + 1)
        assert made.began[-1].task.id == queued.id
        for gate in gates.values():
            gate.set()
        assert {task.state for task in await asyncio.gather(*running)} == {TaskState.COMPLETED}


async def test_a_process_that_is_full_lets_more_wait_and_parents_do_not_starve_their_children(
    sqlite_store: Store,
) -> None:
    async def splits(run: SubagentRun) -> str:
        if run.task.depth < SUBAGENT_DEPTH_MAX:
            return (await made.agents.delegate(run.assignment.context, order("deeper"))).result
        return "from the bottom"

    async with scripted_children(sqlite_store, splits, live_max=1) as made:
        both = await asyncio.gather(*(made.agents.delegate(made.context, order()) for _ in range(2)))
        assert [task.result for task in both] == ["from the bottom"] * 2


async def test_a_place_that_another_process_frees_is_taken(sqlite_store: Store) -> None:
    """The nine of a session are counted in the database."""
    async with scripted_children(sqlite_store, echo) as made:
        session = await sqlite_store.sessions.by_id(made.context.call_origin.session_id)
        assert session is not None
        for number in range(SUBAGENTS_LIVE_MAX):
            elsewhere = replace(asked(session, f"k{number}", mode=TaskMode.BACKGROUND, turn_id="another"))
            await sqlite_store.tasks.open(elsewhere, wake=None)
            assert await started(sqlite_store, f"k{number}")
        running = asyncio.create_task(made.agents.delegate(made.context, order()))
        await until(lambda: made.board.seen)
        assert made.began == []
        assert len(await sqlite_store.tasks.lose(now_ms=10**14)) >= SUBAGENTS_LIVE_MAX
        await running


async def test_one_that_is_ended_while_it_waits_never_begins(sqlite_store: Store) -> None:
    async with scripted_children(sqlite_store, never, live_max=1) as made:
        first = asyncio.create_task(made.agents.delegate(made.context, order("first")))
        await alive(made, 1)
        second = asyncio.create_task(made.agents.delegate(made.context, order("second")))
        await until(lambda: len(made.board.seen) == 3)
        await stopped(second)
        await stopped(first)
        assert [run.task.prompt for run in made.began] == ["first"]


# --- what is refused


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (order(sub_type="wizard"), "there is no sub-agent 'wizard'; there are: explore, .*: choose one of these"),
        (order("  \n"), "needs a task: say in `task`"),
        (order("x" * (SUBAGENT_PROMPT_CHARS_MAX + 1)), "at most"),
    ],
)
async def test_an_order_that_nobody_can_carry_out_leaves_nothing(
    sqlite_store: Store, wrong: SubOrder, said: str
) -> None:
    async with scripted_children(sqlite_store) as made:
        with pytest.raises(ToolError, match=said):
            await made.agents.delegate(made.context, wrong)
        assert await made.newest() == []


AUDITED = Audited(1_000, "admin", "sub-type.change", "sub-type:code", CleanText(""), CleanText(""))


async def test_a_type_that_an_operator_left_no_tool_is_not_sent_out(sqlite_store: Store) -> None:
    """A plan needs one, too, and says so."""
    for name in ("code", "plan"):
        await sqlite_store.sub_types.put(name, SubTypeChange(tools=()), audited=AUDITED)
    async with scripted_children(sqlite_store) as made:
        with pytest.raises(ToolError, match="'code' are switched off"):
            await made.agents.delegate(made.context, order(sub_type="code"))
        with pytest.raises(NoPlan, match="'plan' are switched off"):
            await write_plan(made.agents.delegate, made.context, CleanText("Plan it."))
        assert await made.newest() == []


@pytest.mark.parametrize(
    ("call_origin", "said"),
    [(CallOrigin(), "no conversation"), (CallOrigin("s", "k", SUBAGENT_DEPTH_MAX), "do this part yourself")],
)
async def test_nobodys_and_too_deep_orders_are_refused(sqlite_store: Store, call_origin: CallOrigin, said: str) -> None:
    async with scripted_children(sqlite_store) as made:
        with pytest.raises(ToolError, match=said):
            await made.agents.delegate(replace(made.context, call_origin=call_origin), order())


async def test_nothing_is_spawned_where_nobody_can_be_woken(sqlite_store: Store) -> None:
    async with scripted_children(sqlite_store) as made:
        with pytest.raises(ToolError, match="waited for"):
            await made.agents.spawn(replace(made.context, wake=None), order())


# --- who it is


async def test_it_may_do_what_its_parent_and_its_type_may_and_thinks_with_the_model_of_its_conversation(
    sqlite_store: Store,
) -> None:
    async with scripted_children(sqlite_store) as made:
        await made.agents.delegate(made.context, order(limit_s=1_000_000))
        assignment = made.began[0].assignment
        assert (assignment.model, assignment.purpose, assignment.limit_s) == (
            "demo/scripted",
            UsagePurpose.SUBAGENT,
            300.0,
        )
        own: ToolContext = assignment.context
        assert (own.key, own.role, own.place, own.address) == (
            made.context.key,
            made.context.role,
            made.context.place,
            made.context.address,
        )
        assert own.call_origin == CallOrigin(made.began[0].task.session_id, made.began[0].task.id, 1)
        assert own.enclosures is None
        assert own.suspension is None


async def test_a_model_is_that_of_the_call_else_of_the_type_else_of_the_conversation(sqlite_store: Store) -> None:
    """`cheap` is the one for small work; what a sub-agent asks for itself starts from the model of that one."""
    async with scripted_children(sqlite_store, utility_model="demo/scripted@2ms") as made:
        for name in ("explore", "research", "reviewer", "code"):
            await made.agents.delegate(made.context, order(sub_type=name))
        await made.agents.delegate(made.context, replace(order(sub_type="code"), model="cheap"))
        await made.agents.delegate(made.context, replace(order(sub_type="explore"), model="demo/scripted@1ms"))
    cheap = "demo/scripted@2ms"
    used = [run.assignment.model for run in made.began]
    assert used == [cheap, cheap, cheap, "demo/scripted", cheap, "demo/scripted@1ms"]
    own = "demo/scripted"
    assert [run.assignment.otherwise for run in made.began] == [own, own, own, "", own, ""]


async def test_a_configured_model_is_for_all_of_them(sqlite_store: Store) -> None:
    async with scripted_children(sqlite_store, model="demo/scripted@1ms") as made:
        await made.agents.delegate(made.context, order())
        assert made.began[0].assignment.model == "demo/scripted@1ms"


async def test_a_label_is_one_clean_line(sqlite_store: Store) -> None:
    """Of the task where none is given."""
    async with scripted_children(sqlite_store) as made:
        task = await made.agents.delegate(made.context, order("first line\nsecond " + "x" * 200))
        assert task.label.startswith("first line second x")
        assert len(task.label) == SUBAGENT_LABEL_CHARS_MAX
        named = await made.agents.delegate(made.context, order(label="count\nthings"))
        assert named.label == "count things"


async def test_those_of_one_round_stand_in_the_order_in_which_they_were_asked_for(sqlite_store: Store) -> None:
    """Though they are opened side by side, within one millisecond."""
    names = [f"task {number}" for number in range(8)]
    async with scripted_children(sqlite_store) as made, asyncio.TaskGroup() as group:
        for name in names:
            group.create_task(made.agents.delegate(made.context, order(name)))
    tasks = await sqlite_store.tasks.tasks_of_turn(made.context.turn_id)
    assert [task.label for task in tasks] == names


async def test_a_turn_that_is_taken_again_ends_what_its_earlier_run_waited_for(sqlite_store: Store) -> None:
    """That process died; nobody has found its sub-agents lost yet."""
    async with scripted_children(sqlite_store) as made:
        session = await sqlite_store.sessions.by_id(made.context.call_origin.session_id)
        assert session is not None
        await sqlite_store.tasks.open(asked(session, "ghost"), wake=None)
        assert await started(sqlite_store, "ghost")
        await made.agents.delegate(made.context, order())
        ghost = await sqlite_store.tasks.task("ghost")
        assert ghost is not None
        assert (ghost.state, ghost.reason) == (TaskState.FAILED, "worker_lost")
