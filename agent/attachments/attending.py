"""What came along with a turn, from its first message to the last one that joins it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from agent.attachments.occasion import Occasion
from agent.attachments.receiving import Received, Receiving
from agent.engine import Joined, Turn
from agent.limits import SHOWN_SHARE_MAX, SHOWN_TOKENS_MIN
from agent.models import Models
from gateway.contracts.messages import InboundMessage, joined
from gateway.contracts.subagents import is_wake
from gateway.store import Store


class Attending:
    """Takes in what came along, and tells it in the transcript."""

    def __init__(self, receiving: Receiving, models: Models, store: Store) -> None:
        self._receiving = receiving
        self._models = models
        self._store = store

    async def attend(self, messages: Sequence[InboundMessage], turn: Turn) -> None:
        """Have the transcript say what came along with `messages`, and with what joins the turn. Raises `Fenced` and
        `StoreUnavailable`."""
        batch, model = turn.batch, self._models.of_session(turn.session)
        occasion = Occasion(
            turn.session,
            batch.turn_id,
            tokens_max=max(int(self._models.budget(model).usable * SHOWN_SHARE_MAX), SHOWN_TOKENS_MIN),
            sees=self._models.sees(model),
            language=next((message.language for message in reversed(messages) if message.language), ""),
            permit=turn.permit,
        )
        received = await self._receive(messages, turn, occasion)
        if received.texts:
            await self._store.turns.retell(
                turn_id=batch.turn_id, key=batch.key, fence=batch.fence, texts=received.texts
            )
        if received.spoken:
            turn.said = joined(*filter(None, (turn.said, *received.spoken)), by="\n\n")
        turn.receive = partial(self._receive_joined, turn, occasion)

    async def _receive_joined(self, turn: Turn, occasion: Occasion, newcomers: Sequence[Joined]) -> Sequence[Joined]:
        """Take in what came along with messages that join; the entries become the transcript's with the commit."""
        received = await self._receive([newcomer.message for newcomer in newcomers], turn, occasion)
        return [
            replace(each, entry=replace(each.entry, text=received.texts.get(each.message.id, each.entry.text)))
            for each in newcomers
        ]

    async def _receive(self, messages: Sequence[InboundMessage], turn: Turn, occasion: Occasion) -> Received:
        turn.reading.is_foreign |= any(map(_brings_foreign, messages))
        received = await self._receiving.receive(messages, occasion)
        turn.notes.extend(note for note in received.notes if note not in turn.notes)
        return received


def _brings_foreign(message: InboundMessage) -> bool:
    """Quotes, files, and what sub-agents have found are not the words of the person."""
    return not message.is_text or is_wake(message)
