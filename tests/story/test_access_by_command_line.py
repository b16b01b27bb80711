"""`trivet pair` and `trivet access`, in this process, on a bus and a database that others use meanwhile."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gateway.bus.bus import RedisBus
from gateway.contracts.access import Audience, PlaceApproval, PlaceRule
from gateway.contracts.budgets import LimitRule
from gateway.contracts.ids import SessionKey
from gateway.contracts.sessions import GrantRole
from gateway.ops.cli.start import app
from gateway.store import Store
from tests.parts.keepers import pairing

ANN, BEN = SessionKey("telegram", "1"), SessionKey("discord", "2")
Trivet = Callable[..., Awaitable[str]]


@pytest.fixture
def trivet(
    valkey_url: str, sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sqlite_store: Store
) -> Trivet:
    """Says what a command says."""
    monkeypatch.chdir(tmp_path)
    for name, value in (("DATA_DIR", str(tmp_path)), ("REDIS__URL", valkey_url), ("DATABASE__URL", sqlite_url)):
        monkeypatch.setenv(f"TRIVET_{name}", value)

    async def run(*words: str) -> str:
        done = await asyncio.to_thread(CliRunner().invoke, app, list(words))
        is_told = done.exception is None or isinstance(done.exception, SystemExit)
        return done.stdout.strip() if is_told else str(done.exception)

    return run


async def test_strangers_are_listed_turned_down_and_let_in(trivet: Trivet, bus: RedisBus) -> None:
    assert await trivet("pair", "list") == "Nobody waits to be let in."
    for owner, code in ((ANN, "AAAAAAAA"), (BEN, "BBBBBBBB")):
        await bus.access.ask_pairing(pairing(owner, code), ttl_s=60, pending_max=3)
    assert "AAAAAAAA  telegram:1" in await trivet("pair", "list")
    assert await trivet("pair", "deny", "bbbbbbbb") == "discord:2 was turned down."
    assert [row["key"] for row in json.loads(await trivet("pair", "list", "--json"))] == ["telegram:1"]
    assert await trivet("pair", "approve", "AAAAAAAA", "guest") == "telegram:1 is guest now."
    assert (await bus.access.view(ANN)).granted == "guest"
    assert "no person waits" in await trivet("pair", "AAAAAAAA")
    assert "write `trivet pair CODE`" in await trivet("pair", "deny", "a", "b")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("pair", "AAAAAAAA", "boss"), "'boss' is no role to give; there are guest, member, admin, as in"),
        (("pair", "AAAAAAAA", "blocked"), "as in `trivet pair ABCD2345 admin`"),
        (("access", "grant", "telegram:1", "boss"), "as in `trivet access grant telegram:123456789 admin`"),
        (("access", "grant", "ann", "admin"), "not a session key: 'ann'; one reads telegram:123456789"),
        (("pair", "list", "admin"), "write `trivet pair CODE`, `trivet pair CODE admin`"),
        (("pair", "deny"), "write `trivet pair CODE`, `trivet pair CODE admin`"),
        (("pair", "AAAAAAAA", "admin", "now"), "write `trivet pair CODE`, `trivet pair CODE admin`"),
    ],
)
async def test_a_role_is_named_the_same_way_everywhere_and_what_is_none_is_told_with_an_example(
    trivet: Trivet, words: tuple[str, ...], said: str
) -> None:
    assert said in await trivet(*words)


async def test_people_are_granted_blocked_and_forgotten(trivet: Trivet, bus: RedisBus) -> None:
    for owner, code in ((ANN, "AAAAAAAA"), (BEN, "BBBBBBBB")):
        await bus.access.ask_pairing(pairing(owner, code), ttl_s=60, pending_max=3)
    assert await trivet("access", "grant", "telegram:1", "admin") == "telegram:1 is admin now."
    assert [each.owner for each in await bus.access.pairings()] == [BEN]
    assert "no person waits" in await trivet("pair", "AAAAAAAA")
    assert await trivet("access", "block", "discord:2", "sells watches") == "discord:2 is blocked now."
    assert (await bus.access.view(BEN)).granted == "blocked"
    listed = await trivet("access")
    assert "telegram:1" in listed
    assert "by cli: sells watches" in listed
    assert await trivet("access", "unblock", "discord:2") == "Nothing is decided about discord:2 any more."
    assert (await bus.access.view(BEN)).granted is None


async def test_places_are_changed_step_by_step(trivet: Trivet, bus: RedisBus) -> None:
    place = SessionKey("telegram", "", ("-100",))
    assert await trivet("access", "place", "telegram:-100") == "telegram:/-100: as configured"
    assert await trivet("access", "place", "telegram:-100", "--audience", "members", "--guests") == (
        "telegram:/-100: members, guests on"
    )
    told = await trivet("access", "place", "telegram:-100", "--tools", "recall, web_search", "--profile", "writer")
    assert told == "telegram:/-100: members, guests on, tools recall,web_search, profile writer"
    assert (await bus.access.view(ANN, (place,))).places == {place: PlaceRule(Audience.MEMBERS, lets_guests=True)}
    assert "roles 7,8" in await trivet("access", "place", "telegram:-100", "--roles", "7, 8")
    assert await trivet("access", "place", "telegram:-100", "--roles", "") == told + ", roles any"
    assert "profile must be one of" in await trivet("access", "place", "telegram:-100", "--profile", "king")
    assert await trivet("access", "place", "telegram:-100", "--reset") == "telegram:/-100: as configured"
    assert (await bus.access.view(ANN, (place,))).places == {}


async def test_what_was_approved_for_good_is_shown_and_taken_back(trivet: Trivet, sqlite_store: Store) -> None:
    place = SessionKey("telegram", "", ("-100",))
    for tool, digest in (("file_write", ""), ("shell", "0123456789abcdef")):
        approval = PlaceApproval(place, tool, GrantRole.GUEST, digest, "telegram:9", 1_790_000_000_000)
        await sqlite_store.access.put_place_approval(approval)
    shown = await trivet("access", "place", "telegram:-100")
    assert "file_write: approved for guest and above  2026-09-21 14:13Z  by telegram:9" in shown
    assert "one call of shell, 01234567: approved for guest and above" in shown
    assert "file_write" in await trivet("access")
    told = await trivet("access", "place", "telegram:-100", "--ask", "file_write")
    assert "file_write" not in told
    assert "shell" in told
    assert await trivet("access", "place", "telegram:-100", "--reset") == "telegram:/-100: as configured"
    assert await sqlite_store.access.place_approvals() == []


async def test_limits_are_changed_step_by_step(trivet: Trivet, bus: RedisBus) -> None:
    assert await trivet("access", "limits") == "Nothing was decided about limits: what the configuration says holds."
    assert await trivet("access", "limits", "telegram:1") == "telegram:1: as configured"
    assert await trivet("access", "limits", "telegram:1", "--tokens", "5000", "--usd", "2.50") == (
        "telegram:1: tokens 5000, usd 2.5"
    )
    assert await trivet("access", "limits", "telegram:1", "--usd", "default", "--rate", "none") == (
        "telegram:1: tokens 5000, rate none"
    )
    assert (await bus.access.view(ANN)).limits == {ANN: LimitRule(tokens=5000, per_minute=0)}
    await trivet("access", "limits", "guest", "--turns", "3")
    assert {line.split("  ")[0] for line in (await trivet("access", "limits")).splitlines()} == {"guest", "telegram:1"}
    assert "turns 3" in await trivet("access")
    assert "must be whole numbers" in await trivet("access", "limits", "guest", "--turns", "-3")
    assert "say whom it is for" in await trivet("access", "limits", "--turns", "3")
    assert "emperor" in await trivet("access", "limits", "emperor", "--turns", "3")
    assert await trivet("access", "limits", "telegram:1", "--reset") == "telegram:1: as configured"
    assert (await bus.access.view(ANN)).limits == {GrantRole.GUEST: LimitRule(turns=3)}


async def test_what_was_decided_is_one_document_for_programs(trivet: Trivet) -> None:
    await trivet("access", "grant", "telegram:1", "admin")
    await trivet("access", "place", "telegram:-100", "--guests")
    await trivet("access", "limits", "guest", "--turns", "3")
    found = json.loads(await trivet("access", "--json"))
    assert [(row["key"], row["role"]) for row in found["grants"]] == [("telegram:1", "admin")]
    assert [(row["place"], row["guests"]) for row in found["places"]] == [("telegram:/-100", True)]
    assert (len(found["limits"]), found["approvals"]) == (1, [])
    assert found == json.loads(await trivet("access", "list", "--json"))


async def test_the_state_of_a_running_trivet_is_told_to_people_and_programs(
    trivet: Trivet, bus: RedisBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIVET_CHANNELS__TELEGRAM__TOKEN", "1:x")
    await bus.access.ask_pairing(pairing(ANN, "AAAAAAAA"), ttl_s=60, pending_max=3)
    found = json.loads(await trivet("status", "--json"))
    assert (found["messages"], found["strangers"], found["agent_processes"]) == (0, 1, 0)
    assert found["reasons"] == ["telegram: no report from the channels role", "no agent process is alive"]
    said = await trivet("status")
    assert "1 wait to be let in: trivet pair list" in said
    assert "not ready    no agent process is alive" in said
    monkeypatch.setenv("TRIVET_REDIS__URL", "redis://127.0.0.1:1/0")
    assert "has to run" in await trivet("status")


async def test_every_trace_of_a_person_is_deleted_after_a_yes(trivet: Trivet, sqlite_store: Store) -> None:
    await trivet("access", "grant", "telegram:1", "member")
    done = await asyncio.to_thread(CliRunner().invoke, app, ["erase", "telegram:1"], input="n\n")
    assert (done.exit_code, len(await sqlite_store.access.grants())) == (1, 1)
    assert "grants" in await trivet("erase", "telegram:1/-100", "--yes")
    assert await sqlite_store.access.grants() == []
    assert await trivet("erase", "telegram:1", "--yes") == "Nothing was kept of telegram:1."
