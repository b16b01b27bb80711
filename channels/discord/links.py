"""The way back to one who chose a command: the token of his interaction, good for a quarter of an hour.

Whoever has the token can speak in our name, so it lies on the bus for as long as it is good, and addresses only name
the interaction. It is kept before the command is on the bus, and is open once Discord was told that an answer comes;
an answer that is faster than that waits. The first reply that asks has the link for itself: what else is said at the
same address later, such as a reminder, must not take the place of the answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from channels.discord import limits
from gateway.bus.deliveries import Deliveries
from gateway.bus.places import Places
from gateway.contracts.errors import BusUnavailable, SendFailed

_DUE, _OPEN = "due", "open"
LOOK_EVERY_S: Final = 0.05


class Links:
    """The links of one bot, which `account` names."""

    def __init__(self, places: Places, leases: Deliveries, account: Callable[[], str]) -> None:
        self._places = places
        self._leases = leases
        self._account = account

    async def keep(self, link: str, token: str, *, is_open: bool) -> None:
        """Raises `BusUnavailable`."""
        state = _OPEN if is_open else _DUE
        await self._places.keep_link(self._name(link), f"{state} {token}", ttl_s=limits.LINK_TTL_S)

    async def token(self, link: str) -> str:
        """Empty once it is good no more. Raises `SendFailed` without the bus."""
        return (await self._found(link))[1]

    async def token_for(self, reply_id: str, link: str) -> str:
        """The token, if the link is this reply's; waits until it is open. One that never opens may be good all the
        same: whoever opens links may have died in between. Raises `SendFailed` without the bus."""
        state, token = await self._found(link)
        if not token or not await self._is_of(reply_id, link):
            return ""
        until_s = asyncio.get_running_loop().time() + limits.LINK_OPENS_WITHIN_S
        while state == _DUE and asyncio.get_running_loop().time() < until_s:
            await asyncio.sleep(LOOK_EVERY_S)
            state, token = await self._found(link)
        return token

    async def _is_of(self, reply_id: str, link: str) -> bool:
        try:
            return await self._leases.hold(f"link:{self._name(link)}", reply_id, ttl_s=limits.LINK_TTL_S)
        except BusUnavailable as error:
            raise SendFailed("the bus is away, and with it the way to the one who asked") from error

    async def _found(self, link: str) -> tuple[str, str]:
        try:
            kept = await self._places.link(self._name(link))
        except BusUnavailable as error:
            raise SendFailed("the bus is away, and with it the way to the one who asked") from error
        state, _, token = kept.partition(" ")
        return state, token

    def _name(self, link: str) -> str:
        return f"{self._account()}:{link}"
