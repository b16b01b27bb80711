"""What a row of the table of methods says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from channels.emulators.telegram.backstage import Backstage
from channels.emulators.telegram.call import Call


@dataclass(frozen=True, slots=True)
class Method:
    """`is_write` marks those that put or change something in a chat: the counted faults strike only these."""

    name: str
    run: Callable[[Backstage, Call], Awaitable[object]]
    is_write: bool = False
