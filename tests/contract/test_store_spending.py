"""The ledger of a day, on SQLite and PostgreSQL: never above a cap, nothing leaks, everybody has his own."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from itertools import count
from random import Random
from typing import Final

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from agent.features.usage import Meter
from agent.models.metering import Planned
from gateway.clock import SystemClock
from gateway.contracts.budgets import DAY_MS, Amounts, BudgetRefusal, Caps, Measure, Reservation
from gateway.contracts.ids import SessionKey
from gateway.contracts.sessions import Usage, UsagePurpose
from gateway.store import Store, open_store
from tests.contract.store_samples import ANN, BOB, talk

DAY: Final = 20_000
NOW_MS: Final = DAY * DAY_MS + 1_000
LATER_MS: Final = NOW_MS + 60_000
OPEN: Final = Caps()
_numbers = count(1)


@dataclass(frozen=True, slots=True)
class SameCaps:
    """`agent.features.usage.DailyTerms` that are the same for everybody."""

    own: Caps
    pot: Caps

    async def caps_of(self, _owner: SessionKey) -> Caps:
        return self.own


def claim(
    tokens: int = 0, *, owner: SessionKey = ANN, nano_usd: int = 0, turn_id: str = "", begins_turn: bool = True
) -> Reservation:
    return Reservation(f"r{next(_numbers)}", owner, DAY, tokens, nano_usd, LATER_MS, turn_id, begins_turn)


async def reserved(
    store: Store, reservation: Reservation, own: Caps, pot: Caps = OPEN, *, now_ms: int = NOW_MS
) -> BudgetRefusal | None:
    found = await store.spending.reserve(reservation, own=own, pot=pot, now_ms=now_ms)
    return found if isinstance(found, BudgetRefusal) else None


async def spent(store: Store, owner: SessionKey | None = ANN, *, now_ms: int = NOW_MS) -> Amounts | None:
    return await store.spending.spent(owner, DAY, now_ms=now_ms)


async def test_what_is_reserved_counts_until_it_is_settled_for_what_it_cost(store: Store) -> None:
    first, second = claim(60), claim(60)
    assert await reserved(store, first, Caps(tokens=100)) is None
    assert await reserved(store, second, Caps(tokens=100)) == BudgetRefusal(Measure.TOKENS)
    await store.spending.settle(first, Amounts(tokens=20))
    assert await reserved(store, second, Caps(tokens=100)) is None
    assert await spent(store) == Amounts(tokens=80)


async def test_a_reserve_larger_than_what_is_left_is_refused_and_leaves_no_trace(store: Store) -> None:
    assert await reserved(store, claim(101, turn_id="t1"), Caps(tokens=100)) == BudgetRefusal(Measure.TOKENS)
    assert await spent(store) in (None, Amounts())
    assert await reserved(store, claim(100, turn_id="t1"), Caps(tokens=100, turns=1)) is None
    assert await spent(store) == Amounts(tokens=100, turns=1)


@pytest.mark.parametrize(
    ("own", "is_last", "waits"),
    [
        (OPEN, False, False),
        (Caps(tokens=100), False, True),
        (Caps(tokens=100), True, False),
        (Caps(tokens=22), True, True),
    ],
)
async def test_only_who_has_little_left_or_goes_on_waits_for_a_settlement(
    store: Store, own: Caps, is_last: bool, waits: bool
) -> None:
    meter = Meter(store.spending, SameCaps(own, pot=Caps(tokens=1_000)), SystemClock())
    call = await meter.admit(ANN, lambda: Planned("m", Amounts(tokens=21), is_priced=True, for_s=60.0))
    assert call is not None
    settling = asyncio.create_task(call.settle(Amounts(tokens=20), is_last=is_last))
    await asyncio.sleep(0)  # it begins
    assert settling.done() is not waits
    await settling
    assert (ANN in meter.near) is (own == Caps(tokens=22))
    await meter.aclose()
    assert await meter.spent(ANN) == Amounts(tokens=20)


async def test_a_settlement_is_counted_once(store: Store) -> None:
    reservation = claim(50)
    await reserved(store, reservation, Caps(tokens=100))
    await store.spending.settle(reservation, Amounts(tokens=40, nano_usd=7))
    await store.spending.settle(reservation, Amounts(tokens=40, nano_usd=7))
    assert await spent(store) == Amounts(tokens=40, nano_usd=7)


async def test_a_settlement_of_what_was_refused_counts_nothing(store: Store) -> None:
    refused = claim(500)
    await reserved(store, refused, Caps(tokens=100))
    await store.spending.settle(refused, Amounts(tokens=500))
    assert await spent(store) in (None, Amounts())


async def test_the_reservation_of_a_dead_worker_comes_back_by_itself(store: Store) -> None:
    await reserved(store, claim(100), Caps(tokens=100))
    assert await reserved(store, claim(1), Caps(tokens=100), now_ms=LATER_MS - 1) == BudgetRefusal(Measure.TOKENS)
    assert (
        await reserved(store, replace(claim(100), expires_at_ms=LATER_MS + 9), Caps(tokens=100), now_ms=LATER_MS)
        is None
    )
    assert await spent(store, now_ms=LATER_MS) == Amounts(tokens=100)


async def test_a_call_that_outlived_its_reservation_still_pays(store: Store) -> None:
    """Its worker was paused: the money is gone all the same."""
    late = claim(100)
    await reserved(store, late, Caps(tokens=100))
    assert await spent(store, now_ms=LATER_MS) == Amounts()
    await store.spending.settle(late, Amounts(tokens=90))
    assert await spent(store, now_ms=LATER_MS) == Amounts(tokens=90)


async def test_a_reservation_made_again_replaces_itself(store: Store) -> None:
    """A call that is tried again stays reserved for longer, not twice."""
    reservation = claim(80, turn_id="t1")
    await reserved(store, reservation, Caps(tokens=100))
    assert await reserved(store, replace(reservation, expires_at_ms=LATER_MS + 9), Caps(tokens=100)) is None
    assert await spent(store, now_ms=LATER_MS) == Amounts(tokens=80, turns=1)


async def test_a_turn_is_counted_once_whoever_runs_it(store: Store) -> None:
    """A takeover runs it again, a round asks again; the title beside it begins nothing."""
    caps = Caps(turns=2)
    for turn_id in ("t1", "t1", "t2", "t2", "t1"):
        assert await reserved(store, claim(1, turn_id=turn_id), caps) is None
    assert await reserved(store, claim(1, turn_id="t2", begins_turn=False), caps) is None
    assert await reserved(store, claim(1, turn_id="t3", begins_turn=False), caps) == BudgetRefusal(Measure.TURNS)
    assert await reserved(store, claim(1, turn_id="t3"), caps) == BudgetRefusal(Measure.TURNS)
    found = await spent(store)
    assert found is not None
    assert found.turns == 2


async def test_money_is_a_measure_of_its_own(store: Store) -> None:
    assert await reserved(store, claim(10**9, nano_usd=5), Caps(nano_usd=5)) is None
    assert await reserved(store, claim(0, nano_usd=1), Caps(nano_usd=5)) == BudgetRefusal(Measure.MONEY)


async def test_everybody_has_an_allowance_of_his_own_and_all_share_the_pot(store: Store) -> None:
    own, pot = Caps(tokens=100), Caps(tokens=150)
    assert await reserved(store, claim(100), own, pot) is None
    assert await reserved(store, claim(60, owner=BOB), own, pot) == BudgetRefusal(Measure.TOKENS, is_everybodys=True)
    assert await reserved(store, claim(50, owner=BOB), own, pot) is None
    assert await spent(store, BOB) == Amounts(tokens=50)
    assert await spent(store, None) == Amounts(tokens=150)


async def test_the_pot_counts_those_without_a_cap_of_their_own(store: Store) -> None:
    reservation = claim(100)
    assert await reserved(store, reservation, OPEN, Caps(tokens=100)) is None
    await store.spending.settle(reservation, Amounts(tokens=99))
    assert await reserved(store, claim(2, owner=BOB), OPEN, Caps(tokens=100)) == BudgetRefusal(
        Measure.TOKENS, is_everybodys=True
    )


async def test_a_new_day_begins_with_nothing_spent(store: Store) -> None:
    old = claim(100, turn_id="t1")
    await reserved(store, old, Caps(tokens=100, turns=1))
    new = replace(claim(100, turn_id="t2"), day=DAY + 1)
    assert await reserved(store, new, Caps(tokens=100, turns=1), now_ms=NOW_MS + DAY_MS) is None


async def test_a_call_over_midnight_is_charged_to_the_day_it_began_on(store: Store) -> None:
    old = claim(100)
    await reserved(store, old, Caps(tokens=100))
    await reserved(store, replace(claim(1), day=DAY + 1), Caps(tokens=100), now_ms=NOW_MS + DAY_MS)
    await store.spending.settle(old, Amounts(tokens=70))
    assert await spent(store) == Amounts(tokens=70)


async def test_a_cap_that_comes_into_force_in_the_middle_of_a_day_knows_the_morning(store: Store) -> None:
    for owner, number in ((ANN, 1), (BOB, 2)):
        session = await talk(store, owner, "hello", number=number)
        morning = Usage(owner, UsagePurpose.TURN, "m", 60, 20, 0, 0.25, f"turn{number}", NOW_MS)
        yesterday = replace(morning, created_at_ms=NOW_MS - DAY_MS, turn_id="old")
        title = replace(
            morning, purpose=UsagePurpose.TITLE, prompt_tokens=4, completion_tokens=1, turn_id="", cost_usd=0.0
        )
        await store.sessions.charge([morning, yesterday, title], session_id=session.id)
    assert await reserved(store, claim(16), Caps(tokens=100)) == BudgetRefusal(Measure.TOKENS)
    assert await reserved(store, claim(15), Caps(tokens=100)) is None
    assert await spent(store) == Amounts(tokens=100, nano_usd=250_000_000, turns=1)
    assert await reserved(store, claim(1, owner=BOB), OPEN, Caps(nano_usd=500_000_000)) is None
    found = await spent(store, None)
    assert found is not None
    assert (found.nano_usd, found.turns) == (500_000_000, 2)


async def test_the_warning_comes_once_per_day_and_measure(store: Store) -> None:
    caps = Caps(tokens=100, turns=10)

    async def warned(day: int = DAY) -> frozenset[Measure]:
        return await store.spending.warn_once(ANN, day, caps=caps, percent=90)

    assert await warned() == frozenset()
    first = claim(89)
    await reserved(store, first, caps)
    await store.spending.settle(first, Amounts(tokens=89))
    assert await warned() == frozenset()
    for number in range(9):
        await reserved(store, claim(0, turn_id=f"t{number}"), caps)
    assert await warned() == {Measure.TURNS}
    last = claim(1)
    await reserved(store, last, caps)
    await store.spending.settle(last, Amounts(tokens=1))
    assert await warned() == {Measure.TOKENS}
    assert await warned() == frozenset()
    assert await store.spending.warn_once(BOB, DAY, caps=caps, percent=90) == frozenset()


async def test_nothing_of_the_days_before_yesterday_is_kept(store: Store) -> None:
    await reserved(store, claim(1, turn_id="t1"), Caps(tokens=100))
    await reserved(store, replace(claim(1, turn_id="t2"), day=DAY + 2), Caps(tokens=100), now_ms=NOW_MS + 2 * DAY_MS)
    assert await spent(store) is None
    assert await reserved(store, replace(claim(1, turn_id="t1"), day=DAY + 2), Caps(turns=1)) == BudgetRefusal(
        Measure.TURNS
    )


# --- any order, and at the same time


@pytest.mark.parametrize("seed", range(4))
async def test_in_any_order_nothing_exceeds_a_cap_and_nothing_leaks(store: Store, seed: int) -> None:
    """Against a pure model: reserve, settle for less, die and expire, with a cap of one's own and a pot."""
    chance = Random(seed)
    caps, pot = Caps(tokens=100, nano_usd=50, turns=12), Caps(tokens=160, turns=18)
    now_ms = NOW_MS
    living: dict[str, tuple[Reservation, Amounts]] = {}
    settled: dict[SessionKey, Amounts] = {ANN: Amounts(), BOB: Amounts()}
    turns: set[str] = set()

    def held(owner: SessionKey) -> Amounts:
        mine = (amount for each, amount in living.values() if each.owner == owner and each.expires_at_ms > now_ms)
        return sum(mine, settled[owner])

    for _ in range(60):
        now_ms += chance.randrange(40)
        if living and chance.random() < 0.4:
            reservation, amount = living.pop(chance.choice(sorted(living)))
            cost = Amounts(chance.randint(0, amount.tokens), chance.randint(0, amount.nano_usd))
            if reservation.expires_at_ms > now_ms:  # one that died is settled by nobody
                await store.spending.settle(reservation, cost)
                settled[reservation.owner] += cost
        else:
            owner, turn_id = chance.choice((ANN, BOB)), f"t{chance.randrange(20)}"
            reservation = replace(
                claim(chance.randrange(40), owner=owner, nano_usd=chance.randrange(20), turn_id=f"{owner}{turn_id}"),
                expires_at_ms=now_ms + chance.randrange(1, 200),
            )
            new = Amounts(reservation.tokens, reservation.nano_usd)
            turn = Amounts(turns=int(reservation.turn_id not in turns))
            fits = not caps.exceeded_by(held(owner) + new + turn)
            fits = fits and not pot.exceeded_by(held(ANN) + held(BOB) + new + turn)
            refusal = await reserved(store, reservation, caps, pot, now_ms=now_ms)
            assert (refusal is None) == fits
            if fits:
                living[reservation.id] = reservation, new
                turns.add(reservation.turn_id)
                settled[owner] += turn
        for owner in (ANN, BOB):
            found = await spent(store, owner, now_ms=now_ms) or Amounts()
            assert found == held(owner)
            assert caps.exceeded_by(found) is None
        both = await spent(store, None, now_ms=now_ms) or Amounts()
        assert both == held(ANN) + held(BOB)
        assert pot.exceeded_by(both) is None


