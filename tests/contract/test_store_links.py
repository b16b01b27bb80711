"""Persons with several accounts, on SQLite and PostgreSQL: joined by a code, once; parted; never more than one cap."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from random import Random
from typing import Final

from gateway.contracts.access import LinkOffer, LinkVerdict, RedeemedLink
from gateway.contracts.budgets import DAY_MS, Amounts, BudgetRefusal, Caps, Measure, Period, Reservation
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText, Reply, ReplyKind
from gateway.contracts.sessions import Grant, GrantRole, Usage, UsagePurpose
from gateway.limits import LINK_CODE_TTL_S, LINK_LOCKED_S, LINK_TRIES_MAX, LINKED_ACCOUNTS_MAX
from gateway.store import Store
from tests.contract.store_samples import CHAT, talk

ANN, DORA, SUE = SessionKey("telegram", "1"), SessionKey("discord", "7"), SessionKey("slack", "U5")
DAY: Final = 20_000
NOW_MS: Final = DAY * DAY_MS + 1_000
OPEN: Final = Caps()
_numbers = count(1)


def notice(offer: LinkOffer) -> Reply:
    text = CleanText("linked")
    return Reply(f"notice:{offer.owner}:{next(_numbers)}", "", offer.owner, offer.address, text, ReplyKind.NOTICE, 1)


async def offered(store: Store, owner: SessionKey, code: str, *, at_ms: int = NOW_MS) -> str:
    await store.links.offer(LinkOffer(owner, CleanText("Ann"), CHAT, "de", at_ms + LINK_CODE_TTL_S * 1000), code)
    return code


async def entered(store: Store, owner: SessionKey, code: str, *, now_ms: int = NOW_MS) -> RedeemedLink:
    return await store.links.enter(owner, code, now_ms=now_ms)


async def accepted(
    store: Store,
    owner: SessionKey,
    other: SessionKey,
    *,
    now_ms: int = NOW_MS,
    told: Callable[[LinkOffer], Reply] = notice,
) -> RedeemedLink:
    return await store.links.join(owner, other, now_ms=now_ms, notice=told)


def proposed(other: SessionKey, *along: SessionKey) -> RedeemedLink:
    return RedeemedLink(LinkVerdict.PROPOSED, other, "Ann", along)


async def joined(store: Store, one: SessionKey, other: SessionKey, *, now_ms: int = NOW_MS) -> None:
    code = await offered(store, one, f"CODE{next(_numbers)}", at_ms=now_ms)
    assert (await entered(store, other, code, now_ms=now_ms)).verdict is LinkVerdict.PROPOSED
    assert await accepted(store, other, one, now_ms=now_ms) == RedeemedLink(LinkVerdict.LINKED, one)


async def parted(store: Store, owner: SessionKey, *ends: SessionKey, now_ms: int = NOW_MS) -> list[SessionKey]:
    return list(await store.links.part(owner, ends or [owner], actor="cli", now_ms=now_ms))


async def said(store: Store, key: SessionKey, text: str) -> int:
    return (await store.memories.remember(key, CleanText(text), now_ms=NOW_MS)).fact.number


async def known(store: Store, key: SessionKey, query: str = "") -> set[str]:
    return {fact.text for fact in await store.memories.recall(key, query, limit=50)}


async def reserved(
    store: Store, owner: SessionKey, tokens: int, *, cap: int = 100, now_ms: int = NOW_MS, day: int = DAY
) -> BudgetRefusal | None:
    """As much as that, spent at once."""
    claim = Reservation(f"r{next(_numbers)}", owner, day, tokens, 0, now_ms + 60_000)
    found = await store.spending.reserve(claim, own=Caps(tokens=cap), pot=OPEN, now_ms=now_ms)
    if isinstance(found, BudgetRefusal):
        return found
    await store.spending.settle(claim, Amounts(tokens=tokens))
    return None


async def spent(store: Store, owner: SessionKey, day: int = DAY) -> Amounts | None:
    return await store.spending.spent(owner, day, now_ms=NOW_MS)


# --- codes


async def test_a_code_says_whose_it_is_and_joins_once_that_is_accepted(store: Store) -> None:
    await joined(store, ANN, SUE)
    code = await offered(store, ANN, "ABCD2345")
    assert await entered(store, DORA, " abcd2345 ") == proposed(ANN, SUE)
    assert await store.links.accounts_of(DORA) == [DORA]
    assert await accepted(store, DORA, ANN) == RedeemedLink(LinkVerdict.LINKED, ANN)
    assert await store.links.accounts_of(ANN) == await store.links.accounts_of(DORA) == [DORA, SUE, ANN]
    assert await store.links.persons() == [frozenset({ANN, DORA, SUE})]
    assert (await entered(store, SessionKey("slack", "U9"), code)).verdict is LinkVerdict.UNKNOWN


async def test_a_code_belongs_to_whoever_entered_it_first(store: Store) -> None:
    code = await offered(store, ANN, "ABCD2345")
    assert await entered(store, DORA, code) == proposed(ANN)
    assert (await entered(store, SUE, code)).verdict is LinkVerdict.UNKNOWN
    assert await accepted(store, SUE, ANN) == RedeemedLink(LinkVerdict.GONE)
    assert await entered(store, DORA, code) == proposed(ANN)
    assert (await accepted(store, DORA, ANN)).verdict is LinkVerdict.LINKED


async def test_of_many_who_enter_a_code_at_once_one_may_join(store: Store) -> None:
    code = await offered(store, ANN, "ABCD2345")
    rivals = [SessionKey("discord", str(number)) for number in range(8)]
    found = await asyncio.gather(*(entered(store, rival, code) for rival in rivals))
    assert [each.verdict for each in found].count(LinkVerdict.PROPOSED) == 1
    found = await asyncio.gather(*(accepted(store, rival, ANN) for rival in rivals))
    assert [each.verdict for each in found].count(LinkVerdict.LINKED) == 1
    assert len(await store.links.accounts_of(ANN)) == 2


async def test_what_was_declined_joins_nobody(store: Store) -> None:
    code = await offered(store, ANN, "ABCD2345")
    await entered(store, DORA, code)
    assert not await store.links.decline(SUE, ANN)
    assert await store.links.decline(DORA, ANN)
    assert await accepted(store, DORA, ANN) == RedeemedLink(LinkVerdict.GONE)
    assert (await entered(store, DORA, code)).verdict is LinkVerdict.UNKNOWN
    assert await store.links.persons() == []


async def test_nothing_is_joined_that_was_not_entered_or_is_too_old(store: Store) -> None:
    """An answer to one code is none to another; entering a code again gives no more time."""
    await entered(store, DORA, await offered(store, ANN, "ABCD2345"))
    assert await accepted(store, DORA, SUE) == await accepted(store, DORA, DORA) == RedeemedLink(LinkVerdict.GONE)
    late_ms = NOW_MS + LINK_CODE_TTL_S * 1000
    assert (await entered(store, DORA, "ABCD2345", now_ms=late_ms - 1)).verdict is LinkVerdict.PROPOSED
    assert await accepted(store, DORA, ANN, now_ms=late_ms) == RedeemedLink(LinkVerdict.GONE)
    await entered(store, DORA, await offered(store, ANN, "NEXT"))
    await offered(store, ANN, "REPLACED")
    assert await accepted(store, DORA, ANN) == RedeemedLink(LinkVerdict.GONE)


async def test_a_turn_that_is_run_again_is_linked_all_the_same_and_tells_once(store: Store) -> None:
    """What died between the link and its answer repeats itself."""
    await entered(store, DORA, await offered(store, ANN, "ABCD2345"))
    assert await accepted(store, DORA, ANN) == await accepted(store, DORA, ANN) == RedeemedLink(LinkVerdict.LINKED, ANN)
    waiting = await store.outbox.take_stale(after_ms=0, limit=9)
    assert [(reply.key, reply.address, reply.text) for reply in waiting] == [(ANN, CHAT, "linked")]


async def test_an_old_a_replaced_and_a_withdrawn_code_join_nobody(store: Store) -> None:
    old = await offered(store, ANN, "OLD", at_ms=NOW_MS - LINK_CODE_TTL_S * 1000)
    replaced = await offered(store, SUE, "REPLACED")
    await store.links.withdraw(await offered(store, SUE, "ALOUD"))
    for code in (old, replaced, "ALOUD"):
        assert (await entered(store, DORA, code)).verdict is LinkVerdict.UNKNOWN
    assert await store.links.persons() == []


async def test_a_code_is_of_no_use_to_whoever_has_it_already(store: Store) -> None:
    """Nor is it used up, or counted as an error."""
    await joined(store, ANN, DORA)
    code = await offered(store, ANN, "AGAIN")
    assert await entered(store, ANN, code) == await entered(store, DORA, code) == RedeemedLink(LinkVerdict.OWN)
    assert (await entered(store, SUE, code)).verdict is LinkVerdict.PROPOSED


async def test_who_errs_too_often_is_not_listened_to_for_an_hour(store: Store) -> None:
    """Entering a code that one gave out oneself, with another account, wins nobody more tries."""
    code = await offered(store, ANN, "RIGHT")
    lefts = [(await entered(store, DORA, f"WRONG{number}")).tries_left for number in range(LINK_TRIES_MAX - 1)]
    assert lefts == list(reversed(range(1, LINK_TRIES_MAX)))
    assert await entered(store, DORA, code) == proposed(ANN)
    assert (await entered(store, DORA, "WRONG")).tries_left == 0
    assert await entered(store, DORA, code) == RedeemedLink(LinkVerdict.LOCKED, wait_s=LINK_LOCKED_S)
    later_ms = NOW_MS + LINK_LOCKED_S * 1000
    code = await offered(store, ANN, "LATER", at_ms=later_ms)
    assert await entered(store, DORA, code, now_ms=later_ms) == proposed(ANN)


async def test_a_blocked_account_links_nobody(store: Store) -> None:
    """Nor one that was blocked after its code had been entered."""
    code = await offered(store, ANN, "CODE")
    await entered(store, DORA, code)
    await store.access.put_grant(Grant(ANN, GrantRole.BLOCKED, "cli", 1))
    assert await accepted(store, DORA, ANN) == RedeemedLink(LinkVerdict.GONE)
    assert (await entered(store, DORA, code)).verdict is LinkVerdict.UNKNOWN


async def test_a_person_has_so_many_accounts_and_no_more(store: Store) -> None:
    await entered(store, SUE, await offered(store, ANN, "EARLY"))
    for number in range(LINKED_ACCOUNTS_MAX - 1):
        await joined(store, SessionKey("discord", str(number)), ANN)
    assert await accepted(store, SUE, ANN) == RedeemedLink(LinkVerdict.FULL)
    code = await offered(store, ANN, "FULL")
    assert await entered(store, SUE, code) == RedeemedLink(LinkVerdict.FULL)


async def test_who_entered_a_code_is_told_to_nobody_and_forgotten(store: Store) -> None:
    code = await offered(store, ANN, "ABCD2345")
    await entered(store, DORA, code)
    (row,) = json.loads(await store.people.export(ANN, clean=CleanText))["link_codes"]
    assert (row["name"], str(DORA) in str(row)) == ("Ann", False)
    await store.people.erase(DORA)
    assert (await entered(store, SUE, code)).verdict is LinkVerdict.UNKNOWN


async def test_each_link_and_each_parting_is_written_down_for_every_account(store: Store) -> None:
    await joined(store, ANN, DORA)
    await parted(store, ANN)
    lines = [(line.actor, line.action, line.subject) for line in await store.sub_types.audit(limit=9)]
    assert sorted(lines) == [
        ("cli", "link.parted", "user:discord:7"),
        ("cli", "link.parted", "user:telegram:1"),
        ("discord:7", "link.made", "user:discord:7"),
        ("discord:7", "link.made", "user:telegram:1"),
    ]


async def test_every_change_is_shown_to_the_doors(store: Store) -> None:
    before = await store.access.revision()
    await joined(store, ANN, DORA)
    linked = await store.access.projection()
    assert linked.persons == (frozenset({ANN, DORA}),)
    await parted(store, ANN)
    assert (await store.access.projection()).persons == ()
    assert before < linked.revision < await store.access.revision()


# --- memory


async def test_what_was_told_to_one_account_is_known_at_the_other_until_they_part(store: Store) -> None:
    await said(store, ANN, "My dog is called Rex")
    assert await known(store, DORA, "dog") == set()
    await joined(store, ANN, DORA)
    assert await known(store, DORA, "dog") == await known(store, DORA) == {"My dog is called Rex"}
    assert await known(store, SUE) == set()
    await parted(store, DORA)
    assert await known(store, DORA) == set()
    assert await known(store, ANN) == {"My dog is called Rex"}


async def test_what_was_learned_in_a_group_stays_where_it_was(store: Store) -> None:
    """Even where a place of the other platform has the same name."""
    group, namesake = replace(ANN, place=("-100",)), replace(DORA, place=("-100",))
    await said(store, group, "The canary sings at noon")
    await said(store, ANN, "Privately: the safe is blue")
    await joined(store, ANN, DORA)
    assert await known(store, namesake) == await known(store, namesake, "canary safe") == set()
    assert await known(store, DORA, "canary safe") == {"Privately: the safe is blue"}
    assert await known(store, ANN, "canary") == {"The canary sings at noon"}


async def test_a_number_names_one_fact_of_a_person(store: Store) -> None:
    for key, text in ((ANN, "a1"), (ANN, "a2"), (DORA, "d1"), (DORA, "d2")):
        await said(store, key, f"{text} is a thing")
    await joined(store, ANN, DORA)
    await said(store, DORA, "d3 is new")
    facts = await store.memories.recall(ANN, "", limit=9)
    assert len({fact.number for fact in facts}) == len(facts) == 5
    (gone,) = await store.memories.forget(ANN, [next(fact.number for fact in facts if fact.text.startswith("d1"))])
    assert gone.text == "d1 is a thing"


async def test_two_accounts_that_remember_at_once_get_different_numbers(store: Store) -> None:
    for key in (ANN, DORA):
        await talk(store, key, "hello", number=1)
    await joined(store, ANN, DORA)
    texts = ["red apples", "a green door", "blue paint", "old maps", "seven boats", "tall trees"]
    keys = [ANN, DORA] * 3
    numbers = await asyncio.gather(*(said(store, key, text) for key, text in zip(keys, texts, strict=True)))
    assert len({*numbers}) == len(numbers)


async def test_forgetting_everything_forgets_it_at_every_account(store: Store) -> None:
    await said(store, ANN, "My dog is called Rex")
    await said(store, replace(ANN, place=("-100",)), "The group likes tea")
    await joined(store, ANN, DORA)
    assert await store.memories.forget_all(DORA) == 2
    assert await known(store, ANN) == set()


async def test_erasing_one_account_erases_the_person(store: Store) -> None:
    for key in (ANN, DORA, SUE):
        await talk(store, key, "hello", number=1)
        await said(store, key, "I like tea")
    await joined(store, ANN, DORA)
    exported = json.loads(await store.people.export(DORA, clean=CleanText))
    assert {fact["owner"] for fact in exported["facts"]} == {str(ANN), str(DORA)}
    await store.people.erase(DORA)
    assert await known(store, ANN) == await known(store, DORA) == set()
    assert await known(store, SUE) == {"I like tea"}
    assert await store.links.persons() == []
    left = json.loads(await store.people.export(ANN, clean=CleanText))
    assert not any(rows for name, rows in left.items() if isinstance(rows, list))


async def test_a_person_s_calls_are_summed(store: Store) -> None:
    for key in (ANN, DORA, SUE):
        session = await talk(store, key, "hello", number=1)
        call = Usage(key, UsagePurpose.MEMORY, "m", 10, 5, created_at_ms=NOW_MS)
        await store.sessions.charge([call], session_id=session.id)
    await joined(store, ANN, DORA)
    sums = await store.usage.by_purpose(ANN, Period(0, 2**60))
    assert sums == await store.usage.by_purpose(DORA, Period(0, 2**60))
    alone = await store.usage.by_purpose(SUE, Period(0, 2**60))
    assert (sums[UsagePurpose.MEMORY].calls, alone[UsagePurpose.MEMORY].calls) == (2, 1)


# --- budget


async def test_linked_accounts_have_one_day(store: Store) -> None:
    assert await reserved(store, ANN, 60) is None
    assert await reserved(store, DORA, 30) is None
    await joined(store, ANN, DORA)
    assert await spent(store, ANN) == await spent(store, DORA) == Amounts(tokens=90)
    assert await reserved(store, DORA, 11) == BudgetRefusal(Measure.TOKENS)
    assert await reserved(store, DORA, 10) is None
    assert await reserved(store, ANN, 1) == BudgetRefusal(Measure.TOKENS)
    assert await reserved(store, SUE, 100) is None


async def test_parting_gives_nobody_a_new_day(store: Store) -> None:
    await joined(store, ANN, DORA)
    assert await reserved(store, ANN, 100) is None
    await parted(store, ANN)
    assert await reserved(store, DORA, 1) == BudgetRefusal(Measure.TOKENS)
    await joined(store, DORA, ANN)
    assert await spent(store, ANN) == Amounts(tokens=100)
    await parted(store, DORA)
    tomorrow_ms = NOW_MS + DAY_MS
    assert await reserved(store, DORA, 100, now_ms=tomorrow_ms, day=DAY + 1) is None
    assert await reserved(store, ANN, 100, now_ms=tomorrow_ms, day=DAY + 1) is None


async def test_a_link_of_yesterday_is_one_budget_today(store: Store) -> None:
    await joined(store, ANN, DORA, now_ms=NOW_MS - DAY_MS)
    assert await reserved(store, ANN, 100) is None
    assert await reserved(store, DORA, 1) == BudgetRefusal(Measure.TOKENS)


async def test_linked_accounts_that_race_never_overdraw(store: Store) -> None:
    await joined(store, ANN, DORA)
    results = await asyncio.gather(*(reserved(store, key, 10) for key in [ANN, DORA] * 10))
    assert results.count(None) == 10
    assert await spent(store, ANN) == Amounts(tokens=100)


async def test_little_left_is_said_once_to_a_person(store: Store) -> None:
    await joined(store, ANN, DORA)
    await reserved(store, ANN, 50)
    await reserved(store, DORA, 40)
    caps = Caps(tokens=100)
    assert await store.spending.warn_once(DORA, DAY, caps=caps, percent=80) == {Measure.TOKENS}
    assert await store.spending.warn_once(DORA, DAY, caps=caps, percent=80) == frozenset()
    assert await store.spending.warn_once(ANN, DAY, caps=caps, percent=80) == frozenset()


async def test_any_order_of_linking_parting_and_spending_keeps_persons_disjoint_and_purses_bounded(
    store: Store,
) -> None:
    """Against a plain model: whoever was one person at any time of the day shares one cap for the rest of it."""
    chance, people = Random(7), [SessionKey("telegram", str(number)) for number in range(5)]
    purse: dict[SessionKey, frozenset[SessionKey]] = {each: frozenset({each}) for each in people}
    paid = dict.fromkeys(people, 0)
    for _ in range(60):
        one, other = chance.sample(people, 2)
        match chance.choice(["link", "part", "spend", "spend"]):
            case "link":
                if other not in await store.links.accounts_of(one):
                    await joined(store, one, other)
                    together = purse[one] | purse[other]
                    purse |= dict.fromkeys(together, together)
            case "part":
                await parted(store, one, *chance.sample(people, 2))
            case _:
                tokens = chance.randint(1, 40)
                fits = sum(paid[each] for each in purse[one]) + tokens <= 100
                assert (await reserved(store, one, tokens) is None) is fits
                paid[one] += tokens if fits else 0
        persons = await store.links.persons()
        members = [end for ends in persons for end in ends]
        assert len(members) == len({*members})
        assert all(len(ends) > 1 for ends in persons)
