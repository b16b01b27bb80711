"""Writes that wait are one transaction of SQLite: who hears what, and when; and that a PostgreSQL does the same."""

from __future__ import annotations

import asyncio
import gc
import signal
import sqlite3
import subprocess
import sys
import threading
import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Executable, Select, bindparam, column, literal_column, select, table, text

from gateway.contracts.errors import Fenced, StoreError, StoreUnavailable
from gateway.limits import WRITES_GATHERED_MAX
from gateway.store.engine import Connection, Database, open_database

_ADD = text("INSERT INTO said VALUES (:word)")
_SAID = text("SELECT word FROM said ORDER BY word")


def adding(word: str) -> Callable[[Connection], str]:
    """A job that writes one row."""

    def add(connection: Connection) -> str:
        connection.execute(_ADD, {"word": word})
        return word

    return add


def failing(word: str, error: Exception) -> Callable[[Connection], None]:
    """A job that writes one row and fails."""

    def fail(connection: Connection) -> None:
        connection.execute(_ADD, {"word": word})
        raise error

    return fail


async def said(database: Database) -> list[str]:
    """What is there."""
    return await database.read(lambda connection: [row[0] for row in connection.execute(_SAID)])


def file_of(database: Database) -> Path:
    return Path(str(database.url.database))


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """A database with a table of our own, on each kind."""
    opened = open_database(database_url, busy_timeout_s=5.0)
    await opened.write(lambda connection: connection.execute(text("CREATE TABLE said (word TEXT PRIMARY KEY)")))
    yield opened
    await opened.write(lambda connection: connection.execute(text("DROP TABLE said")))
    await opened.close()


@pytest.fixture
async def sqlite_database(sqlite_url: str) -> AsyncIterator[Database]:
    """The same on SQLite alone, for what only gathering can do."""
    opened = open_database(sqlite_url, busy_timeout_s=0.05)
    await opened.write(lambda connection: connection.execute(text("CREATE TABLE said (word TEXT PRIMARY KEY)")))
    yield opened
    await opened.close()


class Gate:
    """A job that holds the writing thread until it is opened: what is written meanwhile is gathered."""

    def __init__(self, database: Database) -> None:
        self._entered = threading.Event()
        self._open = threading.Event()
        self.holding = asyncio.ensure_future(database.write(self._hold))

    def _hold(self, _connection: Connection) -> None:
        self._entered.set()
        assert self._open.wait(10)

    async def entered(self) -> None:
        await asyncio.to_thread(self._entered.wait, 10)

    def open(self) -> None:
        self._open.set()


async def begun(*jobs: asyncio.Future[Any]) -> None:
    """Until each of these tasks has asked for its transaction."""
    for _ in range(3):
        await asyncio.sleep(0)
    assert not any(job.done() for job in jobs)


async def gathered(database: Database, *works: Callable[[Connection], object]) -> list[object]:
    """What became of works that were asked for while another transaction ran."""
    gate = Gate(database)
    await gate.entered()
    jobs = [asyncio.ensure_future(database.write(work)) for work in works]
    await begun(*jobs)
    gate.open()
    await gate.holding
    return await asyncio.gather(*jobs, return_exceptions=True)


# --- both databases


async def test_each_caller_hears_its_own_result(database: Database) -> None:
    words = [f"word-{number:03}" for number in range(200)]
    assert await asyncio.gather(*(database.write(adding(word)) for word in words)) == words
    assert await said(database) == words


async def test_one_that_fails_takes_nobody_along(database: Database) -> None:
    jobs = [
        database.write(adding("a")),
        database.write(failing("b", Fenced("no"))),
        database.write(adding("c")),
        database.write(adding("c")),
        database.write(failing("d", RuntimeError("no"))),
        database.write(adding("e")),
    ]
    ends = await asyncio.gather(*jobs, return_exceptions=True)
    assert [type(end) for end in ends].count(StoreError) == 1  # who came second with "c"
    assert [type(ends[at]) for at in (1, 4)] == [Fenced, RuntimeError]
    assert await said(database) == ["a", "c", "e"]


# --- SQLite


async def test_what_is_not_urgent_goes_along_with_the_next_or_by_itself(sqlite_database: Database) -> None:
    """And nothing is left behind when the database is closed."""
    for closing_time in (False, True):
        later = asyncio.ensure_future(sqlite_database.write(adding(f"later {closing_time}"), urgent=False))
        await begun(later)
        if closing_time:
            await sqlite_database.close()
        else:
            await sqlite_database.write(lambda connection: connection.execute(_ADD, {"word": "now"}))
        assert later.done()
    await sqlite_database.write(adding("alone"), urgent=False)
    assert await said(sqlite_database) == ["alone", "later False", "later True", "now"]


