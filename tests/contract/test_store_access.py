"""What operators decided about people and places, and the audit of it, on SQLite and PostgreSQL."""

from __future__ import annotations

import asyncio
import json
from functools import partial

import pytest

from gateway.contracts.access import Audience, PlaceApproval, PlaceRule, Projection
from gateway.contracts.budgets import BadLimit, LimitChange, LimitRule, rule_changed
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText
from gateway.contracts.sessions import Grant, GrantRole
from gateway.store import Store

ANN, BEN = SessionKey("telegram", "1"), SessionKey("telegram", "2")
GUILD, CHANNEL = SessionKey("discord", "", ("10",)), SessionKey("discord", "", ("20",))
RULE = PlaceRule(Audience.MEMBERS, lets_guests=False, tools=("recall", "web_search"), profile="writer", roles=("7",))


def grant(role: GrantRole, *, at_ms: int = 1, reason: str = "") -> Grant:
    return Grant(ANN, role, "telegram:9", at_ms, CleanText(reason))


async def lines(store: Store) -> list[tuple[str, str, str, object, object]]:
    """The audit, oldest first."""
    found = reversed(await store.sub_types.audit(limit=99))
    return [(line.actor, line.action, line.subject, json.loads(line.before), json.loads(line.after)) for line in found]


async def test_every_change_of_a_person_is_written_down(store: Store) -> None:
    assert await store.access.put_grant(grant(GrantRole.MEMBER))
    assert await store.access.put_grant(grant(GrantRole.BLOCKED, reason="spam"))
    assert await store.access.drop_grant(ANN, actor="cli", now_ms=3)
    await store.access.note_denial(BEN, actor="admin", now_ms=4)
    member, blocked = {"role": "member", "reason": ""}, {"role": "blocked", "reason": "spam"}
    assert await lines(store) == [
        ("telegram:9", "access.grant", "user:telegram:1", None, member),
        ("telegram:9", "access.grant", "user:telegram:1", member, blocked),
        ("cli", "access.revoke", "user:telegram:1", blocked, None),
        ("admin", "access.deny", "user:telegram:2", None, None),
    ]
    assert await store.access.grants() == []


async def test_what_changes_nothing_is_not_written_down(store: Store) -> None:
    """A turn that is run again decides the same once more."""
    await store.access.put_grant(grant(GrantRole.MEMBER))
    assert not await store.access.put_grant(grant(GrantRole.MEMBER, at_ms=2))
    assert not await store.access.drop_grant(BEN, actor="cli", now_ms=3)
    assert not await store.access.put_place_rule(GUILD, PlaceRule(), actor="cli", now_ms=3)
    assert len(await lines(store)) == 1


async def test_a_rule_of_a_place_is_replaced_whole_and_taken_back(store: Store) -> None:
    assert await store.access.put_place_rule(GUILD, RULE, actor="cli", now_ms=1)
    assert await store.access.put_place_rule(CHANNEL, PlaceRule(tools=()), actor="cli", now_ms=2)
    assert await store.access.place_rules() == {GUILD: RULE, CHANNEL: PlaceRule(tools=())}
    assert await store.access.put_place_rule(GUILD, PlaceRule(lets_guests=True), actor="cli", now_ms=3)
    assert await store.access.put_place_rule(CHANNEL, PlaceRule(), actor="cli", now_ms=4)
    assert await store.access.place_rules() == {GUILD: PlaceRule(lets_guests=True)}
    said = {
        "audience": "members",
        "lets_guests": False,
        "tools": '["recall", "web_search"]',
        "profile": "writer",
        "roles": '["7"]',
    }
    assert (await lines(store))[2] == ("cli", "access.place", "place:discord:/10", said, {"lets_guests": True})


def become(rule: LimitRule) -> LimitChange:
    """Whatever was decided before."""
    return lambda before: rule


async def test_limits_that_two_admins_change_at_once_are_both_changed(store: Store) -> None:
    changes = (partial(rule_changed, words=(name, "7")) for name in ("tokens", "usd", "turns", "rate"))
    await asyncio.gather(*(store.access.change_limit_rule(ANN, change, actor="cli", now_ms=1) for change in changes))
    assert await store.access.limit_rules() == {ANN: LimitRule(7, 7_000_000_000, 7, 7)}


