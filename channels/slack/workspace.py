"""People of a workspace, and channels that got another id.

Events name people by their ids. Nobody waits long for a name: an event is to be acknowledged within three seconds,
and a person whose name is not known in time is called by the id."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from slack_sdk.web.async_client import AsyncWebClient

from channels.core.message import Migrated, Raw, mapping, text
from channels.slack import limits
from channels.slack.errors import api_word
from gateway.bounded_dict import BoundedDict
from gateway.bus.places import Places
from gateway.contracts.ports import Clock

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SlackPerson:
    """`language` is an IETF tag, empty where Slack does not say."""

    name: str
    language: str = ""


_NOBODY: Final = SlackPerson("")


class SlackPeople:
    """The people of one workspace. Never raises."""

    def __init__(self, client: AsyncWebClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._known: BoundedDict[str, tuple[SlackPerson, float]] = BoundedDict(limits.PEOPLE_KNOWN_MAX)
        self._asking: dict[str, asyncio.Task[None]] = {}

    def ask(self, ids: Iterable[str]) -> None:
        """Look up these people beforehand, PEOPLE_AT_ONCE at most."""
        for user_id in dict.fromkeys(ids):
            if len(self._asking) >= limits.PEOPLE_AT_ONCE:
                return
            if user_id not in self._asking and not self._is_fresh(user_id):
                self._asking[user_id] = asyncio.create_task(self._ask(user_id), name="slack-person")

    def names(self, ids: Iterable[str]) -> Mapping[str, str]:
        """Return the names of these people that are known now."""
        found = {user_id: self._known[user_id][0].name for user_id in ids if user_id in self._known}
        return {user_id: name for user_id, name in found.items() if name}

    async def known(self, ids: Iterable[str]) -> Mapping[str, SlackPerson]:
        """Return the people of these ids who are known, or will be in a moment."""
        wanted = tuple(dict.fromkeys(ids))
        self.ask(wanted)
        awaited = [self._asking[user_id] for user_id in wanted if user_id in self._asking]
        if awaited:
            await asyncio.wait(awaited, timeout=limits.PEOPLE_WAIT_S)
        found = {user_id: self._known[user_id][0] for user_id in wanted if user_id in self._known}
        return {user_id: person for user_id, person in found.items() if person.name}

    async def one(self, person: str) -> SlackPerson | None:
        """Return the person of a session key: a foreign workspace may precede the id."""
        user_id = person.rpartition(".")[2]
        return (await self.known((user_id,))).get(user_id)

    async def close(self) -> None:
        """Ask nobody any more."""
        asking = tuple(self._asking.values())
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)

    def _is_fresh(self, user_id: str) -> bool:
        return user_id in self._known and self._clock.monotonic_s() < self._known[user_id][1]

    async def _ask(self, user_id: str) -> None:
        try:
            answer = await self._client.users_info(user=user_id, include_locale=True)
            self._keep(user_id, _person(answer.get("user")), limits.PERSON_TTL_S)
        except Exception as error:  # noqa: BLE001 - named boundary, adapter callback: a name is never worth a message
            log.debug("slack: nobody says who %s is: %s", user_id, api_word(error) or type(error).__name__)
            earlier, _ = self._known.get(user_id, (_NOBODY, 0.0))
            self._keep(user_id, earlier, limits.STRANGER_TTL_S)
        finally:
            del self._asking[user_id]

    def _keep(self, user_id: str, person: SlackPerson, ttl_s: float) -> None:
        self._known[user_id] = person, self._clock.monotonic_s() + ttl_s


def _person(raw: object) -> SlackPerson:
    user = mapping(raw)
    profile = mapping(user.get("profile"))
    names = (profile.get("display_name"), profile.get("real_name"), user.get("real_name"), user.get("name"))
    return SlackPerson(next(filter(None, map(text, names)), ""), text(user.get("locale")))


# Channels that got another id: a private one does when somebody shares it with another workspace (Slack Connect).
#
# Everything kept of a channel keeps its first id: sessions, cursors, threads, and the ids of messages, by which a
# message that comes under both is recognized. Requests to Slack need the newest.


class ChannelMoves:
    """The moved channels of one account, which `channel` names. They are kept in memory, so that no event has to
    wait for the bus."""

    def __init__(self, places: Places, channel: str) -> None:
        self._places = places
        self._channel = channel
        self._firsts: Mapping[str, str] = {}
        self._newest: Mapping[str, str] = {}

    async def load(self) -> None:
        """Learn what other processes noted. Raises `BusUnavailable`."""
        self._firsts = await self._places.moved(self._channel)
        ids = sorted(set(self._firsts.values()))
        self._newest = dict(zip(ids, await self._places.newest_ids(self._channel, ids), strict=True))

    async def note(self, move: Migrated) -> None:
        """Record a move for ever. Raises `BusUnavailable`."""
        log.info("%s: channel %s is %s now", self._channel, move.old, move.new)
        await self._places.note_move(self._channel, move.old, move.new)
        await self.load()

    def first(self, channel_id: str) -> str:
        """Return the first id under which a channel was known; its own if it never moved."""
        return self._firsts.get(channel_id, channel_id)

    def newest(self, channel_id: str) -> str:
        """Return the present id of a channel."""
        first = self.first(channel_id)
        return self._newest.get(first, first)

    def as_known(self, body: Raw) -> Raw:
        """Return a request in which the channel of a message has its first id."""
        event = mapping(body.get("event"))
        channel_id = text(event.get("channel"))
        first = self.first(channel_id)
        return body if first == channel_id else {**body, "event": {**event, "channel": first}}
