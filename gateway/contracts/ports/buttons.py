"""Buttons, from the commit that makes them to the press that uses them up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gateway.contracts.buttons import Button, Redeemed
from gateway.contracts.messages import Reply


class ButtonBook(Protocol):
    """What stands behind buttons. Those of a turn come with its commit. Raises `StoreUnavailable`."""

    async def offer(self, reply: Reply, buttons: Sequence[Button]) -> bool:
        """Commit a reply that belongs to no turn with what stands behind its buttons. False: it was committed before,
        with the buttons that it had then."""
        ...

    async def find(self, token: str) -> Button | None:
        """None for a token that nobody was given, or long ago."""
        ...

    async def redeem(self, token: str, *, press_id: str, now_ms: int) -> Redeemed:
        """Use up a button and its group: one press of them all counts, and counts again when it comes again."""
        ...

    async def give_back(self, token: str, *, press_id: str) -> None:
        """Nothing came of that press: the group may be pressed again."""
        ...
