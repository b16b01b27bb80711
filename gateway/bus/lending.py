"""The bytes of files on their way from SQL to a channel, which has no SQL: asked for when they are needed.

A channel writes down what it wants, an agent process reads that and lends the bytes in a key that ends by
itself. So nothing large lies on the bus for a channel that is away, and what Redis loses is asked for again.
On a Cluster all of it is in the first shard: at most FILES_AT_ONCE of each channels process at a time.
"""

from __future__ import annotations

import json
from typing import Final

from gateway.bus.keys import ShardKeys
from gateway.bus.pool import Pool
from gateway.contracts.ids import SessionKey
from gateway.contracts.ports import WantedFile
from gateway.limits import BUS_WAIT_MAX_S, LENT_TTL_S, WANTED_FILES_MAX, WANTED_TTL_S

_WAIT_MIN_S: Final = 0.001  # BLPOP takes zero for "for ever"
_MS: Final = 1000


class Lending:
    """Both ends of the hand-over, over connections that may block."""

    def __init__(self, pool: Pool, keys: ShardKeys) -> None:
        self._pool = pool
        self._keys = keys

    async def borrow(self, wanted: WantedFile, *, wait_s: float) -> bytes | None:
        """`DeliveryBus.borrow_file`."""
        keys, entry = self._keys, _entry(wanted)
        await self._pool.transaction(
            [
                ("LREM", keys.wanted, 0, entry),  # one who asks again wants it once
                ("RPUSH", keys.wanted, entry),
                ("LTRIM", keys.wanted, -WANTED_FILES_MAX, -1),
                ("PEXPIRE", keys.wanted, WANTED_TTL_S * _MS),
            ]
        )
        answer = await self._pool.call("BLPOP", keys.lent(_name(wanted)), _wait(wait_s))
        return None if answer is None else bytes(answer[1])

    async def wanted(self, *, wait_s: float) -> WantedFile | None:
        """`LaneBus.wanted_file`."""
        answer = await self._pool.call("BLPOP", self._keys.wanted, _wait(wait_s))
        return None if answer is None else _wanted(answer[1])

    async def lend(self, wanted: WantedFile, content: bytes) -> None:
        """`LaneBus.lend_file`."""
        lent = self._keys.lent(_name(wanted))
        await self._pool.transaction([("DEL", lent), ("RPUSH", lent, content), ("PEXPIRE", lent, LENT_TTL_S * _MS)])


def _name(wanted: WantedFile) -> str:
    return f"{wanted.reply_id}:{wanted.position}"


def _wait(wait_s: float) -> str:
    return f"{max(_WAIT_MIN_S, min(wait_s, BUS_WAIT_MAX_S)):.3f}"


def _entry(wanted: WantedFile) -> bytes:
    return json.dumps([str(wanted.key), wanted.reply_id, wanted.position], ensure_ascii=False).encode()


def _wanted(entry: bytes) -> WantedFile:
    key, reply_id, position = json.loads(entry)
    return WantedFile(SessionKey.parse(key), reply_id, position)
