"""Sealed secrets on the bus: until they expire or are used up, for one tool, for one lane."""

from __future__ import annotations

import asyncio
import time

from redis import Redis

from gateway.bus.bus import RedisBus
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import SealedSecret, SecretName
from gateway.limits import VAULT_SECRETS_MAX

ANNA, HERS_TOO = SessionKey.parse("telegram:1"), SessionKey.parse("telegram:1/-100")
BORIS = SessionKey.parse("telegram:2")
LATER_S = 60.0


def secret(
    number: int = 1, key: SessionKey = ANNA, *, in_s: float = LATER_S, sent_by: SessionKey = ANNA
) -> SealedSecret:
    name = SecretName(key, sent_by, f"[redacted:github#{number:06x}]")
    return SealedSecret(name, int((time.time() + in_s) * 1000), bytes([0, 255, number, 124, 10]) * 9)


async def test_it_is_found_under_its_own_name_until_its_uses_are_over(bus: RedisBus) -> None:
    kept = secret()
    await bus.vault.put([kept], uses=2)
    assert await bus.vault.take([kept.name], tool="shell") == [kept]
    assert await bus.vault.take([kept.name], tool="shell") == [kept]
    assert await bus.vault.take([kept.name], tool="shell") is None


async def test_another_lane_person_or_placeholder_finds_nothing_and_uses_nothing_up(bus: RedisBus) -> None:
    kept = secret()
    await bus.vault.put([kept], uses=1)
    for other in (
        SecretName(HERS_TOO, ANNA, kept.name.placeholder),
        SecretName(BORIS, BORIS, kept.name.placeholder),
        SecretName(ANNA, BORIS, kept.name.placeholder),
        SecretName(ANNA, ANNA, "[redacted:github#ffffff]"),
    ):
        assert await bus.vault.take([other], tool="shell") is None
    assert await bus.vault.take([kept.name], tool="shell") == [kept]


async def test_the_first_tool_that_takes_it_is_the_only_one_that_may(bus: RedisBus) -> None:
    kept = secret()
    await bus.vault.put([kept], uses=9)
    assert await bus.vault.take([kept.name], tool="web_fetch") == [kept]
    assert await bus.vault.take([kept.name], tool="shell") is None
    assert await bus.vault.take([kept.name], tool="web_fetch") == [kept]


async def test_eight_at_a_time_get_as_many_uses_as_there_are(bus: RedisBus) -> None:
    kept = secret()
    await bus.vault.put([kept], uses=5)
    found = await asyncio.gather(*(bus.vault.take([kept.name], tool="shell") for _ in range(8)))
    assert sorted(each is not None for each in found) == [False] * 3 + [True] * 5


async def test_of_several_all_are_taken_or_none(bus: RedisBus) -> None:
    first, second = secret(1), secret(2)
    await bus.vault.put([first, second], uses=1)
    assert await bus.vault.take([first.name, secret(3).name], tool="shell") is None
    assert await bus.vault.take([first.name, second.name], tool="shell") == [first, second]


async def test_what_has_expired_is_not_given_although_it_is_still_there(bus: RedisBus) -> None:
    late, fresh = secret(1, in_s=0.05), secret(2)
    await bus.vault.put([late, fresh], uses=1)
    while time.time() * 1000 <= late.expires_at_ms:  # noqa: ASYNC110 - the clock moves by itself
        await asyncio.sleep(0.01)
    assert await bus.vault.take([late.name], tool="shell") is None
    assert await bus.vault.take([fresh.name], tool="shell") == [fresh]


async def test_all_of_it_is_forgotten_with_the_last_that_expires(bus: RedisBus, raw_redis: Redis) -> None:
    await bus.vault.put([secret(1, in_s=0.05), secret(2, in_s=0.15)], uses=1)
    while raw_redis.keys("*vault*"):  # noqa: ASYNC110 - forgetting is silent
        await asyncio.sleep(0.02)


async def test_what_is_sent_again_begins_anew(bus: RedisBus) -> None:
    await bus.vault.put([secret(in_s=5)], uses=1)
    await bus.vault.take([secret().name], tool="shell")
    again = secret()
    await bus.vault.put([again], uses=1)
    assert await bus.vault.take([again.name], tool="web_fetch") == [again]


async def test_a_lane_is_forgotten_and_the_others_of_its_owner_are_not(bus: RedisBus) -> None:
    here, there = secret(1, ANNA), secret(2, HERS_TOO)
    await bus.vault.put([here], uses=1)
    await bus.vault.put([there], uses=1)
    await bus.vault.drop(ANNA)
    assert await bus.vault.take([here.name], tool="shell") is None
    assert await bus.vault.take([there.name], tool="shell") == [there]


async def test_an_owner_is_forgotten_with_all_lanes(bus: RedisBus) -> None:
    others = secret(3, BORIS, sent_by=BORIS)
    for kept in (secret(1, ANNA), secret(2, HERS_TOO), others):
        await bus.vault.put([kept], uses=1)
    await bus.vault.drop_all(ANNA)
    assert await bus.vault.take([secret(1, ANNA).name], tool="shell") is None
    assert await bus.vault.take([secret(2, HERS_TOO).name], tool="shell") is None
    assert await bus.vault.take([others.name], tool="shell") == [others]


async def test_one_owner_has_no_more_than_the_bound(bus: RedisBus) -> None:
    many = [secret(number, in_s=LATER_S + number) for number in range(VAULT_SECRETS_MAX + 3)]
    await bus.vault.put(many, uses=1)
    there = [await bus.vault.take([kept.name], tool="shell") is not None for kept in many]
    assert there == [False] * 3 + [True] * VAULT_SECRETS_MAX
