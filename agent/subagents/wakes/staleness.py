"""Wakes that were overtaken on their way: what they tell was told since, or is wanted no more."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.contracts.messages import InboundMessage
from gateway.contracts.subagents import is_wake
from gateway.store.subagents import TaskStore


async def stale_among(book: TaskStore, messages: Sequence[InboundMessage]) -> frozenset[str]:
    """The ids of those. While a wake lies on its lane, the running turn may ask for the same results, its person may
    stop everything, or begin another conversation."""
    wakes = [message.id for message in messages if is_wake(message)]
    return await book.overtaken(wakes) if wakes else frozenset()
