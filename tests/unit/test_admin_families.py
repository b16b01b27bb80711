"""The sub-agents below a conversation, as the operator's API and the `trivet sessions` command show them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from gateway.bus.bus import RedisBus
from gateway.config import Settings, process_environment
from gateway.contracts.errors import ConfigError
from gateway.contracts.sessions import Session
from gateway.contracts.subagents import TaskState
from gateway.ops.cli.sessions import NoSuchSession, print_list, print_trees, show_tree, tree_lines
from gateway.store import Store
from tests.contract.store_samples import ANN, BOB
from tests.contract.subtask_samples import conversation, ending, finished, model_call, opened, said, spawned, started
from tests.parts.operator_api import app_of, client_of


@pytest.fixture
async def admin(sqlite_store: Store, bus: RedisBus) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(app_of(sqlite_store, bus)) as client:
        yield client


async def family(store: Store) -> Session:
    """A conversation with two sub-agents, the second of which has one of its own."""
    session = await conversation(store)
    [_, second] = await spawned(store, session, "k1", "k2")
    await opened(store, second, "c1", at_ms=20_000)
    await started(store, "c1")
    await store.tasks.record("c1", entries=[said("here")], usage=[model_call(ANN, 100, 10, 0.5)])
    await finished(store, "c1", at_ms=13_500)
    await store.tasks.finish("k1", ending(TaskState.FAILED))
    return session


async def test_children_are_sessions_of_their_own_channel(admin: httpx.AsyncClient, sqlite_store: Store) -> None:
    session = await family(sqlite_store)
    first, second = (await admin.get(f"/api/v1/sessions/{session.id}/children")).json()
    assert (first["id"], first["channel"], first["parent_session_id"]) == ("s-k1", "subagent:explore", session.id)
    assert (first["status"], first["title"], first["is_current"]) == ("closed", "label of k1", False)
    assert (second["id"], second["tokens"], second["cost"]) == ("s-k2", 110, 0.5)
    assert (await admin.get("/api/v1/sessions/s-k1/children")).json() == []


@pytest.mark.parametrize("view", ["children", "tree"])
async def test_an_unknown_session_has_no_family(admin: httpx.AsyncClient, view: str) -> None:
    answer = await admin.get(f"/api/v1/sessions/none/{view}")
    assert answer.status_code == 404
    assert answer.json() == {"detail": "there is no session 'none'"}


async def test_the_operators_list_shows_sub_agents(admin: httpx.AsyncClient, sqlite_store: Store) -> None:
    session = await family(sqlite_store)
    rows = {row["id"]: row for row in (await admin.get("/api/v1/sessions")).json()}
    assert set(rows) == {session.id, "s-k1", "s-k2", "s-c1"}
    assert rows[session.id]["channel"] == "telegram"
    assert {id_: row["children_count"] for id_, row in rows.items() if row["children_count"]} == {
        session.id: 2,
        "s-k2": 1,
    }
    (own,) = (await admin.get("/api/v1/sessions", params={"sub_agents": False})).json()
    assert own == rows[session.id]
    one = (await admin.get("/api/v1/sessions/s-c1")).json()
    assert one == rows["s-c1"]
    assert one["parent_session_id"] == "s-k2"
    assert (await admin.get(f"/api/v1/sessions/{session.id}")).json() == rows[session.id]


async def test_a_childs_messages_are_read_like_any(admin: httpx.AsyncClient, sqlite_store: Store) -> None:
    await family(sqlite_store)
    [message] = (await admin.get("/api/v1/sessions/s-c1/messages")).json()
    assert (message["role"], message["text"]) == ("assistant", "here")
    assert (await admin.post("/api/v1/sessions/s-c1/compact")).status_code == 409


async def test_a_tree_is_nested_and_says_how_each_stands(admin: httpx.AsyncClient, sqlite_store: Store) -> None:
    session = await family(sqlite_store)
    root = (await admin.get(f"/api/v1/sessions/{session.id}/tree")).json()
    assert (root["id"], root["depth"], root["task"]) == (session.id, 0, None)
    first, second = root["children"]
    assert [root["children_count"], first["children_count"], second["children_count"]] == [2, 0, 1]
    [grandchild] = second["children"]
    assert [first["depth"], second["depth"], grandchild["depth"]] == [1, 1, 2]
    assert (first["task"]["state"], first["task"]["reason"]) == ("failed", "because")
    assert second["task"]["state"] == "running"
    task = grandchild["task"]
    assert (task["id"], task["type"], task["state"], task["duration_ms"]) == ("c1", "explore", "completed", 2_500)
    assert (task["parent_session_id"], task["tokens"], task["cost"]) == ("s-k2", 110, 0.5)
    assert grandchild["children"] == []
    assert (await admin.get("/api/v1/sessions/s-k2/tree")).json()["children"][0]["depth"] == 1


async def test_the_trees_of_two_people_are_apart(admin: httpx.AsyncClient, sqlite_store: Store) -> None:
    await family(sqlite_store)
    other = await conversation(sqlite_store, BOB)
    await opened(sqlite_store, other, "o1")
    root = (await admin.get(f"/api/v1/sessions/{other.id}/tree")).json()
    assert [child["id"] for child in root["children"]] == ["s-o1"]
    assert [row["id"] for row in (await admin.get(f"/api/v1/sessions?key={BOB}")).json()] == ["s-o1", other.id]


async def test_the_documentation_says_what_a_tree_is(admin: httpx.AsyncClient) -> None:
    paths = (await admin.get("/api/v1/openapi.json")).json()["paths"]
    assert "nested" in paths["/api/v1/sessions/{session_id}/tree"]["get"]["description"]
    assert "404" in paths["/api/v1/sessions/{session_id}/children"]["get"]["description"]


async def test_the_command_draws_the_tree(sqlite_store: Store) -> None:
    session = await family(sqlite_store)
    found = await sqlite_store.tasks.tree(session.id)
    head, *lines = tree_lines(found, await sqlite_store.tasks.tasks_below(session.id), now_ms=15_500)
    assert head.startswith(f"{session.id}  1970-01-01T00:00:01Z  telegram:1  'New Chat'  110 tokens  $0.5000")
    assert lines == [
        "⤷ [explore] failed (because)  1 s  'label of k1'  0 tokens  $0.0000  s-k1",
        "⤷ [explore] running  4 s  'label of k2'  110 tokens  $0.5000  s-k2",
        "  ⤷ [explore] completed  2 s  'label of c1'  110 tokens  $0.5000  s-c1",
    ]


async def test_what_the_board_forgot_is_drawn_from_its_session(sqlite_store: Store) -> None:
    session = await family(sqlite_store)
    found = await sqlite_store.tasks.tree(session.id)
    assert tree_lines(found, (), now_ms=0)[1] == "⤷ [explore] closed  'label of k1'  0 tokens  $0.0000  s-k1"


def test_a_session_and_a_key_are_too_much() -> None:
    with pytest.raises(ConfigError, match="not both"):
        show_tree("s1", key="telegram:1")


@pytest.mark.parametrize(
    ("path", "refusal"),
    [
        ("/api/v1/sessions/a%00b/children", 422),
        ("/api/v1/sessions/%00/tree", 422),
        ("/api/v1/tasks/%00", 422),
        ("/api/v1/tasks?session=%00", 422),
        ("/api/v1/sessions?offset=99999999999999999999", 422),
        ("/api/v1/sessions/s/messages?after_seq=99999999999999999999", 422),
        ("/api/v1/sessions/%F0%9F%98%80%20%22%27%3B--/children", 404),
        ("/api/v1/sessions/" + "s" * 5_000 + "/tree", 404),
    ],
)
async def test_what_cannot_be_is_refused_on_every_database(
    store: Store, bus: RedisBus, path: str, refusal: int
) -> None:
    async with client_of(app_of(store, bus)) as admin:
        assert (await admin.get(path)).status_code == refusal


async def test_the_list_is_filtered_by_parent_and_by_channel(store: Store, bus: RedisBus) -> None:
    session = await family(store)
    other = await conversation(store, BOB)
    async with client_of(app_of(store, bus)) as admin:

        async def ids(query: str) -> set[str]:
            return {row["id"] for row in (await admin.get(f"/api/v1/sessions?{query}")).json()}

        assert await ids(f"parent_session_id={session.id}") == {"s-k1", "s-k2"}
        assert await ids("parent_session_id=none") == set()
        assert await ids("channel=subagent:explore") == {"s-k1", "s-k2", "s-c1"}
        assert await ids("channel=subagent:explore&parent_session_id=s-k2") == {"s-c1"}
        assert await ids(f"channel=subagent:explore&key={BOB}") == set()
        assert await ids("channel=subagent:code") == set()
        assert await ids(f"channel={ANN.platform}") == {session.id}
        assert await ids(f"channel={BOB.platform}") == {other.id}
        assert await ids("channel=tele") == set()


@pytest.mark.parametrize("query", ["channel=", "channel=subagent:", "channel=%25", "channel=a:b", "parent_session_id="])
async def test_a_filter_that_can_match_nothing_is_refused_with_the_reason(admin: httpx.AsyncClient, query: str) -> None:
    answer = await admin.get(f"/api/v1/sessions?{query}")
    assert answer.status_code == 422
    assert query.partition("=")[0] in answer.text
    assert "such as subagent:explore" in answer.text or "at least 1 character" in answer.text


async def test_the_command_prints_the_rows_of_the_api(
    admin: httpx.AsyncClient, sqlite_store: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    session = await family(sqlite_store)
    settings = Settings()

    @asynccontextmanager
    async def opened_store(_: Settings) -> AsyncIterator[Store]:
        yield sqlite_store

    monkeypatch.setattr("gateway.ops.cli.sessions.checked_store", opened_store)
    await print_list(settings, None, as_json=True)
    rows = (await admin.get("/api/v1/sessions?channel=telegram")).json()
    assert json.loads(capsys.readouterr().out) == rows
    await print_trees(settings, session.id, None, as_json=True)
    [tree] = json.loads(capsys.readouterr().out)
    assert {child["id"] for child in tree["children"]} == {"s-k1", "s-k2"}
    assert tree.keys() == (await admin.get(f"/api/v1/sessions/{session.id}/tree")).json().keys()
    with pytest.raises(NoSuchSession, match="there is no session none"):
        await print_trees(settings, "none", None, as_json=True)


@pytest.mark.long
def test_an_unknown_session_is_an_exit_code(tmp_path: Path) -> None:
    """Of the whole program, which needs no web server for it."""
    environment = process_environment() | {"TRIVET_DATA_DIR": str(tmp_path)}
    trivet = (sys.executable, "-X", "importtime", "-m", "gateway", "sessions")
    subprocess.run((sys.executable, "-m", "gateway", "migrate"), env=environment, capture_output=True, check=True)
    known = subprocess.run((*trivet, "list", "--json"), env=environment, capture_output=True, text=True, check=False)
    assert (known.returncode, known.stdout) == (0, "[]\n"), known.stderr[-500:]
    assert not re.search(r"\| +(fastapi|starlette|uvicorn)\b", known.stderr)
    unknown = subprocess.run((*trivet, "tree", "none"), env=environment, capture_output=True, text=True, check=False)
    assert unknown.returncode == 1
    assert "there is no session none" in unknown.stderr
