"""Strangers who wait to be let in: their codes, and how often somebody may err over one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gateway.bus.keys import ShardKeys
from gateway.bus.line import Line
from gateway.bus.scripts import script
from gateway.bus.wire import bounded
from gateway.contracts.access import Asked, Pairing, Taken
from gateway.contracts.envelope import decode_reply
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText


class Pairings:
    """The half of `gateway.contracts.ports.AccessBus` that is about strangers."""

    def __init__(self, line: Line, keys: ShardKeys) -> None:
        self._line = line
        self._keys = keys

    async def ask(self, pairing: Pairing, *, ttl_s: int, pending_max: int) -> Asked:
        """The pending code of a stranger, which is that of `pairing` if he has none yet."""
        keys, owner = self._keys, pairing.owner
        answer = await self._line.run(
            script("ask_pairing"),
            (keys.pairing_of(str(owner)), keys.pairing_code(pairing.code), keys.pairings),
            (
                *(str(owner), owner.channel, pairing.code, bounded(pairing.welcome), pairing.name),
                *(pairing.asked_at_ms, ttl_s * 1000, pending_max),
            ),
        )
        return Asked() if answer is None else Asked(answer.decode(), is_denied=not answer)

    async def take(self, code: str, *, by: str, taker: str) -> Taken:
        """Take a code, once; who errs too often is not listened to."""
        keys = self._keys
        verdict, found = await self._line.run(
            script("take_pairing"),
            (keys.pairing_code(code), keys.pairing_tries(by), keys.pairings),
            (keys.pairing_of(""), taker),
        )
        match verdict:
            case 1:
                return Taken(_pairing(code, found))
            case 0:
                return Taken(tries_left=found)
            case _:
                return Taken(is_locked=True, wait_s=found / 1000)

    async def deny(self, code: str) -> SessionKey | None:
        """Turn a stranger down; who he is."""
        keys = self._keys
        answer = await self._line.run(
            script("deny_pairing"), (keys.pairing_code(code), keys.pairings), (keys.pairing_of(""),)
        )
        return None if answer is None else SessionKey.parse(answer.decode())

    async def waiting(self) -> Sequence[Pairing]:
        """Who asked first stands in front."""
        keys = self._keys
        found = await self._line.run(
            script("list_pairings"), (keys.pairings,), (keys.pairing_of(""), keys.pairing_code(""))
        )
        return [_pairing(code.decode(), fields) for code, fields in found if fields]


def _pairing(code: str, words: Sequence[bytes]) -> Pairing:
    fields: Mapping[bytes, Any] = dict(zip(words[::2], words[1::2], strict=True))
    return Pairing(
        code,
        SessionKey.parse(fields[b"owner"].decode()),
        CleanText(fields[b"name"].decode()),
        decode_reply(fields[b"welcome"]),
        int(fields[b"asked_at"]),
    )
