"""The projection of the grants that intake reads, and pairing codes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gateway.bus.keys import ShardKeys
from gateway.bus.line import Command, Line
from gateway.bus.pool import Pool
from gateway.bus.scripts import script
from gateway.contracts.entries import Grant
from gateway.contracts.ids import SessionKey

_CHUNK: Final = 1000  # fields per command of a projection


class Access:
    """`gateway.contracts.ports.AccessBus`. The truth is in SQL; this is what intake sees of it."""

    def __init__(self, line: Line, pool: Pool, keys: ShardKeys) -> None:
        self._line = line
        self._pool = pool
        self._keys = keys

    async def role_of(self, owner: SessionKey) -> str | None:
        """The `GrantRole` value of a user, or None for a stranger."""
        answer = await self._line.call("HGET", self._keys.grants, str(owner))
        return None if answer is None else answer.decode()

    async def project_grants(self, grants: Sequence[Grant]) -> None:
        """Replace the whole projection, so that no reader ever sees half of it."""
        commands: list[Command] = [("DEL", self._keys.grants)]
        for start in range(0, len(grants), _CHUNK):
            words = [word for grant in grants[start : start + _CHUNK] for word in (str(grant.key), grant.role.value)]
            commands.append(("HSET", self._keys.grants, *words))
        await self._pool.transaction(commands)

    async def pairing_code(self, owner: SessionKey, *, new_code: str, ttl_s: int, pending_max: int) -> str | None:
        """The pending code of this stranger, made from `new_code` if there is none; None when too many
        strangers of the channel are pending."""
        keys = self._keys
        answer = await self._line.run(
            script("pairing_code"),
            (keys.pairing_of(str(owner)), keys.pairing_code(new_code), keys.pairing_pending(owner.channel)),
            (str(owner), new_code, ttl_s * 1000, pending_max),
        )
        return None if answer is None else answer.decode()

    async def redeem_pairing(self, code: str) -> SessionKey | None:
        """Take a code: the stranger it was given to, once."""
        keys = self._keys
        answer = await self._line.run(
            script("redeem_pairing"),
            (keys.pairing_code(code),),
            (keys.pairing_of(""), keys.pairing_pending("")),
        )
        return None if answer is None else SessionKey.parse(answer.decode())
