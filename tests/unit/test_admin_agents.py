"""Profiles and types of sub-agents in the operator's API: shown, changed, written down, and seen by every agent."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from agent.prompts.system import SkillLayers
from agent.subagents.catalog import Catalog
from gateway.bus.bus import RedisBus
from gateway.contracts.messages import literal_text
from gateway.contracts.profiles import PROFILE_ROWS, SUB_TYPE_ROWS, changed_rows
from gateway.contracts.subagents import SubTypeChange
from gateway.store import Store, open_store
from tests.parts.operator_api import CLOCK, SCRUBBER, app_of, client_of
from tests.parts.sub_types import CATALOG

CODE: Final = "/api/v1/agents/sub-types/code"


@pytest.fixture
async def admin(sqlite_store: Store, bus: RedisBus) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(app_of(sqlite_store, bus)) as client:
        yield client


async def row(admin: httpx.AsyncClient, path: str = CODE) -> Any:
    answer = await admin.get(path)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_only_the_operator_gets_in(admin: httpx.AsyncClient) -> None:
    for method, path in (
        *(("GET", f"/api/v1/agents/{path}") for path in ("profiles", "sub-types", "sub-types/code")),
        *(("PUT", CODE), ("DELETE", CODE), ("GET", "/api/v1/audit")),
    ):
        assert (await admin.request(method, path, headers={"Authorization": ""})).status_code == 401


async def test_skills_are_shown_with_what_became_of_them(sqlite_store: Store, bus: RedisBus, tmp_path: Path) -> None:
    """Ours, those of single people, the operator's, which win; a mistake is told with its line."""
    mine, annas = tmp_path / "workspace" / "skills", tmp_path / "users" / "telegram:1" / "skills"
    for folder, name in ((mine, "find-a-bug"), (annas, "sail"), (annas, "cook"), (mine, "cook")):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.md").write_text(f"---\nname: {name}\ndescription: to {name}\n---\nDo it.\n")
    (mine / "broken.md").write_text("no front matter")
    layers = SkillLayers(tmp_path, SCRUBBER)

    async def listed() -> str:
        return "\n".join(map(json.dumps, layers.listing()))

    async with client_of(app_of(sqlite_store, bus, skills=listed)) as admin:
        rows = (await admin.get("/api/v1/agents/skills")).json()
        page = (await admin.get("/skills")).text
    found = {(row["name"], row["source"], row["person"]): row["is_enabled"] for row in rows}
    assert found[("find-a-bug", "built in", "")] is False
    assert found[("find-a-bug", "the operator", "")] is True
    assert (found[("sail", "a person", "telegram:1")], found[("cook", "a person", "telegram:1")]) == (True, False)
    [broken] = [row for row in rows if row["name"] == "broken"]
    assert broken["mistake"].startswith("line 1: ")
    assert "to sail" in page
    assert broken["mistake"] in page


async def test_without_an_answer_of_the_agent_there_is_no_list(sqlite_store: Store, bus: RedisBus) -> None:
    async def silent() -> str:
        raise TimeoutError

    async with client_of(app_of(sqlite_store, bus, skills=silent)) as admin:
        assert (await admin.get("/api/v1/agents/skills")).status_code == 503


async def test_the_ten_profiles_are_shown(admin: httpx.AsyncClient) -> None:
    rows = (await admin.get("/api/v1/agents/profiles")).json()
    assert [row["name"] for row in rows] == list(PROFILE_ROWS)
    assert len(rows) == 10
    assert rows[0] == {"name": "assistant", "about": PROFILE_ROWS["assistant"].about, "tools": ["*"]}
    assert "sub_agent" in next(row for row in rows if row["name"] == "developer")["tools"]


async def test_the_thirteen_types_are_shown_as_they_come(admin: httpx.AsyncClient) -> None:
    rows = (await admin.get("/api/v1/agents/sub-types")).json()
    assert [row["name"] for row in rows] == list(CATALOG)
    assert rows[0] == {
        "name": "explore",
        "label": "Explorer",
        "description": SUB_TYPE_ROWS["explore"].description,
        "tools": ["file_read", "file_search", "file_list", "file_tree", "file_info"],
        "rounds_max": 6,
        "prompt": None,
        "changed": [],
    }
    assert rows[1]["tools"] == ["*"]
    assert await row(admin, "/api/v1/agents/sub-types/explore") == rows[0]


