"""A sub-agent's own process: `python -m agent.subagents.child`. The composition root of what runs in it.

It reads frames from standard input and writes frames to standard output. It has no key, no database and no network.
It is small, because every module that it imports is waited for at every start: nothing here may lead to the SDK of a
model or a platform, to SQL or to the logs.

Its parent can end it at any moment, by `cancel` or by closing the pipe: whatever runs then is not waited for.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Final, Never

from agent.limits import TOOLS_PARALLEL_MAX
from agent.subagents.cage.confinement import confine_this_process
from agent.subagents.inside.asking import Asking
from agent.subagents.inside.last_words import LastWords
from agent.subagents.inside.own_tools import OwnTools
from agent.subagents.inside.pipes import Pipes
from agent.subagents.inside.restraint import die_with_parent, restrain, share_one_heap
from agent.subagents.inside.rounds import Rounds
from agent.subagents.inside.threads import ToolThreads
from agent.subagents.wire.codec import FrameTooLong, Unread
from agent.subagents.wire.frames import (
    PROTOCOL,
    Cancel,
    Done,
    Failed,
    Frame,
    Init,
    Ready,
)
from gateway.contracts.reasons import Reason

_ASKED_TO: Final = 0
_FAILED: Final = 1


class Child:
    """One sub-agent, from its `init` to its end, which is the end of the process."""

    def __init__(self, pipes: Pipes, words: LastWords) -> None:
        self._pipes = pipes
        self._words = words
        self._frames = pipes.frames()

    def run(self) -> Never:
        """Live. What cannot be helped becomes an `error` frame with the name of its class."""
        try:
            self._live()
        except Exception as error:  # noqa: BLE001 - the root of the process: its parent is told, and it ends
            self._end(_raised(error))

    def _live(self) -> Never:
        init = self._first()
        if init.protocol != PROTOCOL:
            self._end(Failed(Reason.PROTOCOL.of(PROTOCOL)))
        home = Path(init.workspace) if init.workspace else None
        threads = ToolThreads()
        own = OwnTools(init.tools, home, threads)
        confinement = confine_this_process(home, own.write, init.confinement)
        asking = Asking(self._pipes.send, own, [tool.name for tool in init.tools], pass_over=self._pass_over)
        # The threads stand behind the confinement, which holds only what was started in it, and before the limits,
        # which may allow no more of them.
        threads.stand(TOOLS_PARALLEL_MAX)
        is_ready = threading.Event()
        threading.Thread(target=self._listen, args=[asking, is_ready], daemon=True).start()
        restrain(init.limits)
        self._pipes.send(Ready(os.getpid(), confinement))
        is_ready.set()
        self._work(Rounds(init), asking)

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

    def _work(self, rounds: Rounds, asking: Asking) -> Never:
        began_s = time.monotonic()
        while rounds.ending is None:
            result = asking.model(rounds.next_call())
            calls = rounds.answered(result)
            rounds.returned(calls, asking.tools(calls, result.outcomes))
        if isinstance(rounds.ending, Done):
            self._end(replace(rounds.ending, duration_ms=int((time.monotonic() - began_s) * 1_000)))
        self._end(rounds.ending)

    def _listen(self, asking: Asking, is_ready: threading.Event) -> None:
        """On a thread of its own, so that nothing that runs here keeps the parent from ending it."""
        is_ready.wait()
        try:
            for frame in self._frames:
                if isinstance(frame, Cancel):
                    break
                asking.hear(frame)
        except Exception as error:  # noqa: BLE001 - the root of this thread: without it the child is deaf
            self._end(_raised(error))
        os._exit(_ASKED_TO)

    def _pass_over(self, frame: Frame | Unread) -> None:
        what = frame.reason if isinstance(frame, Unread) else f"a {type(frame).__name__} that answers nothing"
        self._words.note(f"passed over {what}")

    def _end(self, frame: Done | Failed) -> Never:
        """Say how it went and be gone; threads that are still at work are not waited for."""
        try:
            self._pipes.send(frame)
        except FrameTooLong:
            self._end(Failed(Reason.FRAME_TOO_LONG))
        finally:
            os._exit(_ASKED_TO if isinstance(frame, Done) else _FAILED)


def _raised(error: Exception) -> Failed:
    """Never with its text, which may quote anything."""
    return Failed(Reason.RAISED.of(type(error).__name__))


def main() -> Never:
    """Be a sub-agent."""
    words = LastWords()
    words.guard()
    die_with_parent()
    share_one_heap()
    Child(Pipes(), words).run()


if __name__ == "__main__":
    main()
