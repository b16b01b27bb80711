"""The sub-agents below a conversation, as the operator's API and the `trivet sessions` command show them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from gateway.bus.bus import RedisBus
from gateway.cli.sessions import show_tree, tree_lines
from gateway.contracts.entries import Session
from gateway.contracts.errors import ConfigError
from gateway.contracts.subagents import TaskState
from gateway.store import SqlStore
from tests.contract.store_samples import ANN, BOB
from tests.contract.subtask_samples import (
    conversation,
    ending,
    finished,
    model_call,
    opened,
    said,
    spawned,
    started,
)
from tests.unit.test_admin_api import app_of, client_of


@pytest.fixture
async def admin(sqlite_store: SqlStore, bus: RedisBus) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(app_of(sqlite_store, bus)) as client:
        yield client


async def family(store: SqlStore) -> Session:
    """A conversation with two sub-agents, the second of which has one of its own."""
    session = await conversation(store)
    [_, second] = await spawned(store, session, "k1", "k2")
    await opened(store, second, "c1", at_ms=20_000)
    await started(store, "c1")
    await store.tasks.record("c1", entries=[said("here")], usage=[model_call(ANN, 100, 10, 0.5)])
    await finished(store, "c1", at_ms=13_500)
    await store.tasks.finish("k1", ending(TaskState.FAILED))
    return session


async def test_children_are_sessions_of_their_own_channel(admin: httpx.AsyncClient, sqlite_store: SqlStore) -> None:
    session = await family(sqlite_store)
    first, second = (await admin.get(f"/api/sessions/{session.id}/children")).json()
    assert (first["id"], first["channel"], first["parent_session_id"]) == ("s-k1", "subagent:explore", session.id)
    assert (first["status"], first["title"], first["is_current"]) == ("closed", "label of k1", False)
    assert (second["id"], second["tokens"], second["cost"]) == ("s-k2", 110, 0.5)
    assert (await admin.get("/api/sessions/s-k1/children")).json() == []


@pytest.mark.parametrize("view", ["children", "tree"])
async def test_an_unknown_session_has_no_family(admin: httpx.AsyncClient, view: str) -> None:
    answer = await admin.get(f"/api/sessions/none/{view}")
    assert answer.status_code == 404
    assert answer.json() == {"detail": "there is no session 'none'"}


async def test_the_operators_list_shows_sub_agents(admin: httpx.AsyncClient, sqlite_store: SqlStore) -> None:
    session = await family(sqlite_store)
    rows = {row["id"]: row for row in (await admin.get("/api/sessions")).json()}
    assert set(rows) == {session.id, "s-k1", "s-k2", "s-c1"}
    assert rows[session.id]["channel"] == "telegram"
    one = (await admin.get("/api/sessions/s-c1")).json()
    assert one == rows["s-c1"]
    assert one["parent_session_id"] == "s-k2"
    assert (await admin.get(f"/api/sessions/{session.id}")).json() == rows[session.id]


async def test_a_childs_messages_are_read_like_any(admin: httpx.AsyncClient, sqlite_store: SqlStore) -> None:
    await family(sqlite_store)
    [message] = (await admin.get("/api/sessions/s-c1/messages")).json()
    assert (message["role"], message["text"]) == ("assistant", "here")
    assert (await admin.post("/api/sessions/s-c1/compact")).status_code == 409


async def test_a_tree_is_nested_and_says_how_each_stands(admin: httpx.AsyncClient, sqlite_store: SqlStore) -> None:
    session = await family(sqlite_store)
    root = (await admin.get(f"/api/sessions/{session.id}/tree")).json()
    assert (root["id"], root["depth"], root["task"]) == (session.id, 0, None)
    first, second = root["children"]
    [grandchild] = second["children"]
    assert [first["depth"], second["depth"], grandchild["depth"]] == [1, 1, 2]
    assert (first["task"]["state"], first["task"]["reason"]) == ("failed", "because")
    assert second["task"]["state"] == "running"
    task = grandchild["task"]
    assert (task["id"], task["type"], task["state"], task["duration_ms"]) == ("c1", "explore", "completed", 2_500)
    assert (task["parent_session_id"], task["tokens"], task["cost"]) == ("s-k2", 110, 0.5)
    assert grandchild["children"] == []
    assert (await admin.get("/api/sessions/s-k2/tree")).json()["children"][0]["depth"] == 1


async def test_the_trees_of_two_people_are_apart(admin: httpx.AsyncClient, sqlite_store: SqlStore) -> None:
    await family(sqlite_store)
    other = await conversation(sqlite_store, BOB)
    await opened(sqlite_store, other, "o1")
    root = (await admin.get(f"/api/sessions/{other.id}/tree")).json()
    assert [child["id"] for child in root["children"]] == ["s-o1"]
    assert [row["id"] for row in (await admin.get(f"/api/sessions?key={BOB}")).json()] == ["s-o1", other.id]


async def test_the_documentation_says_what_a_tree_is(admin: httpx.AsyncClient) -> None:
    paths = (await admin.get("/api/openapi.json")).json()["paths"]
    assert "nested" in paths["/api/sessions/{session_id}/tree"]["get"]["description"]
    assert "404" in paths["/api/sessions/{session_id}/children"]["get"]["description"]


async def test_the_command_draws_the_tree(sqlite_store: SqlStore) -> None:
    session = await family(sqlite_store)
    found = await sqlite_store.tasks.tree(session.id)
    head, *lines = tree_lines(found, await sqlite_store.tasks.tasks_below(session.id), now_ms=15_500)
    assert head.startswith(f"{session.id}  1970-01-01T00:00:01Z  telegram:1  'New Chat'  110 tokens  $0.5000")
    assert lines == [
        "⤷ [explore] failed (because)  1.0 s  'label of k1'  0 tokens  $0.0000  s-k1",
        "⤷ [explore] running  4.5 s  'label of k2'  110 tokens  $0.5000  s-k2",
        "  ⤷ [explore] completed  2.5 s  'label of c1'  110 tokens  $0.5000  s-c1",
    ]


async def test_what_the_board_forgot_is_drawn_from_its_session(sqlite_store: SqlStore) -> None:
    session = await family(sqlite_store)
    found = await sqlite_store.tasks.tree(session.id)
    assert tree_lines(found, (), now_ms=0)[1] == "⤷ [explore] closed  'label of k1'  0 tokens  $0.0000  s-k1"


def test_a_session_and_a_key_are_too_much() -> None:
    with pytest.raises(ConfigError, match="not both"):
        show_tree("s1", key="telegram:1")
