"""Presses of buttons: acknowledged when the bus has them, answered in private."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from channels.adapter import Door
from channels.errands import Errands
from channels.normalized import Ignored
from channels.slack.bolt import Hear
from channels.slack.links import respond
from channels.slack.normalize import SlackIdentity
from channels.slack.presses import is_press, normalize_press
from channels.slack.render import render
from channels.slack.slash import response_url_of
from gateway.contracts.messages import CleanText


class Presses:
    """The presses that come over one socket."""

    def __init__(self, me: SlackIdentity, door: Door, errands: Errands, *, proxy: str = "") -> None:
        self._me = me
        self._door = door
        self._errands = errands
        self._proxy = proxy

    def before(self, hear: Hear) -> Hear:
        """Take the presses, leave everything else to `hear`. Raises `BusUnavailable`: then nothing is acknowledged."""

        async def hear_both(body: Mapping[str, Any]) -> None:
            await (self._take(body) if is_press(body) else hear(body))

        return hear_both

    async def _take(self, body: Mapping[str, Any]) -> None:
        press = normalize_press(body, self._me)
        if isinstance(press, Ignored):
            return
        word = await self._door.press(press)

        async def pass_on() -> None:
            told = await self._door.told(press) if word is None else word
            await _whisper(response_url_of(body), told, self._proxy)

        self._errands.start(pass_on())


async def _whisper(url: str, word: CleanText, proxy: str) -> None:
    """Shown to the one who pressed, and to nobody else."""
    chunks = render(word)
    if chunks and url:
        await respond(url, chunks[0], plain=False, proxy=proxy)
