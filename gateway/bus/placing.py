"""Which shard a thing belongs to, where there are several."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Final, Generic, TypeVar

from gateway.bus.keys import shard_number
from gateway.contracts.errors import BusError
from gateway.contracts.ids import SessionKey

T = TypeVar("T")
_SEPARATOR: Final = "."  # fit for a path of the operator's API


class NotSigned(BusError):
    """An entry id that no shard of this bus gave out."""


class Placing(Generic[T]):
    """One T per shard, found by what it is asked for."""

    def __init__(self, shards: Sequence[T]) -> None:
        self._shards = shards

    def number(self, key: SessionKey) -> int:
        """The shard of a lane and of everything its owner has."""
        return shard_number(key, len(self._shards))

    def of(self, key: SessionKey) -> T:
        return self._shards[self.number(key)]

    def named(self, name: str) -> T:
        """For what belongs to no user: any shard, always the same, so that no server carries all of it."""
        return self._shards[zlib.crc32(name.encode()) % len(self._shards)]

    @staticmethod
    def sign(shard: int, entry_id: str) -> str:
        """An entry id that says which shard's stream it is from."""
        return f"{shard}{_SEPARATOR}{entry_id}"

    def signed(self, entry_id: str) -> tuple[int, str]:
        """The shard and its own id of the entry. Raises `NotSigned`."""
        shard, separator, own = entry_id.partition(_SEPARATOR)
        if not separator or not shard.isdecimal() or int(shard) >= len(self._shards):
            raise NotSigned(f"not an entry of this bus: {entry_id[:40]!r}")
        return int(shard), own
