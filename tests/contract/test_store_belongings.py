"""Everything that belongs to one person, on SQLite and PostgreSQL: handed out whole, erased without a trace."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import inspect, text
from sqlalchemy.engine import make_url

from agent.features.commands import Addressee, Offer, with_buttons
from gateway.clock import SystemClock
from gateway.contracts.access import LinkOffer
from gateway.contracts.errors import Fenced, StoreError
from gateway.contracts.ids import ReplyAddress, SessionKey
from gateway.contracts.memory import Embedding
from gateway.contracts.messages import (
    CleanText,
    DeliveryState,
    InboundMessage,
    Quote,
    QuoteKind,
    Reply,
    ReplyKind,
    SecretName,
    SecretUse,
    literal_text,
)
from gateway.contracts.sessions import Grant, GrantRole, OpenSession, Session, Todo, TodoState, Usage, UsagePurpose
from gateway.contracts.subagents import Audited, Barrier, SubTypeChange, WaitMode
from gateway.scrub import scrub
from gateway.store import Store
from gateway.store.engine import Connection
from gateway.store.export import ERASED, whose
from gateway.store.tables import metadata
from tests.contract.store_samples import begin, call, ended, note, outcome, says, summary, talk
from tests.contract.subtask_samples import asked, ending, wake_of
from tests.contract.subtask_samples import said as said_by_child
from tests.parts.effects import apply_effects

CANARY = "4canary2"
"""In all that is Ann's, and in nothing else."""

ANN = SessionKey("telegram", CANARY)
ANN_IN_GROUP = SessionKey("telegram", CANARY, ("-100",))
BEN = SessionKey("telegram", "2")


async def live(store: Store, key: SessionKey, sign: str) -> None:
    """A life that leaves something in every table."""
    *_, session = [await talk(store, key, f"{sign} said {number}", number=number) for number in (1, 2)]
    await store.transcript.append_compaction(
        session.id, fence=2, key=key, entry=summary(f"{sign} summed up", tail_start_seq=3)
    )
    await apply_effects(store, key, [OpenSession()], now_ms=5_000)
    boundary = await store.memories.claim_boundary(key, now_ms=6_000, for_ms=1)
    assert boundary is not None
    await store.memories.index(boundary)
    await store.memories.remember(
        key, CleanText(f"{sign} likes tea"), now_ms=7_000, embedding=Embedding("model", (1.0, 0.5))
    )
    await store.transcript.replace_todos(key, [Todo(1, CleanText(f"{sign} has to do it"), TodoState.PENDING)])
    message = says(key, f"{sign} paid", id_=f"{key}#paid", author=sign)
    start = await begin(store, f"turn-{key}-paid", [message], fence=9)
    await store.turns.commit(outcome(start, f"turn-{key}-paid", [message], fence=9, usage=(call(key, 10, 1, 0.5),)))
    await store.outbox.record_receipts([ended(f"turn-{key}-paid:0", DeliveryState.SENT, key=key)])
    secret = SecretName(key, key.owner, f"[redacted:named#{len(sign):06x}]")
    await store.secret_uses.record([SecretUse(secret, "shell", f"turn-{key}-paid", at_ms=8_000)])
    await _delegate(store, session, sign)
    left = says(key, f"{sign} is not answered", id_=f"{key}#left", author=sign)
    await begin(store, f"turn-{key}-left", [left], fence=10)


async def _delegate(store: Store, session: Session, sign: str) -> None:
    """Two sub-agents, one of the other, and somebody who waits for them."""
    one = replace(asked(session, f"{session.id}-1"), label=CleanText(f"{sign} asked for it"))
    task = await store.tasks.open(one, wake=wake_of(session.key))
    two = replace(asked(task, f"{session.id}-2"), prompt=CleanText(f"{sign} wants to know"))
    await store.tasks.open(two, wake=None)
    await store.tasks.record(two.id, entries=[said_by_child(f"{sign} is found")], usage=[call(session.key, 1, 1, 0.25)])
    await store.tasks.finish(two.id, ending(result=f"{sign} is it"))
    messages = [says(session.key, f"{sign} waits", id_=f"{session.key}#wait", author=sign)]
    start = await begin(store, f"turn-{session.key}-wait", messages, fence=9)
    done = outcome(start, f"turn-{session.key}-wait", messages, fence=9)
    barrier = Barrier(
        f"b-{session.key}", session.id, done.turn_id, (task.id,), WaitMode.ALL, 1, wake_of(session.key), 9
    )
    await store.turns.commit(replace(done, outbox=(), barrier=barrier))


