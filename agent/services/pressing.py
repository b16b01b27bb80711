"""A press of a button that says a command: who may, once, and what becomes of the button.

    find it ─▶ is it his? ─▶ redeem (SQL) ─▶ say it on its lane (bus) ─▶ the buttons go ─▶ the one who pressed is told

Whoever dies in between leaves the press on the control lane, and the next process does the same again: the press that
used the button up still counts, the message has one id, and so have the changes of the replies.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import structlog

from agent.people import People
from agent.questions import ended_by_choice
from agent.services.deciding import Decided
from gateway.bus.inbound import Inbound
from gateway.contracts.buttons import Button, Standing
from gateway.contracts.commands import find_command
from gateway.contracts.messages import InboundMessage, Reply, ReplyKind
from gateway.contracts.ports import Clock, Scrubber, Verdict
from gateway.store import Store
from gateway.words import Words, sentence, words_for

_log = structlog.get_logger(__name__)

GONE_WORD: Final = sentence("This button is no longer in use.")
NOT_FOR_YOU_WORD: Final = sentence("This button is for somebody else.")
NOT_HERE_WORD: Final = sentence("I do not listen to you here any more.")
USED_WORD: Final = sentence("One of these buttons was pressed already.")
EXPIRED_WORD: Final = sentence("This button is too old. Write the command instead.")
FULL_WORD: Final = sentence("I have too much to answer at the moment. Please press it again later.")

_WORDS: Final = {Standing.USED: USED_WORD, Standing.EXPIRED: EXPIRED_WORD, Standing.GONE: GONE_WORD}


class Pressing:
    """Redeems buttons for the control lane."""

    def __init__(self, store: Store, intake: Inbound, people: People, scrubber: Scrubber, clock: Clock) -> None:
        self._store = store
        self._intake = intake
        self._people = people
        self._scrubber = scrubber
        self._clock = clock

    async def press(self, press: InboundMessage, words: Words) -> Decided:
        """What became of it; of the same press once more, the same."""
        command = find_command(press.text)
        token = command.arguments if command else ""
        button = await self._store.buttons.find(token)
        if button is None:
            return Decided(words.say(GONE_WORD))
        if press.author != button.meant_for:
            _log.info("button.refused", reply_id=button.reply_id)
            return Decided(words.say(NOT_FOR_YOU_WORD))
        said = button.said_by(press)
        if not await self._people.is_admitted(press.author, said.spoken_in):
            return Decided(words.say(NOT_HERE_WORD))
        redeemed = await self._store.buttons.redeem(token, press_id=press.id, now_ms=self._clock.now_ms())
        if redeemed.standing is not Standing.TAKEN:
            used_up = redeemed.reply_ids if redeemed.standing is Standing.EXPIRED else ()
            return Decided(words.say(_WORDS[redeemed.standing]), await self._without_buttons(used_up))
        if not await self._is_said(said):
            await self._store.buttons.give_back(token, press_id=press.id)
            return Decided(words.say(FULL_WORD))
        _log.info("button.pressed", reply_id=button.reply_id)
        return Decided("", await self._without_buttons(redeemed.reply_ids, button, press))

    async def _is_said(self, said: InboundMessage) -> bool:
        admission = await self._intake.enqueue(said)
        return admission.verdict in (Verdict.ACCEPTED, Verdict.DUPLICATE)

    async def _without_buttons(
        self, reply_ids: tuple[str, ...], chosen: Button | None = None, press: InboundMessage | None = None
    ) -> tuple[Reply, ...]:
        """What takes the place of the replies: the same words, and what was chosen."""
        found = [await self._store.outbox.committed(reply_id) for reply_id in reply_ids]
        return tuple(self._changed(reply, chosen, press) for reply in found if reply is not None)

    def _changed(self, reply: Reply, chosen: Button | None, press: InboundMessage | None) -> Reply:
        text = reply.text
        if chosen is not None and press is not None:
            ending = ended_by_choice(chosen.label, press.author_shown, words_for(reply.language))
            text = self._scrubber.for_chat(str(reply.key)).scrub(f"{text}\n\n{ending}")
        return replace(
            reply,
            id=f"{reply.id}:pressed",
            text=text,
            kind=ReplyKind.NOTICE,
            created_at_ms=self._clock.now_ms(),
            choices=(),
            files=(),
            title=None,
            amends=reply.id,
        )