class TestPut:
    async def test_what_is_given_changes_and_the_rest_stays(self, admin: httpx.AsyncClient) -> None:
        before = await row(admin)
        answer = await admin.put(CODE, json={"rounds_max": 3})
        assert answer.status_code == 200
        assert answer.json() == {**before, "rounds_max": 3, "changed": ["rounds_max"]}
        await admin.put(CODE, json={"label": "Smith", "tools": ["file_read", "mcp_docs_search"]})
        assert await row(admin) == {
            **before,
            "label": "Smith",
            "tools": ["file_read", "mcp_docs_search"],
            "rounds_max": 3,
            "changed": ["label", "tools", "rounds_max"],
        }

    async def test_what_get_gave_can_be_sent_back_and_changes_nothing(self, admin: httpx.AsyncClient) -> None:
        await admin.put(CODE, json={"label": "Smith"})
        before = await row(admin)
        assert (await admin.put(CODE, json=before)).json() == before
        assert len((await admin.get("/api/v1/audit")).json()) == 1
        assert (await admin.put(CODE, json={**before, "rounds_max": 4})).json()["changed"] == ["label", "rounds_max"]

    async def test_null_takes_a_change_back(self, admin: httpx.AsyncClient) -> None:
        before = await row(admin)
        await admin.put(CODE, json={"rounds_max": 3, "prompt": "You forge."})
        assert (await admin.put(CODE, json={"rounds_max": None})).json() == {
            **before,
            "prompt": "You forge.",
            "changed": ["prompt"],
        }
        assert (await admin.put(CODE, json={"prompt": None})).json() == before

    async def test_no_tools_and_all_tools_are_two_things(self, admin: httpx.AsyncClient, sqlite_store: Store) -> None:
        types = Catalog(sqlite_store.sub_types, CLOCK, known_tools=lambda: ())
        assert (await admin.put(CODE, json={"tools": []})).json()["tools"] == []
        assert (await types.current())["code"].tools == ()
        assert (await admin.put(CODE, json={"tools": ["*"]})).json()["tools"] == ["*"]
        later = Catalog(sqlite_store.sub_types, CLOCK, known_tools=lambda: ())
        assert (await later.current())["code"].tools is None

    @pytest.mark.parametrize(
        ("order", "where", "problem"),
        [
            ({"rounds_max": -1}, "rounds_max", "must be a whole number from 1 to 50"),
            ({"rounds_max": 0}, "rounds_max", "must be a whole number from 1 to 50"),
            ({"rounds_max": 51}, "rounds_max", "must be a whole number from 1 to 50"),
            ({"rounds_max": "7"}, "rounds_max", "Input should be a valid integer"),
            ({"rounds_max": True}, "rounds_max", "Input should be a valid integer"),
            ({"rounds_max": 10**400}, "rounds_max", "must be a whole number from 1 to 50"),
            ({"prompt": " \n"}, "prompt", "must be a text of 1 to 16000 characters"),
            ({"prompt": "x" * 16_001}, "prompt", "must be a text of 1 to 16000 characters"),
            ({"prompt": "a\x00b"}, "prompt", "must be a text of 1 to 16000 characters"),
            ({"prompt": "\ud800"}, "prompt", "must be a text of 1 to 16000 characters"),
            ({"label": ""}, "label", "must be one line of 1 to 60 characters"),
            ({"label": "\ud800"}, "label", "must be one line of 1 to 60 characters"),
            ({"label": "two\nlines"}, "label", "must be one line of 1 to 60 characters"),
            ({"description": "x" * 501}, "description", "must be one line of 1 to 500 characters"),
            ({"tools": "shell"}, "tools", "Input should be a valid list"),
            ({"tools": ["rm -rf /"]}, "tools", "must be a list of at most 128 names of tools"),
            ({"tools": ["file_read", "file_raed"]}, "tools", "must be a list of at most 128 names of tools"),
            ({"tools": ["*", "shell"]}, "tools", "must be a list of at most 128 names of tools"),
            ({"tools": [1]}, "tools", "Input should be a valid string"),
            ({"round_max": 3}, "round_max", "Extra inputs are not permitted"),
        ],
        ids=str,
    )
    async def test_nonsense_is_refused_with_its_place_and_a_sentence(
        self, admin: httpx.AsyncClient, order: dict[str, Any], where: str, problem: str
    ) -> None:
        answer = await admin.put(CODE, content=json.dumps(order), headers={"Content-Type": "application/json"})
        assert answer.status_code == 422
        (told,) = answer.json()["detail"]
        assert where in told["where"]
        assert told["problem"].startswith(problem)
        assert (await row(admin))["changed"] == []
        assert (await admin.get("/api/v1/audit")).json() == []

    async def test_a_type_keeps_its_name_and_there_are_no_others(self, admin: httpx.AsyncClient) -> None:
        assert (await admin.put(CODE, json={"name": "coder"})).status_code == 422
        for method in ("GET", "PUT", "DELETE"):
            answer = await admin.request(method, "/api/v1/agents/sub-types/coder", json={})
            assert answer.status_code == 404
            assert "there are explore, general, plan, code" in answer.json()["detail"]

    async def test_a_secret_in_a_prompt_is_kept_nowhere(self, admin: httpx.AsyncClient) -> None:
        token = "ghp_" + "Ab3dE6gH9jK2mN5pQ8sT1vW4xY7zA0bC3dE6"
        answer = await admin.put(CODE, json={"prompt": f"Log in with {token}."})
        assert token not in answer.text
        assert "Log in with [redacted:" in answer.json()["prompt"]
        assert token not in (await admin.get("/api/v1/audit")).text

    async def test_of_many_at_once_each_field_is_kept(self, admin: httpx.AsyncClient) -> None:
        orders = ({"label": "Smith"}, {"rounds_max": 3}, {"description": "Forges."}, {"tools": ["shell"]})
        await asyncio.gather(*(admin.put(CODE, json=order) for order in orders))
        assert (await row(admin))["changed"] == ["label", "description", "tools", "rounds_max"]


