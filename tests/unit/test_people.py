"""How often the bus is asked about one person, and when what it said holds no longer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from agent.features.access import People
from agent.limits import LOOK_HOLDS_S, LOOKS_KEPT
from gateway.contracts.access import AccessView, ShownAccess
from gateway.contracts.budgets import LimitRule
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import InboundMessage
from gateway.contracts.sessions import GrantRole
from tests.parts.bus_samples import message
from tests.parts.keepers import policy_of

ANNA = SessionKey("telegram", "1")


class Showing:
    """A bus that shows one view of everybody, and counts the looks."""

    def __init__(self) -> None:
        self.shown = AccessView("member")
        self.looks = 0

    async def view(
        self, owner: SessionKey, places: Sequence[SessionKey] = (), *, shown: ShownAccess | None = None
    ) -> AccessView:
        self.looks += 1
        return self.shown


class Hands:
    """A clock that is set by hand."""

    now_s = 0.0

    def monotonic_s(self) -> float:
        return self.now_s


def people(bus: Showing, clock: Hands, *, admins: Sequence[SessionKey] = ()) -> People:
    return People(cast(Any, bus), cast(Any, None), policy_of(admins), cast(Any, clock))


def said() -> tuple[InboundMessage, ...]:
    return (message(1, ANNA),)


async def test_role_and_limits_are_of_the_moment_a_turn_began() -> None:
    """One look serves all three."""
    bus, clock = Showing(), Hands()
    asked = people(bus, clock)
    assert await asked.blocked_authors(said(), None) == frozenset()
    assert await asked.least_among([ANNA]) == (ANNA, GrantRole.MEMBER)
    assert (await asked.limits_of(ANNA))[0] is GrantRole.MEMBER
    assert bus.looks == 1


async def test_a_block_is_seen_by_the_very_next_question() -> None:
    bus, clock = Showing(), Hands()
    asked = people(bus, clock)
    assert await asked.blocked_authors(said(), None) == frozenset()
    bus.shown = AccessView("blocked")
    assert await asked.blocked_authors(said(), None) == {said()[0].id}
    assert await asked.least_among([ANNA]) == (ANNA, GrantRole.BLOCKED)


async def test_limits_are_looked_at_anew_once_the_look_is_old() -> None:
    bus, clock = Showing(), Hands()
    asked = people(bus, clock)
    await asked.limits_of(ANNA)
    bus.shown = AccessView("member", limits={ANNA: LimitRule(tokens=1)})
    clock.now_s += LOOK_HOLDS_S
    assert (await asked.limits_of(ANNA))[1].tokens == 1


async def test_of_an_admin_by_configuration_nothing_is_held_from_one_turn_to_the_next() -> None:
    """Whether he is blocked is never asked of the bus; his limits are, in each turn."""
    bus, clock = Showing(), Hands()
    asked = people(bus, clock, admins=[ANNA])
    for _ in range(2):
        assert await asked.blocked_authors(said(), None) == frozenset()
        await asked.limits_of(ANNA)
    assert bus.looks == 2


async def test_of_no_more_people_is_anything_held_than_speak_within_a_moment() -> None:
    bus, clock = Showing(), Hands()
    asked = people(bus, clock)
    for number in range(LOOKS_KEPT + 1):
        await asked.limits_of(SessionKey("telegram", str(number)))
    await asked.limits_of(SessionKey("telegram", str(LOOKS_KEPT)))
    assert bus.looks == LOOKS_KEPT + 1
    await asked.limits_of(SessionKey("telegram", "0"))
    assert bus.looks == LOOKS_KEPT + 2
