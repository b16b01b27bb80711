"""What all processes of the channels role know about accounts and places: dead, moved, uncertain, written to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b

from gateway.bus.keys import ShardKeys
from gateway.bus.line import Line
from gateway.bus.scripts import script
from gateway.contracts.ports import Outlook
from gateway.limits import DOUBT_TTL_S, ERROR_CHARS_MAX, NAMER_TTL_S


class Places:
    """`gateway.contracts.ports.PlaceBus`."""

    def __init__(self, line: Line, keys: ShardKeys) -> None:
        self._line = line
        self._keys = keys

    async def outlook(self, account: str, place: str) -> Outlook:
        """What is known of a place, and whether the account had a send of unknown outcome lately."""
        dead, unsure = await self._line.call_all(
            [("GET", self._keys.grave(place)), ("EXISTS", self._keys.doubt(account))]
        )
        return Outlook(dead.decode() if dead else "", bool(unsure))

    async def bury(self, account: str, place: str, *, reason: str) -> int:
        """Remember that a place takes nothing any more; how many refusals the account met lately."""
        keys = (self._keys.grave(place), self._keys.refusals(account))
        return int(await self._line.run(script("bury_place"), keys, (reason[:ERROR_CHARS_MAX] or "refused",)))

    async def revive(self, place: str) -> None:
        """Somebody spoke there: it may be written to again."""
        await self._line.call("DEL", self._keys.grave(place))

    async def doubt(self, account: str) -> None:
        """A send had an unknown outcome: for DOUBT_TTL_S every process sends more carefully."""
        await self._line.call("SET", self._keys.doubt(account), "1", "EX", DOUBT_TTL_S)

    async def note_sent(self, place: str, ids: Sequence[str]) -> None:
        """Messages of ours in a place, as the platform numbers them."""
        if ids:
            await self._line.run(script("note_sent"), (self._keys.sent_ids(place),), tuple(ids))

    async def sent_lately(self, place: str) -> frozenset[str]:
        """Every message of ours in a place that was noted within SENT_IDS_TTL_S, the newest SENT_IDS_MAX."""
        ids = await self._line.call("ZRANGE", self._keys.sent_ids(place), 0, -1)
        return frozenset(message_id.decode() for message_id in ids)

    async def note_move(self, channel: str, old: str, new: str) -> None:
        """A chat has another id from now on, for ever."""
        keys = (self._keys.newest_ids(channel), self._keys.first_ids(channel))
        await self._line.run(script("note_move"), keys, (old, new))

    async def newest_ids(self, channel: str, chats: Sequence[str]) -> Sequence[str]:
        """Where each of these chats lives now; itself when it never moved."""
        firsts = await self.first_ids(channel, chats)
        found = await self._other_ids(self._keys.newest_ids(channel), firsts)
        return [chat if newest == first else newest for chat, first, newest in zip(chats, firsts, found, strict=True)]

    async def first_ids(self, channel: str, chats: Sequence[str]) -> Sequence[str]:
        """The id under which each of these chats was known at first: session keys keep it."""
        return await self._other_ids(self._keys.first_ids(channel), chats)

    async def moved(self, channel: str) -> Mapping[str, str]:
        """Every other id that a chat of this channel has had since its first, and that first one."""
        found = await self._line.call("HGETALL", self._keys.first_ids(channel))
        return {other.decode(): first.decode() for other, first in found.items()}

    async def keep_link(self, name: str, url: str, *, ttl_s: float) -> None:
        """Keep an address that a platform gave us, for as long as it is good."""
        await self._line.call("SET", self._keys.link(name), url, "PX", round(ttl_s * 1000))

    async def link(self, name: str) -> str:
        """The address, empty once it is good no more."""
        url = await self._line.call("GET", self._keys.link(name))
        return url.decode() if url else ""

    async def introduce(self, platform: str, bots: Sequence[str]) -> None:
        """These are ours: no account of ours hears them."""
        await self._line.call("SADD", self._keys.own_bots(platform), *bots)

    async def hear_bot(self, room: str, message_id: str, *, speaker: str) -> bool:
        """Whether a message of another bot is to be heard; counted once."""
        keys = (self._keys.own_bots(room.partition(":")[0]), self._keys.bot_turns(room))
        return bool(await self._line.run(script("hear_bot"), keys, (message_id, speaker)))

    async def person_spoke(self, room: str) -> None:
        """Bots are heard there again."""
        await self._line.call("DEL", self._keys.bot_turns(room))

    async def may_name(self, place: str, *, conversation: str, is_first: bool) -> bool:
        """Whether a place bears the title of this conversation, of which nothing but a digest is kept."""
        key, mark = self._keys.namer(place), blake2b(conversation.encode(), digest_size=16).hexdigest().encode()
        if is_first:
            await self._line.call("SET", key, mark, "NX", "EX", NAMER_TTL_S)
        if await self._line.call("GET", key) != mark:
            return False
        await self._line.call("EXPIRE", key, NAMER_TTL_S)
        return True

    async def count_ambiguous(self, channel: str) -> None:
        """A chunk was sent again although an earlier attempt may have arrived."""
        await self._line.call("HINCRBY", self._keys.ambiguous, channel, 1)

    async def _other_ids(self, key: str, chats: Sequence[str]) -> Sequence[str]:
        if not chats:
            return ()
        found = await self._line.call("HMGET", key, *chats)
        return [other.decode() if other else chat for chat, other in zip(chats, found, strict=True)]
