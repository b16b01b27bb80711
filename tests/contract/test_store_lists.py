"""What the operator's pages list, on both databases: people, conversations that are searched, hours, schedules."""

from __future__ import annotations

from dataclasses import replace

from gateway.contracts.budgets import DAY_MS, Period
from gateway.contracts.ids import ReplyAddress, SessionKey
from gateway.contracts.messages import CleanText
from gateway.contracts.sessions import Grant, GrantRole, SetTitle, Usage, UsagePurpose
from gateway.store import Store
from gateway.store.sessions import SessionSearch
from tests.contract.store_samples import ANN, BOB, reply, talk
from tests.contract.test_store_schedules import schedule
from tests.parts.effects import apply_effects

CARL = SessionKey("discord", "9")
GROUP = SessionKey("telegram", "1", ("-100",))


async def owners(store: Store, words: str = "", *named: SessionKey) -> list[str]:
    return [str(each.key) for each in await store.people.page(words=words, owners=named, limit=9)]


async def test_people_stand_by_when_they_were_seen_last_and_are_found_by_key_or_name(store: Store) -> None:
    for number, key in enumerate((ANN, BOB, GROUP), 1):
        await talk(store, key, "hello", number=number)
    await store.access.put_grant(Grant(CARL, GrantRole.BLOCKED, "admin", 1))
    assert sorted(await owners(store)) == sorted(map(str, (ANN, BOB, CARL)))
    assert (await owners(store))[-1] == str(CARL)
    assert await owners(store, "SLACK") == [str(BOB)]
    assert await owners(store, "nobody", BOB) == [str(BOB)]
    assert await owners(store, "_") == []
    found = {each.key: each for each in await store.people.page(words="", limit=9)}
    assert (found[ANN].lanes, found[ANN].granted, found[CARL].granted) == (2, "", "blocked")
    assert found[CARL].seen_at_ms == 0 < found[ANN].seen_at_ms
    assert len(await store.people.page(words="", limit=2, offset=2)) == 1


async def test_conversations_are_found_by_words_owner_time_and_cost(store: Store) -> None:
    ann = await talk(store, ANN, "Where is the Marmalade?", number=1)
    group = await talk(store, GROUP, "100% sure", number=2)
    bob = await talk(store, BOB, "hello", number=3)
    await apply_effects(store, BOB, (SetTitle(CleanText("Plans for May")),), now_ms=5 * DAY_MS)
    await store.sessions.charge([Usage(ANN, UsagePurpose.TURN, "m", 1, 1, 0, 0.5)], session_id=ann.id)

    async def found(**wanted: object) -> set[str]:
        search = SessionSearch(**wanted)  # type: ignore[arg-type]
        return {session.id for session in await store.sessions.page(search=search)}

    assert await found() == {ann.id, group.id, bob.id}
    assert await found(words="marmalade") == {ann.id}
    assert await found(words="plans FOR") == {bob.id}
    assert await found(words="0%") == {group.id}
    assert await found(words="%") == {group.id}
    assert await found(words="nothing", owners=(BOB,)) == {bob.id}
    assert await found(person=ANN) == {ann.id, group.id}
    assert await found(since_ms=5 * DAY_MS) == {bob.id}
    assert await found(until_ms=5 * DAY_MS) == {ann.id, group.id}
    assert await found(cost_min=0.5) == {ann.id}
    assert await found(words="marmalade", person=BOB) == set()


async def test_usage_is_summed_by_hour_and_for_some(store: Store) -> None:
    session = await talk(store, ANN, "hello", number=1)
    for key, at_ms, cost in ((ANN, 3_600_000, 0.5), (BOB, 3_700_000, 0.25), (ANN, 7_200_000, 1.0)):
        call = Usage(key, UsagePurpose.TURN, "m", 10, 5, 0, cost, f"t{at_ms}", at_ms)
        await store.sessions.charge([call], session_id=session.id)
    hours = await store.usage.by_hour(Period(0, DAY_MS))
    assert {at_ms: found.cost_usd for at_ms, found in hours.items()} == {3_600_000: 0.75, 7_200_000: 1.0}
    spent = await store.usage.of_some([ANN, CARL], Period(0, DAY_MS))
    assert {key: found.cost_usd for key, found in spent.items()} == {ANN: 1.5}
    assert await store.usage.of_some([], Period(0, DAY_MS)) == {}


async def test_schedules_that_are_to_come_stand_by_when_they_are_due(store: Store) -> None:
    for id_, key, due_ms in (("a", ANN, 300), ("b", BOB, 100), ("c", ANN, 200)):
        await store.schedules.add(schedule(id_, key, due_ms=due_ms), active_max=9)
    await store.schedules.cancel(ANN, 1)
    assert [each.id for each in await store.schedules.coming(None, limit=9)] == ["b", "c"]
    assert [each.id for each in await store.schedules.coming(ANN, limit=9)] == ["c"]
    assert [each.id for each in await store.schedules.coming(None, limit=1)] == ["b"]


async def test_what_the_operator_writes_is_committed_once_and_noted(store: Store) -> None:
    session = await talk(store, ANN, "hello", number=1)
    sent = reply(ANN, "I am Grace", id_="admin:1", turn_id="")
    await store.turns.put_operator_message(session.id, sent, note=CleanText("[The operator wrote] I am Grace"))
    entries = await store.transcript.page(session.id, after_seq=0, before_seq=None, limit=9)
    assert [entry.speaker for entry in entries] == ["user", "assistant", "gateway"]
    assert await store.outbox.committed("admin:1") == sent
    again = await talk(store, ANN, "and now?", number=2)
    assert (again.id, again.message_count) == (session.id, 4)


async def test_a_chat_is_where_its_last_answer_went_whatever_the_operator_ordered(store: Store) -> None:
    await talk(store, ANN, "hello", number=1)
    chat = await store.outbox.last_address(ANN)
    assert chat is not None
    order = replace(reply(ANN, "Compacted.", id_="o1"), address=ReplyAddress("admin", str(ANN), "{}"))
    await store.outbox.put([order])
    assert await store.outbox.last_address(ANN) == chat