async def everything(store: Store) -> str:
    """Every value of every table, those of the full-text index too."""

    def dump(connection: Connection) -> str:
        with connection.as_sqlalchemy() as lent:
            names = inspect(lent).get_table_names()
        return "\n".join(
            repr(tuple(row)) for name in names for row in connection.execute(text(f'SELECT * FROM "{name}"')).all()
        )

    return await store.database.read(dump)


def test_every_table_says_whose_its_rows_are() -> None:
    """A new table without an owner, a key or a session has to say how it is erased."""
    for table in metadata.sorted_tables:
        whose(table)


async def test_what_is_kept_of_a_person_is_handed_out(store: Store) -> None:
    """From every place, as JSON takes it, undone and condensed words too; nothing of anybody else."""
    await live(store, ANN, CANARY)
    await live(store, ANN_IN_GROUP, CANARY)
    await live(store, BEN, "ben")
    written = (await store.people.export(ANN, clean=scrub)).decode()
    found = json.loads(written)
    assert found["owner"] == str(ANN)
    assert {row["key"] for row in found["sessions"]} == {str(ANN), str(ANN_IN_GROUP)}
    assert [row["text"] for row in found["entries"] if row["role"] == "user"].count(f"{CANARY} said 1") == 2
    assert [row["text"] for row in found["facts"]] == [f"{CANARY} likes tea"] * 2
    assert [row["cost_usd"] for row in found["usage"]] == [0.5, 0.25, 0.5, 0.25]
    assert {row["key"] for row in found["todos"]} == {str(ANN), str(ANN_IN_GROUP)}
    assert [row["tool"] for row in found["loans"]] == ["shell", "shell"]
    assert {row["channel"] for row in found["sessions"]} == {"", "subagent:explore"}
    assert [row["result"] for row in found["sub_tasks"] if row["parent_task_id"]] == [f"{CANARY} is it"] * 2
    assert {row["key"] for row in found["barriers"]} == {str(ANN), str(ANN_IN_GROUP)}
    assert "ben" not in written
    assert not {"board", "task_workers", "sub_type_changes", "audit"} & set(found)
    assert not {"passages", "boundaries"} & set(found)
    assert not {"terms", "vector"} & set(found["facts"][0])
    nobody = json.loads(await store.people.export(SessionKey("telegram", "3"), clean=scrub))
    assert [rows for rows in nobody.values() if isinstance(rows, list) and rows] == []


async def test_nobody_is_handed_out_as_his_own_words_what_the_gateway_told_a_model(store: Store) -> None:
    messages = [says(ANN, "hello", id_="m1")]
    start = await begin(store, "t1", messages)
    done = outcome(start, "t1", messages)
    await store.turns.commit(replace(done, entries=(note("<now>\n12:00\n</now>"), *done.entries)))
    found = json.loads(await store.people.export(ANN, clean=scrub))["entries"]
    assert [(row["role"], row["kind"]) for row in found] == [
        ("user", "message"),
        ("gateway", "note"),
        ("assistant", "message"),
    ]
    assert [entry.speaker for entry in await store.transcript.page(start.session.id, limit=9)] == [
        row["role"] for row in found
    ]


async def test_erasing_a_person_leaves_no_trace(store: Store, database_url: str) -> None:
    """In no table, in no index, and on SQLite in no byte of the file; what is others' stays."""
    await live(store, BEN, "ben")
    before = len((await everything(store)).splitlines())
    await live(store, ANN, CANARY)
    await live(store, ANN_IN_GROUP, CANARY)
    await store.access.put_grant(Grant(ANN, GrantRole.ADMIN, "cli", 1))
    await store.access.put_grant(Grant(BEN, GrantRole.MEMBER, str(ANN), 2))
    assert CANARY in await everything(store)
    erased = await store.people.erase(ANN)
    assert erased["sessions"] == 8
    assert (erased["sub_tasks"], erased["barriers"], erased["waits"]) == (4, 2, 2)
    assert erased["facts"] == 2
    assert CANARY not in await everything(store)
    assert [grant.granted_by for grant in await store.access.grants()] == [ERASED]
    assert len(json.loads(await store.people.export(BEN, clean=scrub))["entries"]) == 11
    assert await store.people.erase(ANN) == {}
    if database_url.startswith("sqlite"):
        path = Path(str(make_url(database_url).database))
        files = [file for file in path.parent.iterdir() if file.name.startswith(path.name)]
        assert all(CANARY.encode() not in file.read_bytes() for file in files)
    assert before > 0


