"""Facts about accounts and places that all processes of the channels role share: dead, moved, uncertain, written to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b

from gateway.bus.shards import Shard, Shards
from gateway.limits import ERROR_CHARS_MAX, NAMER_TTL_S, UNSURE_TTL_S


class Places:
    """The facts about accounts and places that all processes of the channels role share. Raises `BusUnavailable`.

    Names begin with the account, `<channel>:<account id>`, and are the adapter's own; what is known of a channel's
    accounts and places is in one shard."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards

    def _shard_of(self, name: str) -> Shard:
        return self._shards.named(name.partition(":")[0])

    async def mark_dead(self, account: str, place: str, *, reason: str) -> int:
        """Remember that a place takes nothing any more; how many refusals the account met lately."""
        shard = self._shard_of(account)
        keys = (shard.keys.dead_place(place), shard.keys.refusals(account))
        return int(await shard.run_script("mark_dead", keys, (reason[:ERROR_CHARS_MAX] or "refused",)))

    async def mark_alive(self, place: str) -> None:
        """Forget that a place takes nothing: somebody spoke there, and it may be written to again."""
        shard = self._shard_of(place)
        await shard.line.call("DEL", shard.keys.dead_place(place))

    async def mark_unsure(self, account: str) -> None:
        """Have every process send more carefully for UNSURE_TTL_S, after a send of unknown outcome."""
        shard = self._shard_of(account)
        await shard.line.call("SET", shard.keys.unsure(account), "1", "EX", UNSURE_TTL_S)

    async def sent_lately(self, place: str) -> frozenset[str]:
        """Return our messages in a place that were noted within SENT_IDS_TTL_S, the newest SENT_IDS_MAX."""
        shard = self._shard_of(place)
        ids = await shard.line.call("ZRANGE", shard.keys.sent_ids(place), 0, -1)
        return frozenset(message_id.decode() for message_id in ids)

    async def note_move(self, channel: str, old: str, new: str) -> None:
        """Note, for ever, that a chat has another id from now on."""
        shard = self._shard_of(channel)
        keys = (shard.keys.newest_ids(channel), shard.keys.first_ids(channel))
        await shard.run_script("note_move", keys, (old, new))

    async def newest_ids(self, channel: str, chats: Sequence[str]) -> Sequence[str]:
        """Return the present id of each of these chats; the same id when it never moved."""
        if not chats:
            return []
        shard = self._shard_of(channel)
        newest, firsts = await shard.line.call_all(
            [("HMGET", shard.keys.newest_ids(channel), *chats), ("HMGET", shard.keys.first_ids(channel), *chats)]
        )
        later = [first.decode() for first in firsts if first]
        found = iter(await _other_ids(shard, shard.keys.newest_ids(channel), later))
        return [
            next(found) if first else (new.decode() if new else chat)
            for chat, first, new in zip(chats, firsts, newest, strict=True)
        ]

    async def first_ids(self, channel: str, chats: Sequence[str]) -> Sequence[str]:
        """Return the id under which each of these chats was known at first: session keys keep it."""
        shard = self._shard_of(channel)
        return await _other_ids(shard, shard.keys.first_ids(channel), chats)

    async def moved(self, channel: str) -> Mapping[str, str]:
        """Return every other id that a chat of this channel has had since its first, and that first one."""
        shard = self._shard_of(channel)
        found = await shard.line.call("HGETALL", shard.keys.first_ids(channel))
        return {other.decode(): first.decode() for other, first in found.items()}

    async def keep_link(self, name: str, url: str, *, ttl_s: float) -> None:
        """Keep an address that a platform gave us, for as long as it is good."""
        shard = self._shard_of(name)
        await shard.line.call("SET", shard.keys.link(name), url, "PX", round(ttl_s * 1000))

    async def link(self, name: str) -> str:
        """Return the address, empty once it is good no more."""
        shard = self._shard_of(name)
        url = await shard.line.call("GET", shard.keys.link(name))
        return url.decode() if url else ""

    async def introduce(self, platform: str, bots: Sequence[str]) -> None:
        """Note that these bots are ours: no account of ours hears them."""
        shard = self._shard_of(platform)
        await shard.line.call("SADD", shard.keys.own_bots(platform), *bots)

    async def hear_bot(self, room: str, message_id: str, *, speaker: str) -> bool:
        """Decide whether a message of another bot is to be heard; counted once."""
        shard = self._shard_of(room)
        keys = (shard.keys.own_bots(room.partition(":")[0]), shard.keys.bot_turns(room))
        return bool(await shard.run_script("hear_bot", keys, (message_id, speaker)))

    async def person_spoke(self, room: str) -> None:
        """Let bots be heard there again: a person has spoken."""
        shard = self._shard_of(room)
        await shard.line.call("DEL", shard.keys.bot_turns(room))

    async def may_name(self, place: str, *, conversation: str, is_first: bool) -> bool:
        """Decide whether a place bears the title of this conversation, of which nothing but a digest is kept."""
        shard = self._shard_of(place)
        key, mark = shard.keys.namer(place), blake2b(conversation.encode(), digest_size=16).hexdigest().encode()
        if is_first:
            await shard.line.call("SET", key, mark, "NX", "EX", NAMER_TTL_S)
        if await shard.line.call("GET", key) != mark:
            return False
        await shard.line.call("EXPIRE", key, NAMER_TTL_S)
        return True

    async def count_ambiguous(self, channel: str) -> None:
        """Count a chunk that was sent again although an earlier attempt may have arrived."""
        shard = self._shard_of(channel)
        await shard.line.call("HINCRBY", shard.keys.ambiguous, channel, 1)


async def _other_ids(shard: Shard, key: str, chats: Sequence[str]) -> Sequence[str]:
    if not chats:
        return ()
    found = await shard.line.call("HMGET", key, *chats)
    return [other.decode() if other else chat for chat, other in zip(chats, found, strict=True)]
