"""What stands behind buttons, on both databases."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from gateway.contracts.ids import ReplyAddress, SessionKey
from gateway.contracts.messages import Button, Choice, CleanText, PressState, Reply, ReplyKind
from gateway.store import Store

KEY = SessionKey.parse("telegram:1")
ADDRESS = ReplyAddress("telegram", "1", '{"chat": 1}')
NOW_MS = 1_000_000


def reply(number: int = 1) -> Reply:
    """A reply that nobody asked for."""
    choices = (Choice(CleanText("Go"), CleanText("/press A")),)
    return Reply(f"r{number}", "", KEY, ADDRESS, CleanText("Well?"), ReplyKind.NOTICE, NOW_MS, choices=choices)


def button(token: str, *, group: str = "g", reply_id: str = "r1", expires_at_ms: int = NOW_MS + 1_000) -> Button:
    return Button(
        token=token,
        group=group,
        reply_id=reply_id,
        label=CleanText("Go"),
        command=CleanText("/resume 2"),
        meant_for=KEY,
        key=SessionKey.parse("telegram:1/-100"),
        address=ADDRESS,
        is_private=False,
        place=("-100",),
        realm="a server",
        expires_at_ms=expires_at_ms,
    )


async def test_a_button_is_found_as_it_was_made(store: Store) -> None:
    assert await store.buttons.offer(reply(), [button("A")])
    assert await store.buttons.find("A") == button("A")
    assert await store.buttons.find("B") is None
    assert await store.outbox.committed("r1") == reply()


async def test_a_reply_that_is_committed_twice_keeps_its_first_buttons(store: Store) -> None:
    """Two processes that had the same idea made two tokens: only those of one hang anywhere."""
    assert await store.buttons.offer(reply(), [button("A")])
    assert not await store.buttons.offer(reply(), [button("B")])
    assert await store.buttons.find("B") is None


async def test_one_press_counts_and_counts_again_when_it_comes_again(store: Store) -> None:
    await store.buttons.offer(reply(), [button("A")])
    for _ in range(2):
        redeemed = await store.buttons.redeem("A", press_id="p1", now_ms=NOW_MS)
        assert (redeemed.standing, redeemed.reply_ids) == (PressState.TAKEN, ("r1",))
    assert (await store.buttons.redeem("A", press_id="p2", now_ms=NOW_MS)).standing is PressState.USED


async def test_a_press_uses_up_the_whole_group_wherever_it_hangs(store: Store) -> None:
    await store.buttons.offer(reply(1), [button("A"), button("B")])
    await store.buttons.offer(reply(2), [button("C", reply_id="r2"), button("D", group="other", reply_id="r2")])
    redeemed = await store.buttons.redeem("B", press_id="p1", now_ms=NOW_MS)
    assert set(redeemed.reply_ids) == {"r1", "r2"}
    for used in ("A", "C"):
        assert (await store.buttons.redeem(used, press_id="p2", now_ms=NOW_MS)).standing is PressState.USED
    assert (await store.buttons.redeem("D", press_id="p3", now_ms=NOW_MS)).standing is PressState.TAKEN


async def test_of_many_presses_at_once_one_counts(store: Store) -> None:
    await store.buttons.offer(reply(), [button("A"), button("B")])
    presses = [store.buttons.redeem("AB"[number % 2], press_id=f"p{number}", now_ms=NOW_MS) for number in range(16)]
    standings = [redeemed.standing for redeemed in await asyncio.gather(*presses)]
    assert sorted(standings) == sorted([PressState.TAKEN, *[PressState.USED] * 15])


async def test_what_came_to_nothing_may_be_pressed_again(store: Store) -> None:
    await store.buttons.offer(reply(), [button("A"), button("B")])
    await store.buttons.redeem("A", press_id="p1", now_ms=NOW_MS)
    await store.buttons.give_back("A", press_id="another")
    assert (await store.buttons.redeem("B", press_id="p2", now_ms=NOW_MS)).standing is PressState.USED
    await store.buttons.give_back("A", press_id="p1")
    assert (await store.buttons.redeem("B", press_id="p2", now_ms=NOW_MS)).standing is PressState.TAKEN


async def test_an_expired_button_does_nothing_but_a_press_in_time_still_counts(store: Store) -> None:
    await store.buttons.offer(reply(), [button("A")])
    await store.buttons.redeem("A", press_id="p1", now_ms=NOW_MS)
    late_ms = NOW_MS + 1_000
    assert (await store.buttons.redeem("A", press_id="p1", now_ms=late_ms)).standing is PressState.TAKEN
    await store.buttons.offer(reply(2), [button("B", group="late")])
    assert (await store.buttons.redeem("B", press_id="p2", now_ms=late_ms)).standing is PressState.EXPIRED
    assert (await store.buttons.redeem("C", press_id="p3", now_ms=late_ms)).standing is PressState.GONE


async def test_long_expired_buttons_of_a_lane_go_when_it_gets_new_ones(store: Store) -> None:
    await store.buttons.offer(reply(1), [button("A")])
    later_ms = NOW_MS + 2 * 86_400_000
    later = replace(reply(2), created_at_ms=later_ms)
    await store.buttons.offer(later, [button("B", group="later", expires_at_ms=later_ms + 1_000)])
    assert await store.buttons.find("A") is None
    assert await store.buttons.find("B") is not None


async def test_what_is_said_with_a_button_has_one_id_that_tells_no_token(store: Store) -> None:
    token = "ABCDEFGHJKMNPQRSTVWXYZ23456"
    await store.buttons.offer(reply(), [button(token)])
    found = await store.buttons.find(token)
    assert found is not None
    assert token not in repr(replace(found, token="")), "no other column holds it"
