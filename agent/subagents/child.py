"""A sub-agent's own process: `python -m agent.subagents.child`. The composition root of what runs in it.

It reads frames from standard input and writes frames to standard output. It has no key, no database and no network.
It is small, because every module that it imports is waited for at every start: nothing here may lead to the SDK of a
model or a platform, to SQL or to the logs.

Its parent can end it at any moment, by `cancel` or by closing the pipe: whatever runs then is not waited for.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Final, Never

from agent.limits import TOOLS_PARALLEL_MAX
from agent.subagents.cage.confinement import CONFINEMENT, Confinement, confine_this_process
from agent.subagents.codec import FrameTooLong, Unread
from agent.subagents.frames import (
    PROTOCOL,
    Call,
    Cancel,
    Done,
    Failed,
    Frame,
    Init,
    ModelDelta,
    ModelResult,
    Ready,
    ToolOutcome,
)
from agent.subagents.inside.last_words import LastWords
from agent.subagents.inside.own_tools import OwnTools
from agent.subagents.inside.parent import Parent
from agent.subagents.inside.pipes import Pipes
from agent.subagents.inside.restraint import die_with_parent, restrain, share_one_heap
from agent.subagents.inside.rounds import Rounds

_ASKED_TO: Final = 0
_FAILED: Final = 1


class Child:
    """One sub-agent, from its `init` to its end, which is the end of the process."""

    def __init__(self, pipes: Pipes, words: LastWords) -> None:
        self._pipes = pipes
        self._words = words
        self._frames = pipes.frames()
        self._parent = Parent(pipes.send)
        self._is_ready = threading.Event()

    def run(self) -> Never:
        """Live. What cannot be helped becomes an `error` frame with the name of its class."""
        try:
            self._live()
        except Exception as error:  # noqa: BLE001 - the root of the process: its parent is told, and it ends
            self._end(Failed(type(error).__name__))

    def _live(self) -> Never:
        init = self._first()
        if init.protocol != PROTOCOL:
            self._end(Failed(f"this sub-agent speaks protocol {PROTOCOL}, not {init.protocol}"))
        own = OwnTools(init.tools, Path(init.workspace) if init.workspace else None)
        confinement = _confined(init, own)
        # The threads stand behind the confinement, which holds only what was started in it, and before the limits,
        # which may allow no more of them.
        with asyncio.Runner() as runner:
            runner.get_loop().set_default_executor(_standing_threads())
            threading.Thread(target=self._listen, args=[runner.get_loop()], daemon=True).start()
            restrain(init.limits)
            self._pipes.send(Ready(os.getpid(), confinement))
            self._is_ready.set()
            runner.run(self._work(init, own))
        raise AssertionError("the work ends the process")

    def _first(self) -> Init:
        """What the parent has to say first. A parent that goes away before has nothing to be told."""
        for frame in self._frames:
            match frame:
                case Init():
                    return frame
                case Cancel():
                    break
                case _:
                    self._pass_over(frame)
        os._exit(_ASKED_TO)

    async def _work(self, init: Init, own: OwnTools) -> Never:
        began_s = time.monotonic()
        rounds = Rounds(init)
        offered = [tool.name for tool in init.tools]
        while rounds.ending is None:
            calls = rounds.answered(await self._parent.model(rounds.next_call()))
            outcomes = await asyncio.gather(*(self._outcome(call, own, offered) for call in calls))
            rounds.returned(calls, outcomes)
        if isinstance(rounds.ending, Done):
            self._end(replace(rounds.ending, duration_ms=int((time.monotonic() - began_s) * 1_000)))
        self._end(rounds.ending)

    async def _outcome(self, call: Call, own: OwnTools, offered: list[str]) -> ToolOutcome:
        if call.name not in offered:
            said = f"there is no tool {call.name[:64]!r}; there are: {', '.join(offered)}"
            return ToolOutcome(call.id, said, is_error=True)
        return await (own.run(call) if call.name in own else self._parent.tool(call))

    def _listen(self, loop: asyncio.AbstractEventLoop) -> None:
        """On a thread of its own, so that nothing that runs here keeps the parent from ending it."""
        self._is_ready.wait()
        try:
            for frame in self._frames:
                if isinstance(frame, Cancel):
                    break
                loop.call_soon_threadsafe(self._heard, frame)
        except Exception as error:  # noqa: BLE001 - the root of this thread: without it the child is deaf
            self._end(Failed(type(error).__name__))
        os._exit(_ASKED_TO)

    def _heard(self, frame: Frame | Unread) -> None:
        match frame:
            case ModelDelta() | ModelResult() | ToolOutcome() if self._parent.heard(frame):
                pass
            case _:
                self._pass_over(frame)

    def _pass_over(self, frame: Frame | Unread) -> None:
        what = frame.reason if isinstance(frame, Unread) else f"a {type(frame).__name__} that answers nothing"
        self._words.note(f"passed over {what}")

    def _end(self, frame: Done | Failed) -> Never:
        """Say how it went and be gone; threads that are still at work are not waited for."""
        try:
            self._pipes.send(frame)
        except FrameTooLong as error:
            self._end(Failed(str(error)))
        finally:
            os._exit(_ASKED_TO if isinstance(frame, Done) else _FAILED)


def _confined(init: Init, own: OwnTools) -> str:
    """Step into what holds this process; returns its name."""
    home = Path(init.workspace) if init.workspace else None
    itself = confine_this_process(home, own.write) if init.confines_itself else Confinement.PLAIN
    return os.environ.get(CONFINEMENT) or itself


def _standing_threads() -> ThreadPoolExecutor:
    """As many threads as tools run at once, all of them started."""
    threads = ThreadPoolExecutor(TOOLS_PARALLEL_MAX)
    all_stand = threading.Barrier(TOOLS_PARALLEL_MAX + 1)
    for _ in range(TOOLS_PARALLEL_MAX):
        threads.submit(all_stand.wait)
    all_stand.wait()
    return threads


def main() -> Never:
    """Be a sub-agent."""
    words = LastWords()
    words.guard()
    die_with_parent()
    share_one_heap()
    Child(Pipes(), words).run()


if __name__ == "__main__":
    main()
