"""What was accepted lately: whose lane a message is in, and what it said. In memory, bounded. Pure.

Discord does not tell who wrote a message that was deleted, and every platform repeats edits that change
nothing. A process that started later remembers nothing: it answers what was deleted.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from channels.normalized import Incoming
from gateway.contracts.ids import SessionKey

REMEMBERED_MAX: Final = 5_000  # far more than lanes can hold for the people of one busy hour


@dataclass(frozen=True, slots=True)
class _Accepted:
    key: SessionKey
    fingerprint: int


class Recollection:
    """The newest REMEMBERED_MAX messages of one channel."""

    def __init__(self) -> None:
        self._accepted: OrderedDict[str, _Accepted] = OrderedDict()

    def keep(self, incoming: Incoming, key: SessionKey) -> None:
        """It is on the bus, with these words."""
        self._accepted[incoming.id] = _Accepted(key, _fingerprint(incoming))
        self._accepted.move_to_end(incoming.id)
        while len(self._accepted) > REMEMBERED_MAX:
            self._accepted.popitem(last=False)

    def key_of(self, message_id: str) -> SessionKey | None:
        """Whose lane it went to."""
        known = self._accepted.get(message_id)
        return known.key if known else None

    def says_the_same(self, edit: Incoming) -> bool:
        """The edit changes nothing that we would answer to."""
        known = self._accepted.get(edit.id)
        return known is not None and known.fingerprint == _fingerprint(edit)


def _fingerprint(incoming: Incoming) -> int:
    return hash((incoming.text, incoming.attachments))
