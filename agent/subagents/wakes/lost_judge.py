"""Whether a process may find another one dead. Pure.

Others are judged by when they last wrote that they live. So whoever judges has to know that they could have written:
while this process was paused, or had no database, they may have been in the same way; where the clock jumps, what they
wrote says nothing. Then they have as long as ever to write again.
"""

from __future__ import annotations

import math

from agent.limits import LOST_JUMP_S, LOST_UNSEEN_S, SUBAGENT_ALIVE_S


class LostJudge:
    """What one process has seen of the time. It begins by believing what it finds: its predecessor may have died."""

    def __init__(self) -> None:
        self._looked_s = math.nan
        self._looked_ms = 0
        self._unbroken_since_s = -math.inf

    def may_judge(self, *, now_s: float, now_ms: int) -> bool:
        """To be asked with each look at the database that succeeds; `now_s` only ever grows, `now_ms` is what the clock
        says."""
        passed_s = now_s - self._looked_s
        jumped_s = abs((now_ms - self._looked_ms) / 1000 - passed_s)
        if passed_s > LOST_UNSEEN_S or jumped_s > LOST_JUMP_S:
            self._unbroken_since_s = now_s
        self._looked_s, self._looked_ms = now_s, now_ms
        return now_s - self._unbroken_since_s >= SUBAGENT_ALIVE_S
