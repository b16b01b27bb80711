"""The scripts about lanes, as their callers see them: all begin with the same keys and arguments.

`lua/prelude_lanes.lua` gives them names; here is the one place that puts them in front.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gateway.bus.keys import InstallationNames, ShardKeys
from gateway.bus.line import Line, Word
from gateway.bus.scripts import Script, script


@dataclass(frozen=True, slots=True)
class ScriptCall:
    """A script with everything it is called with, for whoever has a connection of his own."""

    script: Script
    keys: tuple[str, ...]
    arguments: tuple[Word, ...]


class LaneScripts:
    """The lane scripts of one shard. `user_turns_max`: places of one user among the ready and running lanes."""

    def __init__(self, line: Line, keys: ShardKeys, names: InstallationNames, *, user_turns_max: int) -> None:
        self._line = line
        self._keys = (keys.ready, keys.delay, keys.own, keys.past, keys.user_counts, keys.total, keys.wake)
        self._arguments = (
            keys.mailbox(""),
            keys.parked(""),
            keys.worker_lanes(""),
            keys.cancels(""),
            names.news(""),
            user_turns_max,
        )

    def call(self, name: str, keys: Sequence[str] = (), arguments: Sequence[Word] = ()) -> ScriptCall:
        """The script `name` with `keys` and `arguments` behind those that all share."""
        return ScriptCall(script(name), (*self._keys, *keys), (*self._arguments, *arguments))

    async def run(self, name: str, keys: Sequence[str] = (), arguments: Sequence[Word] = ()) -> Any:
        """Run it; its raw answer."""
        call = self.call(name, keys, arguments)
        return await self._line.run(call.script, call.keys, call.arguments)
