"""The emulated platforms in a process of their own, and people who write there and wait for the bot's answer.

A person's question starts the clock just before it is posted; the clock stops when the stream of events tells
that the bot has said something in the same place.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

import aiohttp

from tests.bench.processes import running, said

ANSWER_TIMEOUT_S: Final = 120.0
IDLE_CONNECTION_S: Final = 2.0  # less than the five after which the server hangs up, maybe just as we write
_EVENT_PREFIX: Final = b"data: "


@dataclass(frozen=True, slots=True)
class Chat:
    """One person's direct chat with the bot."""

    platform: str
    person_id: str
    place_id: str


class Town:
    """The control API of the emulators, as far as the bench needs it."""

    def __init__(self, client: aiohttp.ClientSession, access: Mapping[str, Mapping[str, str]], pid: int) -> None:
        self.access = access
        self.pid = pid
        self._client = client
        self._heard: dict[tuple[str, str, bool], asyncio.Future[float]] = {}

    async def chats(self, platform: str, count: int) -> list[Chat]:
        """New people, each with a chat of their own."""
        ids = {str((await self._post(platform, "people", {"name": f"Person {n}"}))["id"]) for n in range(count)}
        async with self._client.get(f"/stage/{platform}/places") as response:
            places = (await response.json())["places"]
        return [
            Chat(platform, place["person_id"], place["id"])
            for place in places
            if place["kind"] == "dm" and place["person_id"] in ids
        ]

    async def ask(self, chat: Chat, text: str) -> float:
        """Write, wait for the bot's next message in the chat; the seconds that took. Raises `TimeoutError`."""
        return await self._until_heard(chat, text, is_by_bot=True)

    async def say(self, chat: Chat, text: str) -> None:
        """Write and wait for nothing."""
        given = {"person_id": chat.person_id, "place_id": chat.place_id, "text": text}
        await self._post(chat.platform, "say", given)

    async def echo_s(self, chat: Chat, text: str) -> float:
        """Seconds until a person's own message comes back: what the measuring itself takes."""
        return await self._until_heard(chat, text, is_by_bot=False)

    async def _until_heard(self, chat: Chat, text: str, *, is_by_bot: bool) -> float:
        loop = asyncio.get_running_loop()
        heard = self._heard[chat.platform, chat.place_id, is_by_bot] = loop.create_future()
        began_s = loop.time()
        await self.say(chat, text)
        async with asyncio.timeout(ANSWER_TIMEOUT_S):  # Python 3.11's wait_for may swallow a cancel, and ask for ever
            heard_s: float = await heard
        return heard_s - began_s

    async def listen(self) -> None:
        """Follow the stream of events until cancelled."""
        endless = aiohttp.ClientTimeout(total=None)
        async with self._client.get("/stage/events", timeout=endless) as response:
            rest = b""
            async for piece in response.content.iter_any():
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    if line.startswith(_EVENT_PREFIX):
                        self._hear(json.loads(line.removeprefix(_EVENT_PREFIX)))

    def _hear(self, event: Mapping[str, Any]) -> None:
        if event["kind"] != "said":
            return
        key = (event["platform"], event["place_id"], bool(event["said"]["author"]["is_bot"]))
        waiting = self._heard.pop(key, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(asyncio.get_running_loop().time())

    async def _post(self, platform: str, what: str, given: Mapping[str, str]) -> Any:
        async with self._client.post(f"/stage/{platform}/{what}", json=given) as response:
            response.raise_for_status()
            return await response.json()


@contextlib.asynccontextmanager
async def open_town(cores: Collection[int]) -> AsyncIterator[Town]:
    """The emulators without their rate limits, on `cores`."""
    command = (sys.executable, "-m", "channels.emulators", "--port", "0", "--unlimited")
    async with running(command, dict(os.environ), cores=cores) as process:
        served = await said(process)
        access = {name: keys for name, keys in served.items() if isinstance(keys, dict)}
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=IDLE_CONNECTION_S)
        async with aiohttp.ClientSession(served["playground"], connector=connector) as client:
            town = Town(client, access, process.pid)
            listening = asyncio.create_task(town.listen())
            try:
                yield town
            finally:
                listening.cancel()
                await asyncio.gather(listening, return_exceptions=True)
