"""A hook at each point. All of them are asked about every message, so they are quick and keep nothing large."""

from __future__ import annotations

import logging
from collections import Counter

from gateway.plugins import HookEvent

TRIVET_PLUGIN_API = 1

delivered: Counter[str] = Counter()


def spell_out(event: HookEvent) -> str | None:
    """Spell out what the house abbreviates, before the message is queued."""
    return event.text.replace("OOO", "out of office") if "OOO" in event.text else None


def tell_rules(event: HookEvent) -> str | None:
    """Tell the model a rule where it matters."""
    return "Prices are in euro, VAT included." if "price" in event.text.lower() else None


async def sign(event: HookEvent) -> str:
    """Put a line below each answer."""
    return f"{event.text}\n\n— the house"


def count(event: HookEvent) -> None:
    """Count how deliveries end."""
    delivered[event.outcome] += 1
    logging.getLogger(__name__).info("%s: %s", event.conversation, event.outcome)
