"""What the workers of this process hold: which lanes, under which fence, with how many messages. No I/O."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gateway.bus.keys import HANDLE_SEPARATOR


@dataclass(slots=True)
class _Holding:
    fence: int
    messages: int
    is_cancelled: bool = False


class Holdings:
    """Tells a cancel meant for the running turn from one that comes too late or a second time."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, str], _Holding] = {}
        self._known_fence: dict[str, int] = {}
        self._early: dict[str, set[str]] = {}

    def forget(self, worker: str) -> None:
        """The worker begins anew or leaves."""
        self._held = {place: holding for place, holding in self._held.items() if place[0] != worker}
        self._known_fence.pop(worker, None)
        self._early.pop(worker, None)

    def take(self, worker: str, lane: str, fence: int, messages: int) -> None:
        """A claim was answered."""
        self._held[worker, lane] = _Holding(fence, messages)
        self._known_fence[worker] = max(fence, self.known_fence(worker))

    def drop(self, worker: str, lane: str, fence: int) -> None:
        """A lease ended, by commit, by retry or by being fenced."""
        holding = self._held.get((worker, lane))
        if holding is not None and holding.fence == fence:
            del self._held[worker, lane]

    def known_fence(self, worker: str) -> int:
        """The highest fence the worker has heard of; 0 before its first claim."""
        return self._known_fence.get(worker, 0)

    def messages(self, worker: str, lane: str, fence: int) -> int | None:
        """How many messages the lease covers, None when it is over."""
        holding = self._held.get((worker, lane))
        return holding.messages if holding is not None and holding.fence == fence else None

    def grow(self, worker: str, lane: str, messages: int) -> None:
        """The lease took more messages in."""
        self._held[worker, lane].messages += messages

    def cancelled(self, worker: str, cancels: Iterable[str]) -> tuple[str, ...]:
        """The lanes among `cancels` whose running turn is meant, each once.

        A cancel may overtake the answer of the claim it belongs to: it is kept for the next call.
        """
        lanes: list[str] = []
        early: set[str] = set()
        for cancel in (*self._early.pop(worker, ()), *cancels):
            lane, _, fence = cancel.rpartition(HANDLE_SEPARATOR)
            holding = self._held.get((worker, lane))
            if holding is not None and holding.fence == int(fence):
                if not holding.is_cancelled:
                    holding.is_cancelled = True
                    lanes.append(lane)
            elif int(fence) > self.known_fence(worker):
                early.add(cancel)
        if early:
            self._early[worker] = early
        return tuple(lanes)