async def test_a_limit_that_cannot_be_changes_nothing(store: Store) -> None:
    await store.access.change_limit_rule(ANN, become(LimitRule(7)), actor="cli", now_ms=1)
    before = await store.access.revision()
    with pytest.raises(BadLimit):
        await store.access.change_limit_rule(ANN, partial(rule_changed, words=("turns", "-1")), actor="cli", now_ms=1)
    assert await store.access.limit_rules() == {ANN: LimitRule(7)}
    assert await store.access.revision() == before


async def test_limits_are_replaced_whole_taken_back_and_written_down(store: Store) -> None:
    assert await store.access.change_limit_rule(
        ANN, become(LimitRule(10**15, per_minute=3)), actor="telegram:9", now_ms=1
    )
    assert await store.access.change_limit_rule(GrantRole.GUEST, become(LimitRule(nano_usd=0)), actor="cli", now_ms=2)
    assert await store.access.limit_rules() == {
        GrantRole.GUEST: LimitRule(nano_usd=0),
        ANN: LimitRule(10**15, None, None, 3),
    }
    assert not await store.access.change_limit_rule(
        GrantRole.GUEST, become(LimitRule(nano_usd=0)), actor="cli", now_ms=3
    )
    assert await store.access.change_limit_rule(ANN, become(LimitRule(turns=7)), actor="admin", now_ms=4)
    assert await store.access.change_limit_rule(GrantRole.GUEST, become(LimitRule()), actor="admin", now_ms=5)
    assert (await store.access.projection()).limits == {ANN: LimitRule(turns=7)}
    first = {"tokens": 10**15, "per_minute": 3}
    assert await lines(store) == [
        ("telegram:9", "access.limits", "user:telegram:1", None, first),
        ("cli", "access.limits", "role:guest", None, {"nano_usd": 0}),
        ("admin", "access.limits", "user:telegram:1", first, {"turns": 7}),
        ("admin", "access.limits", "role:guest", {"nano_usd": 0}, None),
    ]


async def test_the_limits_of_an_erased_person_are_gone_and_those_of_roles_stay(store: Store) -> None:
    await store.access.change_limit_rule(ANN, become(LimitRule(turns=7)), actor="cli", now_ms=1)
    await store.access.change_limit_rule(GrantRole.GUEST, become(LimitRule(turns=7)), actor="cli", now_ms=1)
    before = await store.access.revision()
    await store.people.erase(ANN)
    assert await store.access.revision() > before
    assert await store.access.limit_rules() == {GrantRole.GUEST: LimitRule(turns=7)}


async def approved(store: Store, place: SessionKey, tool: str, role: GrantRole, digest: str = "") -> bool:
    return await store.access.is_approved(PlaceApproval(place, tool, role, digest))


async def test_what_was_approved_in_a_place_holds_there_for_that_role_and_above(store: Store) -> None:
    given = PlaceApproval(CHANNEL, "file_write", GrantRole.MEMBER, "", "telegram:9", 5)
    assert await store.access.put_place_approval(given)
    assert not await store.access.put_place_approval(given)
    assert await store.access.place_approvals() == [given]
    assert await approved(store, CHANNEL, "file_write", GrantRole.MEMBER)
    assert await approved(store, CHANNEL, "file_write", GrantRole.ADMIN)
    assert not await approved(store, CHANNEL, "file_write", GrantRole.GUEST)
    assert not await approved(store, CHANNEL, "file_edit", GrantRole.ADMIN)
    assert not await approved(store, GUILD, "file_write", GrantRole.ADMIN)
    assert not await approved(store, CHANNEL, "file_write", GrantRole.ADMIN, "d1")
    assert await store.access.drop_place_approvals(CHANNEL, "file_write", actor="cli", now_ms=6)
    assert not await store.access.drop_place_approvals(CHANNEL, "file_write", actor="cli", now_ms=7)
    assert not await approved(store, CHANNEL, "file_write", GrantRole.ADMIN)
    said = {"approved": "file_write", "role": "member", "digest": ""}
    assert await lines(store) == [
        ("telegram:9", "access.place", "place:discord:/20", None, said),
        ("cli", "access.place", "place:discord:/20", said, None),
    ]


