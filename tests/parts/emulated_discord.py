"""The emulated Discord on a real port, and the real discord.py client in front of it."""

from __future__ import annotations

import asyncio
import contextlib
import warnings
from collections.abc import AsyncIterator
from dataclasses import dataclass

import httpx
import pytest
import yarl

from channels.emulators.discord import DiscordEmulator
from channels.emulators.serving import LOOPBACK, listening
from channels.emulators.stage import Person, Place, PlaceKind
from tests.parts.waiting import until

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # discord.py loads audioop, which Python 3.13 lacks
    import discord
    from discord.gateway import DiscordWebSocket
    from discord.http import Route

__all__ = ["DiscordWorld", "Heard", "discord", "discord_world"]

TOKEN = "MTEwMDAwMDAwMDAwMDAwMDAwMA.test.discord-token"
INTENTS = 1 | 1 << 9 | 1 << 12 | 1 << 15  # our adapter's: guilds, messages there and in direct chats, content


class Heard(discord.Client):
    """A real client that writes down what it was told."""

    running: asyncio.Task[None]

    def __init__(self, intents: int) -> None:
        super().__init__(
            intents=discord.Intents._from_value(intents),
            max_messages=None,
            member_cache_flags=discord.MemberCacheFlags.none(),
            chunk_guilds_at_startup=False,
            guild_ready_timeout=0.1,
        )
        self.messages: list[discord.Message] = []
        self.edits: list[discord.RawMessageUpdateEvent] = []
        self.deletes: list[discord.RawMessageDeleteEvent] = []
        self.interactions: list[discord.Interaction] = []
        self.heard_threads: list[discord.Thread] = []
        self.readies = 0
        self.resumes = 0

    def texts(self) -> list[str]:
        return [message.content for message in self.messages]

    async def on_message(self, message: discord.Message) -> None:
        self.messages.append(message)

    async def on_raw_message_edit(self, event: discord.RawMessageUpdateEvent) -> None:
        self.edits.append(event)

    async def on_raw_message_delete(self, event: discord.RawMessageDeleteEvent) -> None:
        self.deletes.append(event)

    async def on_interaction(self, interaction: discord.Interaction) -> None:
        self.interactions.append(interaction)

    async def on_thread_create(self, thread: discord.Thread) -> None:
        self.heard_threads.append(thread)

    async def on_ready(self) -> None:
        self.readies += 1

    async def on_resumed(self) -> None:
        self.resumes += 1


@dataclass(frozen=True, slots=True)
class DiscordWorld:
    """An emulator in service."""

    emulator: DiscordEmulator
    port: int

    @property
    def address(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    def http(self, token: str = TOKEN) -> httpx.AsyncClient:
        """For requests that discord.py would not send."""
        headers = {"Authorization": f"Bot {token}"}
        return httpx.AsyncClient(base_url=f"http://{self.address}/api/v10", headers=headers, trust_env=False)

    @contextlib.asynccontextmanager
    async def client(self, intents: int = INTENTS) -> AsyncIterator[Heard]:
        """A connected, ready client. What keeps it from getting ready is raised."""
        client = Heard(intents)
        client.running = asyncio.create_task(client.start(TOKEN))
        try:
            await until(lambda: client.readies or client.running.done())
            if client.running.done():
                client.running.result()
            yield client
        finally:
            await client.close()
            await asyncio.gather(client.running, return_exceptions=True)


@pytest.fixture
async def discord_world(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[DiscordWorld]:
    emulator = DiscordEmulator(token=TOKEN)
    async with listening(emulator.app) as port:
        world = DiscordWorld(emulator, port)
        monkeypatch.setattr(Route, "BASE", f"http://{world.address}/api/v10")
        monkeypatch.setattr(DiscordWebSocket, "DEFAULT_GATEWAY", yarl.URL(f"ws://{world.address}/gateway"))
        yield world


def ada_in_the_hall(world: DiscordWorld) -> tuple[Person, Place]:
    return world.emulator.add_person("Ada"), world.emulator.add_place(PlaceKind.GROUP, "Town Hall")