async def test_of_many_at_the_same_time_only_those_that_fit_get_through(database_url: str) -> None:
    """Over several connections, whoever counts first: neither too many nor too few, nor a deadlock."""
    stores = [open_store(database_url) for _ in range(4)]
    try:
        owners = [SessionKey("telegram", str(number)) for number in range(20)]
        claims = [claim(10, owner=owner, turn_id=f"t{owner}{number}") for number in range(2) for owner in owners]

        async def call(number: int) -> bool:
            ledger = stores[number % 4].spending
            found = await ledger.reserve(claims[number], own=Caps(turns=10), pot=Caps(tokens=150), now_ms=NOW_MS)
            if isinstance(found, BudgetRefusal):
                return False
            await ledger.settle(claims[number], Amounts(tokens=10))
            return True

        got_through = await asyncio.gather(*map(call, range(40)))
        assert sum(got_through) == 15
        assert await spent(stores[0], None) == Amounts(tokens=150, turns=15)
    finally:
        for store in stores:
            await store.close()


async def test_one_whose_transaction_stands_still_holds_up_nobody_else(database_url: str) -> None:
    """On a server, that is: a process may be slow or far away while it settles, and all share the pot."""
    if not database_url.startswith("postgresql"):
        pytest.skip("SQLite has one writer at a time")
    pot = Caps(tokens=100)
    store, slow = open_store(database_url), create_async_engine(database_url)
    try:
        assert await reserved(store, claim(10, turn_id="t1"), OPEN, pot) is None
        async with slow.begin() as connection:
            held = await connection.execute(text("SELECT owner FROM spending WHERE turns > 0 FOR UPDATE"))
            assert len(held.all()) == 2  # Ann's row, and her part of the pot
            other = claim(10, owner=BOB, turn_id="t2")
            async with asyncio.timeout(5):
                assert await reserved(store, other, OPEN, pot) is None
                await store.spending.settle(other, Amounts(tokens=9))
                assert await spent(store, None) == Amounts(tokens=19, turns=2)
    finally:
        await store.close()
        await slow.dispose()
