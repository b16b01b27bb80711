"""The one-time code of `trivet up`: who sends it first is admin, and nobody else ever is by it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from pydantic import SecretStr

from gateway.bus.bus import RedisBus
from gateway.clock import SystemClock
from gateway.config.access import AccessSettings
from gateway.contracts.access import OwnerCode, StrangerRule
from gateway.contracts.ids import SessionKey
from gateway.contracts.sessions import Grant, GrantRole
from gateway.store import Store
from tests.parts.keepers import keeper_of
from tests.story.test_letting_people_in import ADMIN, ANN, BEN, BOSS, GROUP, Street, a_street

CODE = "ABCD-EFGH-JKLM"
TO_ANN = SessionKey("telegram", ANN)
OWNER = "You are my admin now"
NOBODY = "I do not know you yet"


def with_code(*, lasts_ms: int = 60_000, default: StrangerRule = StrangerRule.PAIRING) -> AccessSettings:
    code = OwnerCode.of(CODE, SystemClock().now_ms() + lasts_ms)
    return AccessSettings(owner_code=SecretStr(str(code)), default=default)


@asynccontextmanager
async def street_of(bus: RedisBus, store: Store, folder: Path, access: AccessSettings) -> AsyncIterator[Street]:
    async with a_street(bus, store, folder, access) as street:
        yield street


@pytest.mark.parametrize("said", [CODE, CODE.lower(), f"`{CODE}`", "ABCDEFGHJKLM", f"/start {CODE}", f"  {CODE}\n"])
@pytest.mark.parametrize("rule", StrangerRule)
async def test_who_sends_it_first_is_admin(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path, said: str, rule: StrangerRule
) -> None:
    async with street_of(bus, sqlite_store, tmp_path, with_code(default=rule)) as street:
        await street.ask(ANN, "hello")
        assert OWNER in await street.ask(ANN, said)
        assert "Nobody waits" in await street.ask(ANN, "/pair list")
        [line] = await sqlite_store.sub_types.audit(limit=9)
        assert (line.action, line.subject) == ("access.grant", "user:telegram:1")
        assert line.actor.startswith("owner-code:")


async def test_it_is_used_up_by_the_first_also_when_that_one_is_admin_no_more(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> None:
    async with street_of(bus, sqlite_store, tmp_path, with_code()) as street:
        await street.ask(ANN, CODE)
        assert "used up or too old" in await street.ask(BEN, CODE)
        assert OWNER in await street.ask(ANN, CODE), "who asks twice is told the same"
        await keeper_of(sqlite_store, bus).revoke(TO_ANN, actor="cli")
        assert "used up or too old" in await street.ask(BEN, CODE)
        assert "used up or too old" in await street.ask(ANN, CODE)
        assert await sqlite_store.access.grants() == []


async def test_nobody_becomes_admin_by_it_where_somebody_is(bus: RedisBus, sqlite_store: Store, tmp_path: Path) -> None:
    await sqlite_store.access.put_grant(Grant(SessionKey("discord", "9"), GrantRole.ADMIN, "cli", 1))
    async with street_of(bus, sqlite_store, tmp_path, with_code()) as street:
        assert "used up or too old" in await street.ask(ANN, CODE)


async def test_nor_where_the_configuration_names_one(bus: RedisBus, sqlite_store: Store, tmp_path: Path) -> None:
    access = with_code().model_copy(update={"admins": (ADMIN,)})
    async with street_of(bus, sqlite_store, tmp_path, access) as street:
        assert "used up or too old" in await street.ask(ANN, CODE)
        assert "Nobody waits" in await street.ask(BOSS, "/pair list")


@pytest.mark.parametrize("said", ["ABCD-EFGH-JKLN", "ABCD-EFGH", "/start ABCD", "/new ABCD-EFGH-JKLM", f"it is {CODE}"])
async def test_what_is_not_the_code_is_said_by_a_stranger(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path, said: str
) -> None:
    async with street_of(bus, sqlite_store, tmp_path, with_code()) as street:
        assert NOBODY in await street.ask(ANN, said)
        assert await sqlite_store.access.grants() == []


async def test_it_is_worth_nothing_too_late_in_a_group_or_from_the_blocked(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> None:
    async with street_of(bus, sqlite_store, tmp_path, with_code()) as street:
        assert NOBODY in await street.ask(ANN, CODE, group=GROUP)
        await keeper_of(sqlite_store, bus).grant(TO_ANN, GrantRole.BLOCKED, actor="cli")
        await street.say(ANN, CODE)
        assert OWNER in await street.ask(BEN, CODE)
    async with street_of(bus, sqlite_store, tmp_path, with_code(lasts_ms=-1)) as street:
        await street.say(ANN, CODE)
        assert [grant.role for grant in await sqlite_store.access.grants()] == [GrantRole.BLOCKED, GrantRole.ADMIN]


async def test_the_code_itself_goes_no_further_than_the_channel(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> None:
    async with street_of(bus, sqlite_store, tmp_path, with_code()) as street:
        await street.ask(ANN, CODE)
        assert not any("ABCD" in reply.text for reply in street.agent.replies)
        assert street.mind.asked == []
    with pytest.raises(ValueError, match="no digest"):
        OwnerCode.parse(CODE)
