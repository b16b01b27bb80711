"""Questions of people who type, and what agent processes suggest. Lossy on purpose: both are gone within seconds.

On a Cluster all of it is in the first shard: an answer is a kilobyte, and is read as soon as it is there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

from gateway.bus.keys import ShardKeys
from gateway.bus.line import Line
from gateway.bus.pool import Pool
from gateway.bus.scripts import script
from gateway.contracts.errors import BadEnvelope
from gateway.contracts.suggestions import (
    Suggestion,
    Wanted,
    decode_suggestions,
    decode_wanted,
    encode_suggestions,
    encode_wanted,
)
from gateway.limits import BUS_WAIT_MAX_S, SUGGESTIONS_TTL_S

_WAIT_MIN_S: Final = 0.001  # BLPOP takes zero for "for ever"
_MS: Final = 1000


class Suggestions:
    """`gateway.contracts.ports.SuggestionBus`, over connections that may block."""

    def __init__(self, line: Line, pool: Pool, keys: ShardKeys) -> None:
        self._line = line
        self._pool = pool
        self._keys = keys

    async def ask(self, wanted: Wanted, *, wait_s: float) -> Sequence[Suggestion]:
        """What an agent process suggests; nothing if none of them says anything within `wait_s`, and at once nothing to
        one who asks too often."""
        entry = encode_wanted(wanted)
        keys = (self._keys.asked, self._keys.asking(str(wanted.owner)))
        if not await self._line.run(script("ask_suggestions"), keys, (entry,)):
            return ()
        said = await self._pool.call("BLPOP", self._keys.suggested(_name(entry)), _wait(wait_s))
        try:
            return () if said is None else decode_suggestions(said[1])
        except BadEnvelope:
            return ()

    async def wanted(self, *, wait_s: float) -> Wanted | None:
        """A question that waits for an answer, each to one caller; None when nobody asked any within `wait_s`."""
        asked = await self._pool.call("BLPOP", self._keys.asked, _wait(wait_s))
        try:
            return None if asked is None else decode_wanted(asked[1])
        except BadEnvelope:
            return None

    async def suggest(self, wanted: Wanted, suggestions: Sequence[Suggestion]) -> None:
        """Answer whoever asked. One who asks the very same again may be given what an earlier one did not wait for."""
        suggested = self._keys.suggested(_name(encode_wanted(wanted)))
        await self._pool.transaction(
            [
                ("RPUSH", suggested, encode_suggestions(suggestions)),
                ("PEXPIRE", suggested, SUGGESTIONS_TTL_S * _MS),
            ]
        )


def _name(entry: bytes) -> str:
    return hashlib.blake2b(entry, digest_size=16).hexdigest()


def _wait(wait_s: float) -> str:
    return f"{max(_WAIT_MIN_S, min(wait_s, BUS_WAIT_MAX_S)):.3f}"
