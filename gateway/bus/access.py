"""The projection of what operators decided, which intake reads. The truth is in SQL."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from secrets import token_hex
from typing import Any, Final

from gateway.bus.keys import ShardKeys
from gateway.bus.line import Command, Line
from gateway.bus.pairing import Pairings
from gateway.bus.pool import Pool
from gateway.bus.scripts import script
from gateway.contracts.access import AccessView, Asked, Audience, Pairing, PlaceRule, Projection, Taken
from gateway.contracts.errors import BusUnavailable
from gateway.contracts.ids import SessionKey
from gateway.contracts.limit_rules import LIMITED_ROLES, Limited, LimitRule
from gateway.limits import PROJECTION_STAGED_S

_CHUNK: Final = 1000  # fields per command of a projection


class Access:
    """`gateway.contracts.ports.AccessBus`."""

    def __init__(self, line: Line, pool: Pool, keys: ShardKeys) -> None:
        self._line = line
        self._pool = pool
        self._keys = keys
        self._pairings = Pairings(line, keys)

    async def view(self, owner: SessionKey, places: Sequence[SessionKey] = ()) -> AccessView:
        """What was decided about a user and about these places, all of one moment. Raises `BusUnavailable` where
        nobody has shown it yet."""
        keys = self._keys
        found = await self._line.run(
            script("view_access"),
            (keys.access, keys.grants, keys.place_rules, keys.limit_rules),
            (str(owner), *LIMITED_ROLES, *map(str, places)),
        )
        if found is None:
            raise BusUnavailable("the bus does not know who is let in: an agent process tells it within seconds")
        limited: tuple[Limited, ...] = (owner, *LIMITED_ROLES)
        role, limits, rules = found[0], found[1 : 1 + len(limited)], found[1 + len(limited) :]
        return AccessView(
            role.decode() or None,
            {place: _rule(text) for place, text in zip(places, rules, strict=True) if text},
            {whom: _limits(text) for whom, text in zip(limited, limits, strict=True) if text},
        )

    async def project(self, projection: Projection, *, is_forced: bool = False) -> bool:
        """Replace the whole projection: it is staged under names of its own, then renamed."""
        keys, mark = self._keys, token_hex(8)
        staged = (keys.staged_grants(mark), keys.staged_places(mark), keys.staged_limits(mark))
        grants = {str(grant.key): grant.role.value for grant in projection.grants}
        places = {str(place): _text(rule) for place, rule in projection.places.items()}
        limits = {str(whom): _limits_text(rule) for whom, rule in projection.limits.items()}
        commands = [
            words for key, texts in zip(staged, (grants, places, limits), strict=True) for words in _filling(key, texts)
        ]
        if commands:
            await self._pool.transaction(commands)
        answer = await self._line.run(
            script("swap_access"),
            (keys.access, keys.grants, keys.place_rules, keys.limit_rules, *staged),
            (projection.revision, int(is_forced)),
        )
        return bool(answer)

    async def projected(self) -> int | None:
        """The revision that is shown, None where none is."""
        answer = await self._line.call("GET", self._keys.access)
        return None if answer is None else int(answer)

    async def ask_pairing(self, pairing: Pairing, *, ttl_s: int, pending_max: int) -> Asked:
        """The pending code of a stranger, which is that of `pairing` if he has none yet."""
        return await self._pairings.ask(pairing, ttl_s=ttl_s, pending_max=pending_max)

    async def take_pairing(self, code: str, *, by: str, taker: str) -> Taken:
        """Take a code, once."""
        return await self._pairings.take(code, by=by, taker=taker)

    async def deny_pairing(self, code: str) -> SessionKey | None:
        """Turn a stranger down."""
        return await self._pairings.deny(code)

    async def pairings(self) -> Sequence[Pairing]:
        """Who waits, oldest first."""
        return await self._pairings.waiting()


def _filling(key: str, texts: Mapping[str, str]) -> list[Command]:
    words = [word for pair in texts.items() for word in pair]
    chunks = (words[start : start + 2 * _CHUNK] for start in range(0, len(words), 2 * _CHUNK))
    return [("HSET", key, *chunk) for chunk in chunks] + ([("EXPIRE", key, PROJECTION_STAGED_S)] if words else [])


def _text(rule: PlaceRule) -> str:
    """As much of a rule as intake has to know."""
    said = {"audience": rule.audience, "lets_guests": rule.lets_guests, "roles": rule.roles}
    return json.dumps({name: word for name, word in said.items() if word is not None}, separators=(",", ":"))


def _limits_text(rule: LimitRule) -> str:
    return json.dumps({name: number for name, number in asdict(rule).items() if number is not None})


def _limits(text: bytes) -> LimitRule:
    said: Mapping[str, int] = json.loads(text)
    return LimitRule(**{each.name: said[each.name] for each in fields(LimitRule) if each.name in said})


def _rule(text: bytes) -> PlaceRule:
    """A word that this release does not know closes the place."""
    said: Mapping[str, Any] = json.loads(text)
    audience = said.get("audience")
    known = Audience(audience) if audience in set(Audience) else Audience.NOBODY
    roles = said.get("roles")
    return PlaceRule(
        None if audience is None else known,
        said.get("lets_guests"),
        roles=None if roles is None else tuple(roles),
    )
