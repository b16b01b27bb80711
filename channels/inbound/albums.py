"""Albums that were meant for us. Only the part that bears the words names the bot; the others follow it. Pure."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from channels.normalized import Incoming

ALBUMS_MAX: Final = 500  # each lasts for seconds


class Albums:
    """Those of one channel, by author and place. In memory: a process that begins in the middle of one is handed its
    parts again."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, ...], None] = OrderedDict()

    def note(self, incoming: Incoming) -> None:
        """A message that is taken in; if it is part of an album, the rest of that is for us, too."""
        if incoming.album_id:
            self._known[_name(incoming)] = None
            while len(self._known) > ALBUMS_MAX:
                self._known.popitem(last=False)

    def knows(self, incoming: Incoming) -> bool:
        """Whether it is another part of such an album."""
        return bool(incoming.album_id) and _name(incoming) in self._known


def _name(incoming: Incoming) -> tuple[str, ...]:
    return incoming.user_id, incoming.album_id, *incoming.place
