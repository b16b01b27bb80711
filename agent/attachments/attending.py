"""What came along with a turn, from its first message to the last one that joins it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agent.attachments.occasion import Occasion
from agent.attachments.receiving import Received, Receiving
from agent.engine import Hold, Joined, StepsTaken
from agent.limits import SHOWN_SHARE_MAX, SHOWN_TOKENS_MIN
from agent.models import Models
from gateway.contracts.entries import Session
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import InboundMessage, joined
from gateway.contracts.subagents import is_wake
from gateway.store import Store


class Attending:
    """Takes in what came along, and tells it in the transcript."""

    def __init__(self, receiving: Receiving, models: Models, store: Store) -> None:
        self._receiving = receiving
        self._models = models
        self._store = store

    async def attend(
        self,
        messages: Sequence[InboundMessage],
        session: Session,
        taken: StepsTaken,
        hold: Hold,
        *,
        turn_id: str,
        key: SessionKey,
        fence: int,
    ) -> Hold:
        """From now on the transcript says what came along with `messages`; what joins the turn through the hold that is
        returned brings its files, too. Raises `Fenced` and `StoreUnavailable`."""
        model = self._models.of_session(session)
        occasion = Occasion(
            session,
            turn_id,
            tokens_max=max(int(self._models.budget(model).usable * SHOWN_SHARE_MAX), SHOWN_TOKENS_MIN),
            sees=self._models.sees(model),
            language=next((message.language for message in reversed(messages) if message.language), ""),
            permit=hold.permit,
        )
        taken.reading.is_foreign |= any(map(_brings_foreign, messages))
        received = await self._receiving.receive(messages, occasion)
        if received.texts:
            await self._store.turns.retell(turn_id=turn_id, key=key, fence=fence, texts=received.texts)
        _take_note(received, taken)
        if received.spoken:
            taken.said = joined(*filter(None, (taken.said, *received.spoken)), by="\n\n")
        return _Attended(hold, self._receiving, occasion, taken)


class _Attended:
    """A `Hold` whose newcomers bring what came along with them."""

    def __init__(self, inner: Hold, receiving: Receiving, occasion: Occasion, taken: StepsTaken) -> None:
        self.permit = inner.permit
        self.showing = inner.showing
        self._inner = inner
        self._receiving = receiving
        self._occasion = occasion
        self._taken = taken

    async def join(self) -> Sequence[Joined]:
        """The entries become the transcript's when the turn is committed."""
        newcomers = await self._inner.join()
        self._taken.reading.is_foreign |= any(_brings_foreign(newcomer.message) for newcomer in newcomers)
        received = await self._receiving.receive([newcomer.message for newcomer in newcomers], self._occasion)
        _take_note(received, self._taken)
        return [
            replace(each, entry=replace(each.entry, text=received.texts.get(each.message.id, each.entry.text)))
            for each in newcomers
        ]


def _brings_foreign(message: InboundMessage) -> bool:
    """Quotes, files, and what sub-agents have found are not the words of the person."""
    return not message.is_text or is_wake(message)


def _take_note(received: Received, taken: StepsTaken) -> None:
    taken.notes.extend(note for note in received.notes if note not in taken.notes)
