"""What is known about accounts and places, by all processes of the channels role."""

from __future__ import annotations

from typing import Any

from gateway.bus.bus import RedisBus
from gateway.contracts.messages import Preview
from gateway.contracts.ports import SentMessages
from gateway.limits import DEAD_PLACE_TTL_S, NAMER_TTL_S, REFUSALS_WINDOW_S, SENT_IDS_MAX, SENT_IDS_TTL_S, UNSURE_TTL_S
from tests.parts.bus_samples import address, reply

ACCOUNT = "telegram:7"
PLACE = "telegram:7:-100"


async def test_a_place_that_refused_us_is_dead_for_a_while(bus: RedisBus, raw_redis: Any) -> None:
    await bus.places.mark_dead(ACCOUNT, PLACE, reason="blocked")
    assert 0 < raw_redis.ttl(f"{{q0}}:dead:{PLACE}") <= DEAD_PLACE_TTL_S
    await bus.places.mark_alive(PLACE)
    assert raw_redis.exists(f"{{q0}}:dead:{PLACE}") == 0


async def test_the_refusals_of_an_account_are_counted_over_a_window(bus: RedisBus, raw_redis: Any) -> None:
    """It never grows longer: the window begins with its first refusal."""
    assert [await bus.places.mark_dead(ACCOUNT, f"{PLACE}{number}", reason="no") for number in range(3)] == [1, 2, 3]
    assert await bus.places.mark_dead("telegram:8", PLACE, reason="no") == 1
    assert 0 < raw_redis.ttl(f"{{q0}}:ref:{ACCOUNT}") <= REFUSALS_WINDOW_S


async def test_a_doubt_passes(bus: RedisBus, raw_redis: Any) -> None:
    await bus.places.mark_unsure(ACCOUNT)
    assert 0 < raw_redis.ttl(f"{{q0}}:doubt:{ACCOUNT}") <= UNSURE_TTL_S


async def test_the_newest_messages_of_ours_in_a_place_are_remembered(bus: RedisBus, raw_redis: Any) -> None:
    assert await bus.places.sent_lately(PLACE) == frozenset()
    preview = Preview(address(), reply(1).key, reply(1).turn_id, reply(1).id)
    for number in range(SENT_IDS_MAX + 5):
        await bus.deliveries.note_preview("telegram", preview, sent=SentMessages(PLACE, (f"{number:04}",)))
    known = await bus.places.sent_lately(PLACE)
    assert (len(known), max(known)) == (SENT_IDS_MAX, f"{SENT_IDS_MAX + 4:04}")
    assert 0 < raw_redis.ttl(f"{{q0}}:sent:{PLACE}") <= SENT_IDS_TTL_S


async def test_a_chat_that_moved_is_found_by_every_id_it_had(bus: RedisBus) -> None:
    """Said twice, as Telegram says it, or again by a late process: the same."""
    for old, new in (("-1", "-1001"), ("-1", "-1001"), ("-1001", "-1002"), ("-1", "-1001")):
        await bus.places.note_move("telegram", old, new)
    assert await bus.places.first_ids("telegram", ["-1", "-1001", "-1002", "-9"]) == ["-1", "-1", "-1", "-9"]
    assert await bus.places.newest_ids("telegram", ["-1", "-1001", "-1002", "-9"]) == ["-1002", "-1002", "-1002", "-9"]
    assert await bus.places.newest_ids("discord", ["-1"]) == ["-1"]
    assert await bus.places.newest_ids("telegram", []) == []
    assert await bus.places.moved("telegram") == {"-1001": "-1", "-1002": "-1"}
    assert await bus.places.moved("slack") == {}


async def test_a_chat_that_moves_back_is_no_loop(bus: RedisBus) -> None:
    """No platform does that; whoever says so is not believed."""
    await bus.places.note_move("telegram", "-1", "-2")
    await bus.places.note_move("telegram", "-2", "-1")
    assert await bus.places.newest_ids("telegram", ["-1", "-2"]) == ["-2", "-2"]
    assert await bus.places.first_ids("telegram", ["-1", "-2"]) == ["-1", "-1"]


async def test_ambiguous_sends_are_counted_by_channel(bus: RedisBus) -> None:
    for channel in ("telegram", "slack", "telegram"):
        await bus.places.count_ambiguous(channel)
    assert (await bus.operator.figures()).ambiguous_sends == {"telegram": 2, "slack": 1}


async def test_a_link_is_kept_for_as_long_as_it_is_good(bus: RedisBus, raw_redis: Any) -> None:
    await bus.places.keep_link("slack:T1:1.2", "https://hooks.example/1", ttl_s=30)
    assert await bus.places.link("slack:T1:1.2") == "https://hooks.example/1"
    assert await bus.places.link("slack:T2:1.2") == ""
    assert 0 < raw_redis.ttl("{q0}:link:slack:T1:1.2") <= 30


async def test_a_place_bears_the_title_of_the_conversation_that_began_it(bus: RedisBus, raw_redis: Any) -> None:
    """And of no other, for as long as that one gives it names; whose it is stands nowhere."""
    ann, ben = "discord:1/5/6", "discord:2/5/6"
    assert not await bus.places.may_name(PLACE, conversation=ann, is_first=False)
    assert await bus.places.may_name(PLACE, conversation=ann, is_first=True)
    assert not await bus.places.may_name(PLACE, conversation=ben, is_first=True)
    assert await bus.places.may_name(PLACE, conversation=ann, is_first=False)
    key = f"{{q0}}:namer:{PLACE}"
    assert 0 < raw_redis.ttl(key) <= NAMER_TTL_S
    assert ann.encode() not in raw_redis.get(key)
