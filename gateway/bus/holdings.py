"""What the workers of this process hold: which lanes, under which fence, with how many messages. No I/O."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from gateway.bus.keys import HANDLE_SEPARATOR
from gateway.contracts.ports import Cancel, CancelKind

_KINDS: Final = frozenset(CancelKind)


@dataclass(slots=True)
class _Holding:
    fence: int
    messages: int
    cancelled: CancelKind | None = None

    def takes(self, kind: CancelKind) -> bool:
        """True when this cancel is news: a stop after a restart is, a second one or a restart after a stop is not."""
        is_news = self.cancelled is None or (self.cancelled is CancelKind.RESTART and kind is CancelKind.STOP)
        if is_news:
            self.cancelled = kind
        return is_news


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

    def lanes(self, worker: str) -> tuple[str, ...]:
        """What the worker holds now."""
        return tuple(lane for holder, lane in self._held if holder == worker)

    def known_fence(self, worker: str) -> int:
        """The highest fence the worker has heard of; 0 before its first claim."""
        return self._known_fence.get(worker, 0)

    def messages(self, worker: str, lane: str, fence: int) -> int | None:
        """How many messages the lease covers, None when it is over."""
        holding = self._held.get((worker, lane))
        return holding.messages if holding is not None and holding.fence == fence else None

    def grow(self, worker: str, lane: str, fence: int, messages: int) -> None:
        """The lease, if it is not over by now, took more messages in."""
        holding = self._held.get((worker, lane))
        if holding is not None and holding.fence == fence:
            holding.messages += messages

    def cancelled(self, worker: str, cancels: Iterable[str]) -> tuple[Cancel, ...]:
        """The running turns that are meant by `cancels` (kind, lane and fence), each once per kind.

        A cancel may overtake the answer of the claim it belongs to: it is kept for the next call.
        """
        meant: list[Cancel] = []
        early: set[str] = set()
        for word in sorted({*self._early.pop(worker, ()), *cancels}, reverse=True):  # a stop before a restart
            kind, lane, fence = word.split(HANDLE_SEPARATOR)
            if kind not in _KINDS:  # of a newer release, side by side with ours
                continue
            holding = self._held.get((worker, lane))
            if holding is not None and holding.fence == int(fence):
                if holding.takes(CancelKind(kind)):
                    meant.append(Cancel(lane, CancelKind(kind)))
            elif int(fence) > self.known_fence(worker):
                early.add(word)
        if early:
            self._early[worker] = early
        return tuple(meant)
