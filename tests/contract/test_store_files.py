"""The bytes of files on their way out, on SQLite and PostgreSQL."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy import func, select

from gateway.contracts.errors import Fenced
from gateway.contracts.messages import DeliveryState, ReplyFile, literal_text
from gateway.contracts.sessions import FileContent, TurnCommit
from gateway.store import Store
from gateway.store.tables import reply_files
from tests.contract.store_samples import ANN, BOB, begin, ended, outcome, rows, says, unsent

FILE = ReplyFile(literal_text("größe.png"), "image/png", 256, literal_text("today's"))
CONTENT = bytes(range(256))
NAME = "t1:0"


async def committed(store: Store, *, fence: int = 1) -> TurnCommit:
    """A turn whose answer has two files."""
    messages = [says(ANN, "draw", id_="m1")]
    start = await begin(store, "t1", messages)
    plain = outcome(start, "t1", messages, fence=fence)
    done = replace(
        plain,
        outbox=(replace(plain.outbox[0], files=(FILE, FILE)),),
        contents=(FileContent(NAME, 0, CONTENT), FileContent(NAME, 1, b"\0")),
    )
    await store.turns.commit(done)
    return done


async def test_a_file_is_committed_with_its_reply(store: Store) -> None:
    """And is there as often as it is asked for, also for a reply that is published again."""
    await committed(store)
    assert (await unsent(store))[0].files == (FILE, FILE)
    assert [await store.outbox.file_content(ANN, NAME, number) for number in (0, 0, 1, 2)] == [
        CONTENT,
        CONTENT,
        b"\0",
        None,
    ]


async def test_nobody_else_gets_it(store: Store) -> None:
    await committed(store)
    assert await store.outbox.file_content(BOB, NAME, 0) is None


async def test_a_commit_that_comes_twice_keeps_the_first(store: Store) -> None:
    done = await committed(store)
    await store.turns.commit(replace(done, contents=(FileContent(NAME, 0, b"later"),)))
    assert await store.outbox.file_content(ANN, NAME, 0) == CONTENT


async def test_a_fenced_turn_leaves_no_bytes(database_url: str, store: Store) -> None:
    with pytest.raises(Fenced):
        await committed(store, fence=9)
    assert await rows(database_url, select(func.count()).select_from(reply_files)) == [(0,)]


@pytest.mark.parametrize("state", [DeliveryState.SENT, DeliveryState.FAILED])
async def test_the_bytes_go_with_the_receipt(store: Store, state: DeliveryState) -> None:
    """What has arrived, or never will, is not kept."""
    await committed(store)
    await store.outbox.record_receipts([ended(NAME, state)])
    assert await store.outbox.file_content(ANN, NAME, 0) is None
