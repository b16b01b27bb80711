"""What operators changed about the types of sub-agents, and the audit of it, on SQLite and PostgreSQL."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from gateway.contracts.messages import CleanText
from gateway.contracts.subagents import Audited, SubTypeChange
from gateway.limits import AUDIT_KEPT
from gateway.store import Store
from gateway.store.engine import open_database, row_of
from gateway.store.tables import audit

WHOLE = SubTypeChange(
    label=CleanText("Scout ☃"),
    description=CleanText("looks around"),
    tools=("file_read", "file_list"),
    rounds_max=3,
    prompt=CleanText("You look around.\n"),
)


def line(subject: str = "explore", *, at_ms: int = 1_000, before: str = "{}") -> Audited:
    return Audited(at_ms, "operator", "sub_type.put", subject, CleanText(before), CleanText('{"rounds_max":3}'))


async def test_a_change_comes_back_whole(store: Store) -> None:
    assert await store.sub_types.changes() == {}
    await store.sub_types.put("explore", WHOLE, audited=line())
    await store.sub_types.put("code", SubTypeChange(tools=()), audited=line("code"))
    assert await store.sub_types.changes() == {"explore": WHOLE, "code": SubTypeChange(tools=())}


async def test_a_change_replaces_the_one_before(store: Store) -> None:
    """What it does not name is as in the catalog again."""
    await store.sub_types.put("explore", WHOLE, audited=line())
    await store.sub_types.put("explore", SubTypeChange(rounds_max=4), audited=line())
    assert await store.sub_types.changes() == {"explore": SubTypeChange(rounds_max=4)}


async def test_every_change_is_written_down_newest_first(store: Store) -> None:
    first, second, third = line(at_ms=2_000), line("code", at_ms=2_000), line(at_ms=3_000, before='{"rounds_max":2}')
    for audited in (first, second, third):
        await store.sub_types.put(audited.subject, WHOLE, audited=audited)
    assert await store.sub_types.audit(limit=9) == [third, second, first]
    assert await store.sub_types.audit(subject=CleanText("explore"), limit=9) == [third, first]
    assert await store.sub_types.audit(subject=CleanText("explore"), limit=1) == [third]
    assert await store.sub_types.audit(subject=CleanText("nobody"), limit=9) == []


async def test_the_audit_is_read_page_by_page(store: Store) -> None:
    """Also where several lines were written down in one millisecond."""
    for number in range(5):
        await store.sub_types.put("explore", WHOLE, audited=line(before=str(number)))
    pages: list[list[str]] = []
    below = None
    while page := await store.sub_types.audit(below=below, limit=2):
        pages.append([audited.before for audited in page])
        below = page[-1].number
    assert pages == [["4", "3"], ["2", "1"], ["0"]]


async def test_of_each_actor_the_last_lines_are_kept(store: Store, database_url: str) -> None:
    """Nobody pushes out what another one did."""
    await store.sub_types.put("code", WHOLE, audited=replace(line("code"), actor="somebody"))
    rows = [row_of(audit, line(before=str(at))) for at in range(AUDIT_KEPT)]
    database = open_database(database_url, busy_timeout_s=5.0)
    await database.write(lambda connection: connection.execute(audit.insert(), rows))
    await database.close()
    await store.sub_types.put("explore", WHOLE, audited=line(before="last"))
    found = await store.sub_types.audit(limit=AUDIT_KEPT + 9)
    assert [found[0].before, found[-2].before, found[-1].subject] == ["last", "1", "code"]
    assert len(found) == AUDIT_KEPT + 1


async def test_of_changes_made_at_once_one_stands_and_all_are_written_down(store: Store) -> None:
    changes = [replace(WHOLE, rounds_max=number) for number in range(1, 6)]
    await asyncio.gather(*(store.sub_types.put("explore", change, audited=line()) for change in changes))
    assert (await store.sub_types.changes())["explore"] in changes
    assert len(await store.sub_types.audit(limit=9)) == len(changes)