@pytest.mark.parametrize("key", [ANN, ANN_IN_GROUP], ids=["alone", "in a group"])
async def test_who_never_had_a_turn_leaves_no_trace_either(store: Store, key: SessionKey) -> None:
    """A stranger was told something, a command was answered, a button was offered."""
    reply = Reply(
        f"control:{key}", "", key, ReplyAddress("telegram", CANARY, "{}"), CleanText("nothing"), ReplyKind.NOTICE, 1
    )
    _, buttons = with_buttons(
        reply, [Offer("Again", "/retry")], Addressee(ANN, is_private=True), CleanText, SystemClock()
    )
    await store.buttons.offer(reply, buttons)
    await store.outbox.record_receipts([ended(f"notice:{key}", DeliveryState.SENT, key=key)])
    assert CANARY in await everything(store)
    erased = await store.people.erase(ANN)
    assert (erased["outbox"], erased["buttons"], erased["deliveries"]) == (1, 1, 1)
    assert CANARY not in await everything(store)


async def test_to_erase_one_takes_nothing_of_those_with_longer_names(store: Store) -> None:
    """Neither of another person, nor of a thread in a place that is a session of its own."""
    place = SessionKey("telegram", "", ("-100",))
    others = [SessionKey("telegram", f"{CANARY}4"), SessionKey("telegram", "", ("-100", "7"))]
    await store.outbox.record_receipts(
        [ended(f"notice:{key}", DeliveryState.SENT, key=key) for key in (*others, place)]
    )
    for owner in (ANN, place):
        await store.people.erase(owner)
    found = await everything(store)
    assert [str(key) in found for key in others] == [True, True]
    assert f"notice:{place}'" not in found


async def test_a_turn_that_runs_while_its_user_is_erased_leaves_nothing(store: Store) -> None:
    message = says(ANN, "hello", id_="m1")
    start = await begin(store, "t1", [message])
    await store.people.erase(ANN)
    with pytest.raises(Fenced):
        await store.turns.commit(outcome(start, "t1", [message]))
    assert CANARY not in await everything(store)


async def test_a_shared_place_is_erased_as_a_place(store: Store) -> None:
    place = SessionKey("telegram", "", ("-100",))
    await live(store, place, "somebody")
    await live(store, ANN_IN_GROUP, CANARY)
    assert (await store.people.erase(place))["sessions"] == 4
    assert "somebody" not in await everything(store)
    assert CANARY in await everything(store)


async def test_the_audit_forgets_who_was_erased(store: Store) -> None:
    """What was changed stays."""
    line = Audited(1, str(ANN), "sub_type.put", "explore", CleanText("{}"), CleanText("{}"))
    await store.sub_types.put("explore", SubTypeChange(rounds_max=3), audited=line)
    await store.people.erase(ANN)
    assert [audited.actor for audited in await store.sub_types.audit(limit=9)] == [ERASED]
    assert len(await store.sub_types.changes()) == 1


async def test_a_sub_agent_that_runs_while_its_user_is_erased_leaves_nothing(store: Store) -> None:
    session = await talk(store, ANN, "hello", number=1)
    task = await store.tasks.open(asked(session), wake=None)
    await store.people.erase(ANN)
    with pytest.raises(StoreError, match="there is no task"):
        await store.tasks.record(task.id, entries=[said_by_child(CANARY)], usage=[call(ANN, 1, 1, 0.1)])
    assert not await store.tasks.finish(task.id, ending(result=CANARY))
    assert CANARY not in await everything(store)