async def test_one_call_that_was_approved_is_no_other(store: Store) -> None:
    given = PlaceApproval(CHANNEL, "shell", GrantRole.GUEST, "d1", "telegram:9", 5)
    await store.access.put_place_approval(given)
    assert await approved(store, CHANNEL, "shell", GrantRole.GUEST, "d1")
    assert not await approved(store, CHANNEL, "shell", GrantRole.GUEST, "d2")
    assert not await approved(store, CHANNEL, "shell", GrantRole.GUEST)


async def test_a_place_that_is_as_configured_again_asks_about_everything(store: Store) -> None:
    for place in (CHANNEL, GUILD):
        for tool in ("file_write", "file_edit"):
            await store.access.put_place_approval(PlaceApproval(place, tool, GrantRole.GUEST, "", "telegram:9", 5))
    assert await store.access.put_place_rule(CHANNEL, PlaceRule(), actor="cli", now_ms=6)
    assert {each.place for each in await store.access.place_approvals()} == {GUILD}
    assert not await store.access.put_place_rule(CHANNEL, PlaceRule(), actor="cli", now_ms=7)
    assert await store.access.put_place_rule(GUILD, RULE, actor="cli", now_ms=8)
    assert len(await store.access.place_approvals()) == 2


async def test_an_erased_person_s_own_place_is_gone_with_what_was_approved_there(store: Store) -> None:
    own, his = SessionKey("telegram", "", ("1",)), SessionKey("telegram", "", ("2",))
    for place in (own, his):
        await store.access.put_place_approval(PlaceApproval(place, "file_write", GrantRole.GUEST, "", str(ANN), 5))
    assert json.loads(await store.people.export(ANN, clean=CleanText))["place_approvals"][0]["place"] == str(own)
    await store.people.erase(ANN)
    assert await store.access.place_approvals() == [PlaceApproval(his, "file_write", GrantRole.GUEST, "", "erased", 5)]
    assert {subject for _, _, subject, _, _ in await lines(store)} == {"erased", "place:telegram:/2"}


async def test_every_change_has_a_higher_revision(store: Store) -> None:
    seen = [await store.access.revision()]
    await store.access.put_grant(grant(GrantRole.MEMBER))
    seen.append(await store.access.revision())
    await store.access.put_place_rule(GUILD, RULE, actor="cli", now_ms=1)
    seen.append(await store.access.revision())
    await store.access.drop_grant(ANN, actor="cli", now_ms=3)
    seen.append(await store.access.revision())
    await store.people.erase(BEN)
    assert seen == [0, 1, 2, 3]
    assert await store.access.projection() == Projection(3, [], {GUILD: RULE})


async def test_an_erased_person_is_gone_from_the_audit_and_from_the_projection(store: Store) -> None:
    await store.access.put_grant(grant(GrantRole.BLOCKED, reason="knows too much"))
    before = await store.access.revision()
    await store.people.erase(ANN)
    assert await store.access.revision() > before
    [(actor, _, subject, _, after)] = await lines(store)
    assert (actor, subject, after) == ("telegram:9", "erased", None)


async def test_changes_at_once_are_all_counted_and_follow_each_other(store: Store) -> None:
    roles = [GrantRole.GUEST, GrantRole.MEMBER, GrantRole.ADMIN] * 4
    await asyncio.gather(*(store.access.put_grant(grant(role, reason=str(n))) for n, role in enumerate(roles)))
    assert await store.access.revision() == len(roles)
    told = await lines(store)
    assert [line[3] for line in told[1:]] == [line[4] for line in told[:-1]]


async def test_the_server_of_a_chat_is_remembered(store: Store) -> None:
    assert await store.access.realm_of(CHANNEL) == ""
    await store.access.note_realm(CHANNEL, "10")
    await store.access.note_realm(CHANNEL, "11")
    assert await store.access.realm_of(CHANNEL) == "11"
