"""Who decides about people and places, on real parts."""

from __future__ import annotations

from collections.abc import Iterable

from gateway.access import AccessService
from gateway.bus.bus import RedisBus
from gateway.clock import SystemClock
from gateway.contracts.access import AccessPolicy, Pairing, StrangerRule
from gateway.contracts.ids import ReplyAddress, SessionKey
from gateway.contracts.messages import Reply, ReplyKind, literal_text
from gateway.scrub import Scrubber
from gateway.store import Store


def policy_of(admins: Iterable[SessionKey] = (), *, is_open: bool = True) -> AccessPolicy:
    """A policy without a word about channels and places."""
    return AccessPolicy(StrangerRule.OPEN if is_open else StrangerRule.CLOSED, frozenset(admins))


def keeper_of(store: Store, bus: RedisBus, policy: AccessPolicy | None = None) -> AccessService:
    """As each role puts it together."""
    return AccessService(
        store.access, bus.access, bus.deliveries, policy or policy_of(), Scrubber().scrub, SystemClock()
    )


def pairing(owner: SessionKey, code: str, *, asked_at_ms: int = 1) -> Pairing:
    """A stranger who asks in a direct message."""
    address = ReplyAddress(owner.channel, owner.user, "{}")
    welcome = Reply(
        f"notice:welcome:{code}", "", owner, address, literal_text("Welcome."), ReplyKind.NOTICE, asked_at_ms
    )
    return Pairing(code, owner, literal_text("Ann"), welcome, asked_at_ms)