class TestAudit:
    async def test_every_change_is_written_down_with_who_when_before_and_after(self, admin: httpx.AsyncClient) -> None:
        await admin.put(CODE, json={"rounds_max": 3})
        await admin.put("/api/v1/agents/sub-types/data", json={"label": "Numbers"})
        assert (await admin.delete(CODE)).json()["rounds_max"] == 10
        reset, change = (await admin.get("/api/v1/audit", params={"subject": "sub-type:code"})).json()
        assert (change["actor"], change["action"], change["subject"]) == ("admin", "sub-type.change", "sub-type:code")
        assert (change["before"]["rounds_max"], change["after"]["rounds_max"]) == (10, 3)
        assert {field for field in change["before"] if change["before"][field] != change["after"][field]} == {
            "rounds_max"
        }
        assert (reset["action"], reset["after"]) == ("sub-type.reset", change["before"])
        assert reset["at"] >= change["at"]
        everything = (await admin.get("/api/v1/audit")).json()
        assert [line["subject"] for line in everything] == ["sub-type:code", "sub-type:data", "sub-type:code"]
        assert (await admin.get("/api/v1/audit", params={"limit": 1})).json() == everything[:1]
        older = {"limit": 1, "below": everything[0]["number"]}
        assert (await admin.get("/api/v1/audit", params=older)).json() == everything[1:2]
        for refused in ({"limit": 0}, {"limit": 501}, {"subject": ""}, {"subject": "a\x00b"}, {"below": 2**63}):
            assert (await admin.get("/api/v1/audit", params=refused)).status_code == 422


async def test_a_change_is_above_the_configuration_and_goes_back_to_it(sqlite_store: Store, bus: RedisBus) -> None:
    configured = changed_rows(SUB_TYPE_ROWS, {"code": SubTypeChange(rounds_max=7, prompt=literal_text("You forge."))})
    async with client_of(app_of(sqlite_store, bus, sub_types=configured)) as admin:
        before = await row(admin)
        assert (before["rounds_max"], before["prompt"], before["changed"]) == (7, "You forge.", [])
        assert (await admin.put(CODE, json={"rounds_max": 10})).json()["changed"] == ["rounds_max"]
        assert (await admin.put(CODE, json={"rounds_max": 7})).json() == before
        await admin.put(CODE, json={"rounds_max": 2})
        assert (await admin.delete(CODE)).json() == before


_IN_ANOTHER_PROCESS: Final = """
import asyncio, json, sys
from agent.subagents.catalog import Catalog
from gateway.clock import SystemClock
from gateway.store import open_store

async def show():
    store = open_store(sys.argv[1])
    sub_type = (await Catalog(store.sub_types, SystemClock(), known_tools=lambda: ()).current())["code"]
    print(json.dumps([sub_type.label, sub_type.tools, sub_type.rounds_max, sub_type.prompt.partition(chr(10))[0]]))
    await store.close()

asyncio.run(show())
"""


async def test_a_change_survives_a_restart_and_reaches_an_agent_in_another_process(
    database_url: str, bus: RedisBus
) -> None:
    store = open_store(database_url)
    async with client_of(app_of(store, bus)) as admin:
        await admin.put(CODE, json={"label": "Smith", "tools": ["file_read"], "rounds_max": 3, "prompt": "You forge."})
        before = await row(admin)
    await store.close()
    again = open_store(database_url)
    async with client_of(app_of(again, bus)) as admin:
        assert await row(admin) == before
    await again.close()
    command = [sys.executable, "-c", _IN_ANOTHER_PROCESS, database_url]
    done = await asyncio.to_thread(
        subprocess.run, command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True, timeout=60
    )
    assert json.loads(done.stdout.splitlines()[-1]) == ["Smith", ["file_read"], 3, "You forge."]
