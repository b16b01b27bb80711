"""Presses of buttons: acknowledged when the bus has them, answered in private. And what is in a list to pick from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from channels.adapter import Door
from channels.errands import Errands
from channels.normalized import Ignored, Incoming
from channels.slack.blocks import Block, option
from channels.slack.bolt import Hear
from channels.slack.links import respond
from channels.slack.normalize import SlackIdentity
from channels.slack.people import People
from channels.slack.picking import is_pick, is_question, normalize_question
from channels.slack.presses import is_press, normalize_press
from channels.slack.render import render
from channels.slack.slash import response_url_of
from gateway.contracts.messages import CleanText


class Presses:
    """The presses that come over one socket."""

    def __init__(self, me: SlackIdentity, door: Door, people: People, errands: Errands, *, proxy: str = "") -> None:
        self._me = me
        self._door = door
        self._people = people
        self._errands = errands
        self._proxy = proxy

    def before(self, hear: Hear) -> Hear:
        """Take the presses, and what Slack asks for while somebody picks; leave everything else to `hear`. Raises
        `BusUnavailable`: then nothing is acknowledged."""

        async def hear_all(body: Mapping[str, Any]) -> Sequence[Block] | None:
            if is_question(body):
                return await self._list(body)
            if is_press(body) and not is_pick(body):
                await self._take(body)
                return None
            return await hear(body)

        return hear_all

    async def _list(self, body: Mapping[str, Any]) -> Sequence[Block]:
        typing = normalize_question(body, self._me)
        suggestions = () if isinstance(typing, Ignored) else await self._door.suggest(await self._known(typing))
        return [option(each.label, each.value) for each in suggestions]

    async def _take(self, body: Mapping[str, Any]) -> None:
        press = normalize_press(body, self._me)
        if isinstance(press, Ignored):
            return
        known = await self._known(press)
        word = await self._door.press(known)

        async def pass_on() -> None:
            told = await self._door.told(known) if word is None else word
            await _whisper(response_url_of(body), told, self._proxy)

        self._errands.start(pass_on())

    async def _known(self, press: Incoming) -> Incoming:
        """With the name and the language of the one who pressed; the press itself has but a handle."""
        person = await self._people.one(press.user_id)
        return replace(press, author_name=person.name, language=person.language) if person else press


async def _whisper(url: str, word: CleanText, proxy: str) -> None:
    """Shown to the one who pressed, and to nobody else."""
    chunks = render(word)
    if chunks and url:
        await respond(url, chunks[0], plain=False, proxy=proxy)
