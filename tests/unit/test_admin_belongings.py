"""Everything of one person in the operator's API: exported, erased, by the operator alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from agent.subagents.runs import SubOrder
from gateway.bus.bus import RedisBus
from gateway.contracts.ids import SessionKey, folder_name
from gateway.contracts.messages import CleanText
from gateway.contracts.sessions import Grant, GrantRole
from gateway.store import Store
from tests.parts.keepers import keeper_of
from tests.parts.operator_api import ADA, HEADERS, app_of, client_of, converse, make_dead_letter, message
from tests.parts.scripted_children import never, scripted_children
from tests.parts.waiting import until


@pytest.fixture
async def admin(sqlite_store: Store, bus: RedisBus) -> AsyncIterator[httpx.AsyncClient]:
    """The API with the operator's token."""
    async with client_of(app_of(sqlite_store, bus)) as client:
        yield client


async def test_a_users_belongings_are_exported_and_erased(
    admin: httpx.AsyncClient, sqlite_store: Store, bus: RedisBus
) -> None:
    """From every place; a role that was granted goes with the rest, and intake knows at once."""
    bob = SessionKey("telegram", "2")
    for number, key in enumerate((ADA, SessionKey("telegram", "1", ("-100",)), bob), 1):
        await converse(sqlite_store, key, number)
    await sqlite_store.access.put_grant(Grant(ADA, GrantRole.MEMBER, "cli", 1))
    await keeper_of(sqlite_store, bus).project()
    document = (await admin.get("/api/v1/users/telegram:1/-100/export")).json()
    assert document["owner"] == "telegram:1"
    assert {row["key"] for row in document["sessions"]} == {"telegram:1", "telegram:1/-100"}
    erased = (await admin.delete("/api/v1/users/telegram:1")).json()
    assert erased["key"] == "telegram:1"
    assert erased["rows"]["sessions"] == 2
    assert (await bus.access.view(ADA)).granted is None
    assert [session.key for session in await sqlite_store.sessions.page()] == [bob]


async def test_what_works_for_a_user_ends_before_he_is_erased(admin: httpx.AsyncClient, sqlite_store: Store) -> None:
    """So that nothing is written of him afterwards; what works for others goes on."""
    async with scripted_children(sqlite_store, never) as made:
        await made.agents.spawn(made.context, SubOrder("explore", CleanText("look around")))
        await until(lambda: made.began)
        (run,) = made.began
        await admin.delete("/api/v1/users/telegram:999")
        assert not run.is_ended
        assert "sub_tasks" in (await admin.delete(f"/api/v1/users/{run.task.key.owner}")).json()["rows"]
        assert run.gone.is_set()
        assert await made.newest() == []


async def test_the_files_of_an_erased_user_go_with_him(sqlite_store: Store, bus: RedisBus, tmp_path: Path) -> None:
    """What he sent in any of his conversations, and nobody else's."""
    bob, everywhere = SessionKey("telegram", "2"), SessionKey("telegram", "1", ("-100",))
    for number, key in enumerate((ADA, everywhere, bob), 1):
        await converse(sqlite_store, key, number)
        inbox = tmp_path / "workspaces" / folder_name(key) / "files" / "inbox"
        inbox.mkdir(parents=True)
        (inbox / "photo.png").write_bytes(b"a picture")
    async with client_of(app_of(sqlite_store, bus, workspaces=tmp_path / "workspaces")) as admin:
        erased = (await admin.delete("/api/v1/users/telegram:1", headers=HEADERS)).json()
    assert erased["rows"]["workspaces"] == 2
    assert [home.name for home in (tmp_path / "workspaces").iterdir()] == [folder_name(bob)]


async def test_the_dead_letters_of_an_erased_user_go_with_him(admin: httpx.AsyncClient, bus: RedisBus) -> None:
    """They hold his words, and nothing else would ever take them away; those of others stay."""
    ben = SessionKey("telegram", "2")
    for number, key in enumerate((ADA, SessionKey("telegram", "1", ("-100",)), ben), 1):
        await make_dead_letter(bus, message(key, number, "poison"))
    erased = (await admin.delete("/api/v1/users/telegram:1")).json()
    assert erased["rows"] == {"dead_letters": 2}
    assert [letter.message and letter.message.key for letter in await bus.operator.dead_letters(10)] == [ben]


async def test_belongings_are_the_operators_business_only(admin: httpx.AsyncClient) -> None:
    for method, path in (("GET", "/api/v1/users/telegram:1/export"), ("DELETE", "/api/v1/users/telegram:1")):
        assert (await admin.request(method, path, headers={"Authorization": ""})).status_code == 401
    assert (await admin.delete("/api/v1/users/nonsense")).status_code == 422
