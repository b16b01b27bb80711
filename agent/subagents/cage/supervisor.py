"""One child process from its start to its end: heard, timed by its parent, killed with its group, reaped."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

import structlog

from agent.limits import SUBAGENT_CANCEL_S
from agent.running.deadlines import Deadline
from agent.subagents.cage.cages import Cage, Held
from agent.subagents.cage.exchange import Exchange, Verdict
from agent.subagents.cage.orders import ChildEnding, ChildOrder, Host
from agent.subagents.inside.restraint import restrain_process
from agent.subagents.wire.frames import Limits
from agent.tools.allotment import AllotmentSpent
from agent.tools.execution.processes import family
from agent.tools.execution.reaping import undisturbed
from gateway.contracts.errors import BudgetSpent
from gateway.contracts.ports import Clock, Scrubber
from gateway.contracts.reasons import Reason
from gateway.contracts.subagents import TaskState

COMMAND: Final = (sys.executable, "-S", "-m", "agent.subagents.child")
"""Without `site`: a child has the standard library and us, and nothing that is installed runs in it at its start."""

_log = structlog.get_logger(__name__)


class Supervisor:
    """Runs children, each in a cage of its own."""

    def __init__(self, cage: Cage, scrubber: Scrubber, clock: Clock, *, command: Sequence[str] = COMMAND) -> None:
        self._cage = cage
        self._scrubber = scrubber
        self._clock = clock
        self._command = tuple(command)

    async def run(self, order: ChildOrder, host: Host) -> ChildEnding:
        """Carry an order out. A child that fails, floods, dies or takes too long is an ending, and so is a spent
        budget; whatever else the host raises is raised. Cancelling kills it.

        When this returns or raises, every process of the child is dead and reaped.
        """
        age_s = self._stopwatch()
        try:
            held = await self._cage.start(self._named(order), order.home, writes=order.writes)
        except OSError as error:
            _log.error("subagent.not_started", task_id=order.init.task_id, error=type(error).__name__)
            return self._ending(Verdict(TaskState.FAILED, Reason.NOT_STARTED), age_s(), ready_ms=None)
        _log.info("subagent.started", task_id=order.init.task_id, pid=held.process.pid)
        exchange = self._exchange(held, order, host, age_s)
        try:
            _restrain(held, order.init.limits)
            verdict = await _until_over(exchange, order.limit_s)
        finally:
            await undisturbed(lambda: self._end(held, exchange, order.init.task_id))
        return self._ending(verdict, age_s(), ready_ms=exchange.ready_ms)

    def _named(self, order: ChildOrder) -> Sequence[str]:
        """Behind the command, which does not read it, stands the id that the board shows: whoever watches this machine
        finds the processes of a sub-agent by it."""
        return (*self._command, order.init.task_id)

    def _stopwatch(self) -> Callable[[], float]:
        began_s = self._clock.monotonic_s()
        return lambda: self._clock.monotonic_s() - began_s

    def _exchange(self, held: Held, order: ChildOrder, host: Host, age_s: Callable[[], float]) -> Exchange:
        init = replace(
            order.init,
            workspace=self._cage.home_inside(order.home),
            confinement=self._cage.confinement,
        )
        return Exchange(held, host, init, order.home if order.writes else None, age_s, share=order.share)

    async def _end(self, held: Held, exchange: Exchange, task_id: str) -> None:
        """However it went. Where the child's end was not its own, it may say goodbye first."""
        if not exchange.is_over:
            await exchange.ask_to_end("no longer wanted", within_s=SUBAGENT_CANCEL_S)
        exchange.hang_up()
        is_reaped = await held.kill()
        await exchange.close()
        if not is_reaped:
            _log.error("subagent.survivor", task_id=task_id, pid=held.process.pid)
        if errors := exchange.errors.text():
            log = _log.debug if exchange.has_completed else _log.warning
            log("subagent.stderr", task_id=task_id, text=self._scrubber.scrub(errors))

    def _ending(self, verdict: Verdict, age_s: float, *, ready_ms: int | None) -> ChildEnding:
        return ChildEnding(
            verdict.state,
            verdict.reason,
            verdict.response,
            self._cage.confinement,
            round(1000 * age_s),
            ready_ms,
        )


def _restrain(held: Held, limits: Limits) -> None:
    """From outside, before it has been told anything: also one that does not do its part is held to its limits."""
    done: set[int] = set()
    while new := set(family(held.process.pid)) - done:
        for pid in new:
            with suppress(OSError):  # it has ended
                restrain_process(pid, limits)
        done |= new


async def _until_over(exchange: Exchange, limit_s: float) -> Verdict:
    """Talk, for as long as there is time and money."""
    deadline = Deadline(limit_s)
    try:
        async with deadline:
            return await exchange.until_over()
    except TimeoutError:
        if not deadline.has_passed:
            raise
        return Verdict(TaskState.TIMED_OUT, Reason.TOO_LONG.of(f"{limit_s:g}"), exchange.said)
    except BudgetSpent:
        return Verdict(TaskState.FAILED, Reason.BUDGET_SPENT, exchange.said)
    except AllotmentSpent:
        return Verdict(TaskState.FAILED, Reason.ALLOTMENT_SPENT, exchange.said)
