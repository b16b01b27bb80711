"""Who waits on the threshold: a message that ends in the first half of a token, until its second half is there. Pure.

Nothing of it is on the bus yet, and its platform was not told that it was received; so it waits for a moment only,
once, and anything else said in its lane ends the wait.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from channels.normalized import Incoming
from gateway.scrub.tail import open_tail

HOLD_S: Final = 1.0  # a client that splits a text, and a person who pastes the rest, are faster
HELD_MAX: Final = 1_000  # waits that are remembered; the oldest are over long since
HALF_CHARS_MIN: Final = 12
"""A shorter beginning of a token tells nothing, and more often than not it is none."""


@dataclass(slots=True)
class _Wait:
    incoming: Incoming | None
    until_s: float


class Threshold:
    """The door of one channel, seen from inside."""

    def __init__(self) -> None:
        self._waits: OrderedDict[str, _Wait] = OrderedDict()
        self._waiting: dict[str, str] = {}

    def is_to_wait(self, lane: str, incoming: Incoming, now_s: float) -> bool:
        """Whether the message is not to be taken now. It is brought again, and once the wait is over this is False."""
        wait = self._waits.get(incoming.id)
        if wait is not None:
            return wait.incoming is not None and now_s < wait.until_s
        if lane in self._waiting or not _ends_in_half(incoming):
            return False
        self._waits[incoming.id] = _Wait(incoming, now_s + HOLD_S)
        self._waiting[lane] = incoming.id
        if len(self._waits) > HELD_MAX:
            oldest, _ = self._waits.popitem(last=False)
            self._waiting = {lane: id_ for lane, id_ in self._waiting.items() if id_ != oldest}
        return True

    def before(self, lane: str, incoming: Incoming) -> Incoming | None:
        """What waits in this lane, to be taken before `incoming`."""
        wait = self._waits.get(self._waiting.get(lane, ""))
        return wait.incoming if wait is not None and wait.incoming and wait.incoming.id != incoming.id else None

    def enter(self, lane: str, incoming: Incoming) -> None:
        """It was taken: it waits no more, however often it is brought."""
        if self._waiting.get(lane) == incoming.id:
            del self._waiting[lane]
            self._waits[incoming.id].incoming = None


def _ends_in_half(incoming: Incoming) -> bool:
    return len(open_tail(incoming.text)) >= HALF_CHARS_MIN
