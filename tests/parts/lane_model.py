"""What the lanes of the bus promise, as plain Python: no Redis, no time, no I/O.

The state machine of `test_bus_interleavings` makes each call on the bus and on this model and compares.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field, replace
from enum import StrEnum

from gateway.contracts.ids import SessionKey, retry_id_of
from gateway.contracts.messages import InboundMessage
from gateway.contracts.ports import Amendment, Cancel, CancelKind, Claim, Verdict
from gateway.limits import TURN_ATTEMPTS_MAX


class State(StrEnum):
    """Where a lane is listed. A lane is in exactly one state."""

    ABSENT = "absent"
    READY = "ready"
    PARKED = "parked"
    DELAYED = "delayed"
    OWNED = "owned"


@dataclass
class Lane:
    """One lane: its mailbox, and what befell the messages at its head. None is a withdrawn message."""

    key: SessionKey
    state: State = State.ABSENT
    mailbox: list[InboundMessage | None] = field(default_factory=list)
    claim: Claim | None = None
    in_work: int = 0
    failures: int = 0
    restarts: int = 0
    stopped: int = 0

    @property
    def handle(self) -> str:
        return f"{self.key}\x1f{self.key.owner}"

    def index_of(self, message_id: str) -> int | None:
        """Where a message is."""
        ids = [None if item is None else item.id for item in self.mailbox]
        return ids.index(message_id) if message_id in ids else None

    def begin_afresh(self) -> None:
        self.failures = self.restarts = self.stopped = 0


@dataclass(frozen=True)
class Bounds:
    """The limits of a model and of the bus beside it."""

    lane_messages_max: int = 5
    user_turns_max: int = 2
    turns_max: int = 0
    batch_max: int = 3
    attempts_max: int = 3
    restarts_in_front_max: int = 1


class LaneModel:
    """All lanes. Each method is one call on the bus."""

    def __init__(self, keys: list[SessionKey], bounds: Bounds) -> None:
        self.bounds = bounds
        self.lanes = {key: Lane(key) for key in keys}
        self.ready: deque[Lane] = deque()
        self.parks: dict[SessionKey, deque[Lane]] = {key.owner: deque() for key in keys}
        self.cancels: dict[str, set[tuple[str, CancelKind, int]]] = {}
        self.told: dict[int, CancelKind] = {}
        self.revoked: set[int] = set()
        self.restarted: set[str] = set()
        self.ended: Counter[str] = Counter()
        self.dead: list[InboundMessage] = []

    # --- what others see

    def places(self) -> dict[SessionKey, int]:
        """How many places each user takes."""
        held = (lane for lane in self.lanes.values() if lane.state in (State.READY, State.OWNED))
        return dict(Counter(lane.key.owner for lane in held))

    def owned(self, worker: str | None = None) -> list[Lane]:
        """The lanes of a worker, or of all."""
        return [
            lane
            for lane in self.lanes.values()
            if lane.claim is not None and (worker is None or lane.claim.lease.worker == worker)
        ]

    def waiting(self, lane: Lane) -> int:
        return len(lane.mailbox) - lane.in_work

    def unaware(self, worker: str) -> set[Cancel]:
        """What `worker` may still be told of turns that were taken away from it behind its back."""
        pending = self.cancels.get(worker, set())
        return {Cancel(lane, kind) for lane, kind, fence in pending if fence in self.revoked}

    def cancelled(self, worker: str) -> set[Cancel]:
        """What the next beat of `worker` tells it."""
        news: set[Cancel] = set()
        pending = self.cancels.pop(worker, set())
        for lane in self.owned(worker):
            assert lane.claim is not None
            fence = lane.claim.lease.fence
            for kind in (CancelKind.STOP, CancelKind.RESTART):
                is_news = self.told.get(fence) not in (kind, CancelKind.STOP)
                if (str(lane.key), kind, fence) in pending and is_news:
                    self.told[fence] = kind
                    news.add(Cancel(str(lane.key), kind))
        return news

    # --- intake

    def enqueue(self, message: InboundMessage, *, settles: bool, interrupts: bool) -> tuple[Verdict, int]:
        lane = self.lanes[message.key]
        waiting = self.waiting(lane)
        if waiting >= self.bounds.lane_messages_max:
            return Verdict.LANE_FULL, waiting
        lane.mailbox.append(message)
        if lane.state is State.ABSENT:
            if settles:
                lane.state = State.DELAYED
            else:
                self._admit(lane)
        elif lane.claim is not None and interrupts and not lane.stopped:
            self._cancel(lane, CancelKind.RESTART)
        return Verdict.ACCEPTED, waiting + 1

    def amend(self, message: InboundMessage) -> Amendment:
        lane = self.lanes[message.key]
        index = lane.index_of(message.id)
        if index is None or index < lane.stopped:
            return Amendment.TOO_LATE
        if lane.claim is None or index >= lane.in_work:
            lane.mailbox[index] = message
            return Amendment.CHANGED
        if lane.mailbox[index] == message:
            return Amendment.RESTARTED if message.id in self.restarted else Amendment.CHANGED
        if message.id in self.restarted:
            return Amendment.TOO_LATE
        self.restarted.add(message.id)
        lane.mailbox[index] = message
        self._cancel(lane, CancelKind.RESTART)
        return Amendment.RESTARTED

    def withdraw(self, key: SessionKey, message_id: str) -> Amendment:
        lane = self.lanes[key]
        index = lane.index_of(message_id)
        if index is None or index < lane.stopped:
            return Amendment.TOO_LATE
        self.ended[message_id] += 1
        if lane.claim is not None and index < lane.in_work:
            lane.mailbox[index] = None
            self._cancel(lane, CancelKind.RESTART)
            return Amendment.RESTARTED
        del lane.mailbox[index]
        if lane.claim is None and index == 0:
            lane.begin_afresh()
        if not lane.mailbox:
            self._unlist(lane)
        return Amendment.CHANGED

    def stop(self, key: SessionKey) -> tuple[int, int]:
        """How many messages it drops, and the fence of the turn it stops."""
        lane = self.lanes[key]
        kept = lane.in_work if lane.claim else lane.stopped
        dropped = lane.mailbox[kept:]
        self.ended.update(item.id for item in dropped if item is not None)
        del lane.mailbox[kept:]
        if lane.claim is not None:
            lane.stopped = lane.in_work
            self._cancel(lane, CancelKind.STOP)
            return len(dropped), lane.claim.lease.fence
        if dropped and not lane.mailbox:
            lane.begin_afresh()
            self._unlist(lane)
        return len(dropped), 0

    def retry_dead(self, message: InboundMessage) -> InboundMessage:
        """Queue a dead message under the id of its next try; that message."""
        self.dead.remove(message)
        again = replace(message, id=retry_id_of(message.id))
        lane = self.lanes[message.key]
        lane.mailbox.append(again)
        if lane.state is State.ABSENT:
            self._admit(lane)
        return again

    # --- workers

    def claim(self, lanes_max: int, *, is_due: bool) -> tuple[list[Lane], list[InboundMessage]]:
        """The lanes that a claim leases, in order, and the messages that die at it."""
        if is_due:
            due = [lane for lane in self.lanes.values() if lane.state is State.DELAYED]
            for lane in sorted(due, key=lambda lane: lane.handle.encode()):
                self._admit(lane)
        room = lanes_max
        if self.bounds.turns_max:
            room = min(room, self.bounds.turns_max - len(self.owned()))
        leased: list[Lane] = []
        dead: list[InboundMessage] = []
        while self.ready and len(leased) < room:
            lane = self.ready.popleft()
            if lane.failures >= self.bounds.attempts_max:
                dead.append(self._give_up_head(lane))
            if not lane.mailbox:
                self._vanish(lane)
                continue
            lane.in_work = min(self._batch_size(lane), len(lane.mailbox))
            lane.state = State.OWNED
            leased.append(lane)
        return leased, dead

    def commit(self, lane: Lane, handled: int) -> None:
        handled = min(handled, lane.in_work)
        self.ended.update(item.id for item in lane.mailbox[:handled] if item is not None)
        del lane.mailbox[:handled]
        if handled:
            lane.failures = lane.restarts = 0
            lane.stopped = max(0, lane.stopped - handled)
        if self._end_run(lane):
            self._go_to_the_tail(lane)

    def retry_later(self, lane: Lane) -> None:
        if self._end_run(lane):
            lane.failures += 1
            self._put_off(lane)

    def restart(self, lane: Lane) -> None:
        if self._end_run(lane):
            lane.restarts += 1
            if lane.restarts <= self.bounds.restarts_in_front_max:
                self._go_to_the_front(lane)
            else:
                self._go_to_the_tail(lane)

    def revoke(self, lane: Lane) -> None:
        assert lane.claim is not None
        self.revoked.add(lane.claim.lease.fence)
        lane.stopped = lane.in_work
        if self._end_run(lane):
            self._go_to_the_front(lane)

    def extend(self, lane: Lane, messages_max: int) -> list[InboundMessage | None]:
        if lane.stopped:
            return []
        more = lane.mailbox[lane.in_work : lane.in_work + messages_max]
        lane.in_work += len(more)
        return more

    def leave(self, worker: str, *, is_death: bool) -> None:
        """All lanes of a worker go back, the newest first, so that the oldest is next; those wait that died before."""
        mine = sorted(self.owned(worker), key=_fence, reverse=True)
        for lane in mine:
            if self._end_run(lane):
                lane.failures += is_death
                if is_death and 1 < lane.failures < TURN_ATTEMPTS_MAX:
                    self._put_off(lane)
                else:
                    self._go_to_the_front(lane)
        self.cancels.pop(worker, None)

    # --- steps

    def _batch_size(self, lane: Lane) -> int:
        if lane.stopped:
            return min(lane.stopped, self.bounds.batch_max)
        is_last_try = lane.failures > 0 and lane.failures == self.bounds.attempts_max - 1
        return 1 if is_last_try else self.bounds.batch_max

    def _put_off(self, lane: Lane) -> None:
        lane.state = State.DELAYED
        self._unpark(lane.key.owner)

    def _give_up_head(self, lane: Lane) -> InboundMessage:
        message = lane.mailbox.pop(0)
        assert message is not None
        lane.failures = lane.restarts = 0
        lane.stopped = max(0, lane.stopped - 1)
        self.ended[message.id] += 1
        self.dead.append(message)
        return message

    def _admit(self, lane: Lane) -> None:
        owner = lane.key.owner
        if self.places().get(owner, 0) < self.bounds.user_turns_max:
            lane.state = State.READY
            self.ready.append(lane)
        else:
            lane.state = State.PARKED
            self.parks[owner].append(lane)

    def _unpark(self, owner: SessionKey) -> None:
        while self.parks[owner] and self.places().get(owner, 0) < self.bounds.user_turns_max:
            lane = self.parks[owner].popleft()
            lane.state = State.READY
            self.ready.append(lane)

    def _end_run(self, lane: Lane) -> bool:
        assert lane.claim is not None
        withdrawn = lane.mailbox.count(None)
        lane.mailbox = [item for item in lane.mailbox if item is not None]
        lane.stopped = max(0, lane.stopped - withdrawn)
        lane.claim, lane.in_work = None, 0
        if not lane.mailbox:
            self._vanish(lane)
        return bool(lane.mailbox)

    def _vanish(self, lane: Lane) -> None:
        lane.begin_afresh()
        lane.state = State.ABSENT
        self._unpark(lane.key.owner)

    def _unlist(self, lane: Lane) -> None:
        if lane.state is State.READY:
            self.ready.remove(lane)
        elif lane.state is State.PARKED:
            self.parks[lane.key.owner].remove(lane)
        if lane.state is not State.OWNED:
            self._vanish(lane)

    def _go_to_the_tail(self, lane: Lane) -> None:
        lane.state = State.PARKED
        self.parks[lane.key.owner].append(lane)
        self._unpark(lane.key.owner)

    def _go_to_the_front(self, lane: Lane) -> None:
        lane.state = State.READY
        self.ready.appendleft(lane)

    def _cancel(self, lane: Lane, kind: CancelKind) -> None:
        assert lane.claim is not None
        lease = lane.claim.lease
        self.cancels.setdefault(lease.worker, set()).add((str(lane.key), kind, lease.fence))


def _fence(lane: Lane) -> int:
    assert lane.claim is not None
    return lane.claim.lease.fence


def changed(message: InboundMessage, text: str) -> InboundMessage:
    """The same message as its author edited it."""
    return replace(message, text=type(message.text)(text))
