"""What operators changed about the types of sub-agents, and the audit of it, on SQLite and PostgreSQL."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from gateway.contracts.messages import CleanText
from gateway.contracts.subagents import Audited, SubTypeChange
from gateway.store import SqlStore

WHOLE = SubTypeChange(
    label=CleanText("Scout ☃"),
    description=CleanText("looks around"),
    tools=("file_read", "file_list"),
    rounds_max=3,
    prompt=CleanText("You look around.\n"),
)


def line(subject: str = "explore", *, at_ms: int = 1_000, before: str = "{}") -> Audited:
    return Audited(at_ms, "operator", "sub_type.put", subject, CleanText(before), CleanText('{"rounds_max":3}'))


async def test_a_change_comes_back_whole(store: SqlStore) -> None:
    assert await store.sub_types.changes() == {}
    await store.sub_types.put("explore", WHOLE, audited=line())
    await store.sub_types.put("code", SubTypeChange(tools=()), audited=line("code"))
    assert await store.sub_types.changes() == {"explore": WHOLE, "code": SubTypeChange(tools=())}


async def test_a_change_replaces_the_one_before(store: SqlStore) -> None:
    """What it does not name is as in the catalog again."""
    await store.sub_types.put("explore", WHOLE, audited=line())
    await store.sub_types.put("explore", SubTypeChange(rounds_max=4), audited=line())
    assert await store.sub_types.changes() == {"explore": SubTypeChange(rounds_max=4)}


async def test_every_change_is_written_down_newest_first(store: SqlStore) -> None:
    first, second, third = line(at_ms=2_000), line("code", at_ms=2_000), line(at_ms=3_000, before='{"rounds_max":2}')
    for audited in (first, second, third):
        await store.sub_types.put(audited.subject, WHOLE, audited=audited)
    assert await store.sub_types.audit(limit=9) == [third, second, first]
    assert await store.sub_types.audit(subject=CleanText("explore"), limit=9) == [third, first]
    assert await store.sub_types.audit(subject=CleanText("explore"), limit=1) == [third]
    assert await store.sub_types.audit(subject=CleanText("nobody"), limit=9) == []


async def test_of_changes_made_at_once_one_stands_and_all_are_written_down(store: SqlStore) -> None:
    changes = [replace(WHOLE, rounds_max=number) for number in range(1, 6)]
    await asyncio.gather(*(store.sub_types.put("explore", change, audited=line()) for change in changes))
    assert (await store.sub_types.changes())["explore"] in changes
    assert len(await store.sub_types.audit(limit=9)) == len(changes)