async def test_usage_outlives_nobody(store: Store) -> None:
    """What a title cost is charged outside of any turn; it goes, too."""
    session = await talk(store, ANN, "hello", number=1)
    await store.sessions.charge([Usage(ANN, UsagePurpose.TITLE, "m", 1, 1)], session_id=session.id)
    await store.people.erase(ANN)
    assert CANARY not in await everything(store)


async def test_a_code_that_links_accounts_stands_in_no_table(store: Store) -> None:
    """Whoever reads the database joins nobody."""
    await store.links.offer(
        LinkOffer(ANN, literal_text("Ann"), ReplyAddress("telegram", "telegram:1", "{}"), "de", 2_000), "QX7VMK2P"
    )
    assert str(ANN) in await everything(store)
    assert "QX7VMK2P" not in (await everything(store)).upper()


# --- a lane that several share

KITCHEN = SessionKey("telegram", "", ("-100",))
EVA, TOM = SessionKey("telegram", "5"), SessionKey("telegram", "6")
PAGE = literal_text('<file name="page">what others wrote</file>')


def by(who: SessionKey, text: str, *, id_: str) -> InboundMessage:
    return replace(says(KITCHEN, text, id_=id_), author_id=who.user)


async def turn(store: Store, number: int, *messages: InboundMessage, text: str) -> None:
    start = await begin(store, f"turn-{number}", messages, fence=number)
    done = outcome(start, f"turn-{number}", messages, fence=number, text=text)
    await store.turns.commit(done)


async def own_of(store: Store, who: SessionKey, key: SessionKey = KITCHEN) -> dict[str, Any]:
    return dict(json.loads(await store.people.export_own(key, who, left_out="what others said", clean=scrub)))


async def test_of_a_shared_lane_a_person_gets_own_words_and_their_answers(store: Store) -> None:
    """An answer to several is an answer to each; what was said elsewhere is not there."""
    await turn(store, 1, by(EVA, "eva one", id_="m1"), text="re: eva one")
    await turn(store, 2, by(TOM, "tom one", id_="m2"), text="re: tom one")
    await turn(store, 3, by(EVA, "eva two", id_="m3"), by(TOM, "tom two", id_="m4"), text="re: both")
    await apply_effects(store, KITCHEN, [OpenSession()], now_ms=5_000)
    await turn(store, 4, by(TOM, "tom three", id_="m5"), text="re: tom three")
    await talk(store, EVA, "eva alone", number=1)
    found = await own_of(store, EVA)
    assert (found["owner"], found["place"], found["left_out"]) == (str(EVA), str(KITCHEN), "what others said")
    assert [(row["role"], row["text"]) for row in found["entries"]] == [
        ("user", "Ann: eva one"),
        ("assistant", "re: eva one"),
        ("user", "Ann: eva two"),
        ("assistant", "re: both"),
    ]
    assert [row["text"] for row in (await own_of(store, TOM))["entries"]][-2:] == ["Ann: tom three", "re: tom three"]
    assert (await own_of(store, BEN))["entries"] == []
    await store.people.erase(EVA)
    assert (await own_of(store, EVA))["entries"] == []


async def test_what_came_along_and_what_sub_agents_brought_up_for_others_is_left_out(store: Store) -> None:
    """A quote is others' words; a wake answers the person whom it names, an answer anew the words before it."""
    quoting = replace(by(EVA, "and you", id_="m1"), quotes=(Quote(QuoteKind.REPLY, CleanText("Tom"), PAGE),))
    await turn(store, 1, quoting, text="re: eva")
    await turn(store, 2, by(TOM, "tom one", id_="m2"), text="re: tom one")
    woken = replace(by(EVA, "a sub-agent is done", id_="subagent:K1M2N3P4Q5R6"), quotes=())
    await turn(store, 3, woken, text="it found something")
    await turn(store, 4, by(TOM, "tom two", id_="m4"), text="first")
    start = await begin(store, "turn-5", [], fence=5, key=KITCHEN)
    await store.turns.commit(outcome(start, "turn-5", [], fence=5, text="second"))
    texts = {who: [row["text"] for row in (await own_of(store, who))["entries"]] for who in (EVA, TOM)}
    assert texts == {
        EVA: ["Ann: and you", "re: eva", "it found something"],
        TOM: ["Ann: tom one", "re: tom one", "Ann: tom two", "first", "second"],
    }
