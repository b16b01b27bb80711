"""The emulated Discord on a real port, and the real discord.py client in front of it."""

from __future__ import annotations

import asyncio
import contextlib
import warnings
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
import yarl

from channels.emulators.discord import DiscordEmulator
from tests.parts.loopback import served, until

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # discord.py loads audioop, which Python 3.13 lacks
    import discord
    from discord.gateway import DiscordWebSocket
    from discord.http import Route

__all__ = ["DiscordWorld", "Heard", "discord", "discord_world"]

TOKEN = "MTEwMDAwMDAwMDAwMDAwMDAwMA.test.discord-token"
INTENTS = 46593 | 1 << 11 | 1 << 14  # a chat bot's, with reactions and typing


@dataclass
class Heard(discord.Client):
    """A real client that writes down what it was told."""

    messages: list[discord.Message] = field(default_factory=list)
    edits: list[discord.RawMessageUpdateEvent] = field(default_factory=list)
    deletes: list[discord.RawMessageDeleteEvent] = field(default_factory=list)
    typers: list[discord.RawTypingEvent] = field(default_factory=list)
    reactions: list[discord.RawReactionActionEvent] = field(default_factory=list)
    interactions: list[discord.Interaction] = field(default_factory=list)
    threads: list[discord.Thread] = field(default_factory=list)
    readies: int = 0
    resumes: int = 0

    def __hash__(self) -> int:
        return id(self)

    def __post_init__(self) -> None:
        super().__init__(
            intents=discord.Intents._from_value(INTENTS),
            max_messages=None,
            member_cache_flags=discord.MemberCacheFlags.none(),
            chunk_guilds_at_startup=False,
            guild_ready_timeout=0.1,
        )

    def texts(self) -> list[str]:
        return [message.content for message in self.messages]

    async def on_message(self, message: discord.Message) -> None:
        self.messages.append(message)

    async def on_raw_message_edit(self, event: discord.RawMessageUpdateEvent) -> None:
        self.edits.append(event)

    async def on_raw_message_delete(self, event: discord.RawMessageDeleteEvent) -> None:
        self.deletes.append(event)

    async def on_raw_typing(self, event: discord.RawTypingEvent) -> None:
        self.typers.append(event)

    async def on_raw_reaction_add(self, event: discord.RawReactionActionEvent) -> None:
        self.reactions.append(event)

    async def on_interaction(self, interaction: discord.Interaction) -> None:
        self.interactions.append(interaction)

    async def on_thread_create(self, thread: discord.Thread) -> None:
        self.threads.append(thread)

    async def on_ready(self) -> None:
        self.readies += 1

    async def on_resumed(self) -> None:
        self.resumes += 1


@dataclass(frozen=True, slots=True)
class DiscordWorld:
    """An emulator in service."""

    emulator: DiscordEmulator
    address: str

    @contextlib.asynccontextmanager
    async def client(self) -> AsyncIterator[Heard]:
        """A connected, ready client; what ended it is raised when the block ends."""
        client = Heard()
        running = asyncio.create_task(client.start(TOKEN))
        try:
            await until(lambda: client.readies or running.done())
            if running.done():
                running.result()
            yield client
        finally:
            await client.close()
            await asyncio.gather(running, return_exceptions=True)


@pytest.fixture
async def discord_world(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[DiscordWorld]:
    emulator = DiscordEmulator(token=TOKEN)
    async with served(emulator.app) as address:
        monkeypatch.setattr(Route, "BASE", f"http://{address}/api/v10")
        monkeypatch.setattr(DiscordWebSocket, "DEFAULT_GATEWAY", yarl.URL(f"ws://{address}/gateway"))
        yield DiscordWorld(emulator, address)
