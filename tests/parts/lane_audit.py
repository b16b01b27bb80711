"""Whether the keys of the lanes agree with each other: a key that no lane or worker explains is a leak."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from gateway.bus.keys import HANDLE_SEPARATOR, Lifetime, kind_of

_TOKEN: Final = "wake"  # one token may lie there while nobody waits


def unaccounted_keys(client: Any) -> list[str]:
    """Every key in the server that breaks what `gateway.bus.keys.DECLARED` promises of it."""
    leaks: list[str] = []
    keys = [raw.decode() for raw in client.scan_iter(count=1000)]
    asking = client.pipeline(transaction=False)
    for key in keys:
        asking.pttl(key).type(key)
    answers = iter(asking.execute())
    for key, kept_for_ms, actual in zip(keys, answers, answers, strict=True):
        kind = kind_of(key)
        if kind is None:
            leaks.append(f"{key} (undeclared)")
            continue
        if kept_for_ms == -2 or actual == b"none":  # expired since the scan
            continue
        if actual.decode() != kind.type:
            leaks.append(f"{key} (a {actual.decode()}, declared a {kind.type})")
        if (kept_for_ms >= 0) != (kind.lifetime is Lifetime.EXPIRES):
            leaks.append(f"{key} (ttl {kept_for_ms} ms, declared {kind.lifetime.value})")
    return leaks


def draining_keys(client: Any) -> list[str]:
    """What an idle bus must not hold: keys that end with their last element."""
    keys = [raw.decode() for raw in client.scan_iter(count=1000)]
    kinds = [(key, kind_of(key)) for key in keys]
    return [key for key, kind in kinds if kind and kind.lifetime is Lifetime.DRAINS and kind.name != _TOKEN]


def contradictions(client: Any) -> list[str]:
    """Where the keys of the lanes say different things, shard by shard; nothing in a bus that leaks nothing."""
    keys = [raw.decode() for raw in client.scan_iter(count=1000)]
    shards = {key.partition(":")[0] for key in keys}
    return [f"{shard}: {found}" for shard in sorted(shards) for found in _Shard(client, shard, keys).contradictions()]


class _Shard:
    """One shard, read once."""

    def __init__(self, client: Any, shard: str, keys: Sequence[str]) -> None:
        self._client = client
        self._keys = keys
        self._prefix = f"{shard}:"
        self._ready = [raw.decode() for raw in client.lrange(f"{shard}:ready", 0, -1)]
        self._delayed = [raw.decode() for raw in client.zrange(f"{shard}:delay", 0, -1)]
        self._owned = self._hash("own")
        self._places = {owner: int(count) for owner, count in self._hash("ucnt").items()}
        self._workers = {raw.decode() for raw in client.zrange(f"{shard}:wk", 0, -1)}
        self._parked = self._family("park:", lambda key: [raw.decode() for raw in client.lrange(key, 0, -1)])
        self._held = self._family("wl:", lambda key: [raw.decode() for raw in client.zrange(key, 0, -1)])
        self._lengths = self._family("mb:", client.llen)

    def contradictions(self) -> list[str]:
        listed = [*self._ready, *self._delayed, *(handle for park in self._parked.values() for handle in park)]
        states = Counter([*map(_lane, listed), *self._owned])
        places = Counter(
            [*map(_owner, self._ready), *(_owner(handle) for held in self._held.values() for handle in held)]
        )
        claimed = {_lane(handle): worker for worker, held in self._held.items() for handle in held}
        cancels = set(self._family("ctl:", str))
        checks = {
            "lanes listed once, those with messages and no others": states == Counter(dict.fromkeys(self._lengths, 1)),
            "places counted as they are taken": self._places == dict(places),
            "lanes parked only behind others of their user": all(self._places.get(owner) for owner in self._parked),
            "owners as the workers' own lists say": claimed
            == {lane: row.split("|")[0] for lane, row in self._owned.items()},
            "workers that own something or hear a cancel are known": {*self._held, *cancels} <= self._workers,
            "a past only of lanes that exist": set(self._hash("past")) <= set(self._lengths),
            "as many messages as counted": int(self._client.get(f"{self._prefix}tot") or 0)
            == sum(self._lengths.values()),
        }
        return [f"not true: {promise}" for promise, holds in checks.items() if not holds]

    def _hash(self, name: str) -> dict[str, str]:
        rows = self._client.hgetall(f"{self._prefix}{name}")
        return {field.decode(): value.decode() for field, value in rows.items()}

    def _family(self, name: str, read: Any) -> dict[str, Any]:
        start = f"{self._prefix}{name}"
        return {key.removeprefix(start): read(key) for key in self._keys if key.startswith(start)}


def _lane(handle: str) -> str:
    return handle.partition(HANDLE_SEPARATOR)[0]


def _owner(handle: str) -> str:
    return handle.partition(HANDLE_SEPARATOR)[2]
