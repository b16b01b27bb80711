"""What showed a draft that no answer follows is taken away, or says so where nothing can be taken away."""

from __future__ import annotations

from channels.adapter import ChannelAdapter, SupportsChoices, SupportsStreaming, SupportsWithdrawal
from channels.notices import WITHDRAWN
from gateway.contracts.ids import ReplyAddress
from gateway.words import words_for


class Withdrawing:
    """On one platform. Raises the `DeliveryError` tree; may be asked again."""

    def __init__(self, adapter: ChannelAdapter) -> None:
        self._adapter = adapter
        self._streaming = adapter if isinstance(adapter, SupportsStreaming) else None
        self._deleting = adapter if isinstance(adapter, SupportsWithdrawal) else None
        self._amending = adapter if isinstance(adapter, SupportsChoices) else None

    async def take_back(self, address: ReplyAddress, message_id: str, language: str = "") -> None:
        """When this returns, nothing of what the message showed is to be seen; `language` is its reader's, if known."""
        if self._streaming is not None:
            await self._streaming.end_stream(address, message_id=message_id)
        if self._deleting is not None and await self._deleting.withdraw(address, message_id=message_id):
            return
        if self._amending is not None:
            (chunk,) = self._adapter.chunks(words_for(language).say(WITHDRAWN))
            await self._amending.amend(address, chunk, message_id=message_id, plain=False)