async def test_what_waits_is_one_transaction(sqlite_database: Database) -> None:
    """Each job sees what those before it wrote; a reader sees nothing until all of it is there."""
    seen: list[tuple[list[str], list[str]]] = []

    def look(connection: Connection) -> None:
        with closing(sqlite3.connect(file_of(sqlite_database))) as other:
            outside = [word for (word,) in other.execute("SELECT word FROM said")]
        seen.append(([row[0] for row in connection.execute(_SAID)], outside))

    assert await gathered(sqlite_database, adding("a"), adding("b"), look) == ["a", "b", None]
    assert seen == [(["a", "b"], [])]
    assert await said(sqlite_database) == ["a", "b"]


async def test_a_job_that_fails_is_undone_by_itself(sqlite_database: Database) -> None:
    ends = await gathered(
        sqlite_database, adding("a"), failing("b", Fenced("no")), adding("b"), adding("b"), adding("c")
    )
    assert [type(end) for end in ends] == [str, Fenced, str, StoreError, str]
    assert await said(sqlite_database) == ["a", "b", "c"]


async def test_a_lock_that_is_not_let_go_is_heard_by_all_who_wait(sqlite_database: Database) -> None:
    with closing(sqlite3.connect(file_of(sqlite_database), isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        ends = await asyncio.gather(*(sqlite_database.write(adding(word)) for word in "abc"), return_exceptions=True)
        assert [type(end) for end in ends] == [StoreUnavailable] * 3
        other.execute("ROLLBACK")
    assert await gathered(sqlite_database, *map(adding, "abc")) == ["a", "b", "c"]


async def test_when_sqlite_undoes_the_transaction_everybody_hears_it(sqlite_database: Database) -> None:
    """As it does with a full disk."""

    def full(connection: Connection) -> None:
        connection.exec_driver_sql("ROLLBACK")
        raise sqlite3.OperationalError("database or disk is full")

    ends = await gathered(sqlite_database, adding("a"), failing("b", Fenced("no")), full, adding("c"))
    assert [type(end) for end in ends] == [StoreError, Fenced, StoreError, StoreError]
    assert await said(sqlite_database) == []
    assert await gathered(sqlite_database, adding("a"), adding("c")) == ["a", "c"]


@pytest.mark.parametrize(("durable", "level"), [((False, False), 1), ((False, True, False), 2), ((True,), 2)])
async def test_one_who_wants_its_work_synced_has_all_of_it_synced(
    sqlite_database: Database, durable: tuple[bool, ...], level: int
) -> None:
    def synced(connection: Connection) -> object:
        return connection.exec_driver_sql("PRAGMA synchronous").scalar_one()

    gate = Gate(sqlite_database)
    await gate.entered()
    jobs = [asyncio.ensure_future(sqlite_database.write(synced, durable=each)) for each in durable]
    await begun(*jobs)
    gate.open()
    await gate.holding
    assert await asyncio.gather(*jobs) == [level] * len(durable)


async def test_more_than_one_transaction_holds_are_several(sqlite_database: Database) -> None:
    words = [f"word-{number:03}" for number in range(2 * WRITES_GATHERED_MAX + 1)]
    assert await gathered(sqlite_database, *map(adding, words)) == words
    assert await said(sqlite_database) == words


# --- statements


async def test_a_statement_finds_what_is_in_a_list_of_any_length(database: Database) -> None:
    found: Select[Any] = select(column("word")).select_from(table("said", column("word"))).order_by(column("word"))
    among = found.where(column("word").in_(bindparam("words", expanding=True)))
    await asyncio.gather(*(database.write(adding(word)) for word in "abcde"))
    for words in ("", "a", "abc", "e", "", "zb"):
        rows = await database.read(partial(_all, statement=among, words=list(words)))
        assert rows == sorted(set(words) & set("abcde"))


def _all(connection: Connection, *, statement: Executable, words: list[str]) -> list[str]:
    return list(connection.execute(statement, {"words": words}).scalars())


async def test_a_parameter_that_is_missing_is_a_defect(database: Database) -> None:
    with pytest.raises(StoreError):
        await database.write(lambda connection: connection.execute(_ADD))


async def test_a_statement_that_was_made_for_one_call_is_not_kept(sqlite_database: Database) -> None:
    made: Select[Any] = select(literal_column("'1'")).where(literal_column("1").in_([1, 2]))
    gone = weakref.ref(made)
    assert await sqlite_database.read(partial(_all, statement=made, words=[])) == ["1"]
    del made
    await said(sqlite_database)  # the thread holds on to what it did last
    gc.collect()
    assert gone() is None


# --- callers who go


async def test_who_goes_before_the_work_begins_leaves_nothing(sqlite_database: Database) -> None:
    gate = Gate(sqlite_database)
    await gate.entered()
    jobs = [asyncio.ensure_future(sqlite_database.write(adding(word))) for word in "abc"]
    await begun(*jobs)
    jobs[1].cancel()
    with pytest.raises(asyncio.CancelledError):
        await jobs[1]
    gate.open()
    await gate.holding
    assert [await jobs[0], await jobs[2]] == ["a", "c"]
    assert await said(sqlite_database) == ["a", "c"]


async def test_who_goes_later_stays_until_the_work_is_done(sqlite_database: Database) -> None:
    gate = Gate(sqlite_database)
    await gate.entered()
    waiting = asyncio.ensure_future(sqlite_database.write(adding("a")))
    for _ in range(3):
        gate.holding.cancel()
        await begun(gate.holding, waiting)
    gate.open()
    with pytest.raises(asyncio.CancelledError):
        await gate.holding
    assert await waiting == "a"


async def test_who_goes_in_the_middle_of_a_gathering_takes_nobody_along(sqlite_database: Database) -> None:
    inner, outer = threading.Event(), threading.Event()

    def held(connection: Connection) -> None:
        adding("b")(connection)
        inner.set()
        assert outer.wait(10)

    gate = Gate(sqlite_database)
    await gate.entered()
    jobs = [asyncio.ensure_future(sqlite_database.write(work)) for work in (adding("a"), held, adding("c"))]
    await begun(*jobs)
    gate.open()
    await asyncio.to_thread(inner.wait, 10)
    jobs[0].cancel()
    jobs[1].cancel()
    await begun(*jobs)
    outer.set()
    ends = await asyncio.gather(*jobs, return_exceptions=True)
    assert [type(end) for end in ends] == [asyncio.CancelledError, asyncio.CancelledError, str]
    assert await said(sqlite_database) == ["a", "b", "c"]


async def test_a_reader_who_goes_stays_until_the_reading_is_done(sqlite_database: Database) -> None:
    entered, leave = threading.Event(), threading.Event()

    def look(_connection: Connection) -> None:
        entered.set()
        assert leave.wait(10)

    reading = asyncio.ensure_future(sqlite_database.read(look))
    await asyncio.to_thread(entered.wait, 10)
    reading.cancel()
    await begun(reading)
    leave.set()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert await said(sqlite_database) == []


async def test_closing_finishes_what_waits(sqlite_database: Database) -> None:
    gate = Gate(sqlite_database)
    await gate.entered()
    job = asyncio.ensure_future(sqlite_database.write(adding("a")))
    await begun(job)
    closing_it = asyncio.ensure_future(sqlite_database.close())
    await begun(job, closing_it)
    gate.open()
    await closing_it
    assert await job == "a"
    assert await said(sqlite_database) == ["a"]  # it opens again for who needs it


# --- processes that die

_PROGRAM = """
import asyncio, os, signal, sys, threading
from sqlalchemy import Executable, Select, bindparam, column, literal_column, select, table, text
from gateway.store.engine import open_database

url, doomed = sys.argv[1], int(sys.argv[2])
go, entered = threading.Event(), threading.Event()

async def main():
    database = open_database(url, busy_timeout_s=5.0)

    def hold(connection):
        entered.set()
        go.wait()

    def add(connection, number):
        connection.execute(text("INSERT INTO said VALUES (:word)"), {"word": str(number)})
        if number == doomed:
            os.kill(os.getpid(), signal.SIGKILL)

    async def say(number):
        await database.write(lambda connection: add(connection, number), durable=number % 2 == 0)
        print(number, flush=True)

    for number in range(5):
        await say(number)
    holding = asyncio.ensure_future(database.write(hold))
    await asyncio.to_thread(entered.wait)
    jobs = [asyncio.ensure_future(say(number)) for number in range(5, 20)]
    for _ in range(5):
        await asyncio.sleep(0)
    go.set()
    await asyncio.gather(holding, *jobs)
    number = 20
    while True:
        await asyncio.gather(*(say(number + each) for each in range(7)))
        number += 7

asyncio.run(main())
"""


async def heard_of(database: Database, doomed: int, *, lines: int) -> list[str]:
    """What writers in a process heard that kills itself in job `doomed`, or is killed after so many `lines`."""
    url = database.url.render_as_string(hide_password=False)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _PROGRAM, url, str(doomed), stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    heard = []
    while line := await process.stdout.readline():
        heard.append(line.decode().strip())
        if len(heard) == lines:
            process.kill()
    assert await process.wait() == -signal.SIGKILL
    return heard


@pytest.mark.parametrize("doomed", [5, 12, 19])
async def test_a_process_killed_while_it_gathers_has_told_nobody(sqlite_database: Database, doomed: int) -> None:
    """In the first, a middle and the last job of a transaction: nothing of it was heard, and nothing of it is there."""
    before = [str(number) for number in range(5)]
    assert await heard_of(sqlite_database, doomed, lines=-1) == before
    assert await said(sqlite_database) == before


async def test_whatever_was_heard_before_a_kill_is_there(sqlite_database: Database) -> None:
    heard = await heard_of(sqlite_database, -1, lines=150)
    assert len(heard) >= 150
    assert set(heard) <= set(await said(sqlite_database))
