"""The operator's API on a real store and a real bus, served on loopback for a browser."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

from playwright.async_api import BrowserContext
from redis import Redis
from starlette.types import ASGIApp

from channels.emulators.serving import listening
from gateway.bus.bus import RedisBus, open_bus
from gateway.bus.embedded import EmbeddedValkey
from gateway.clock import SystemClock
from gateway.ops.admin.app import Parts, create_app
from gateway.scrub import Scrubber
from gateway.store import Store, open_store
from tests.parts.databases import INSTALLATION
from tests.parts.keepers import keeper_of

TOKEN = "the-operator's-token"


@dataclass(frozen=True)
class Office:
    """Where it is served, and what is behind it."""

    url: str
    path: Path
    store: Store
    bus: RedisBus
    clock: SystemClock = field(default_factory=SystemClock)


async def sign_in(window: BrowserContext, url: str) -> None:
    """As an operator does, by the form."""
    page = await window.new_page()
    await page.goto(f"{url}/login")
    await page.get_by_label("Admin token").fill(TOKEN)
    await page.get_by_role("button", name="Sign in").click()
    await page.wait_for_url(f"{url}/")
    await page.close()


@contextlib.asynccontextmanager
async def office(
    valkey: EmbeddedValkey, template: Path, folder: Path, *, behind: Callable[[ASGIApp], ASGIApp] = lambda app: app
) -> AsyncIterator[Office]:
    """As long as the block lasts, on a copy of `template` and a bus that is empty to begin with. `behind` puts
    something in front of the application."""
    with Redis.from_url(valkey.url, protocol=2) as earlier:
        earlier.flushall()
    path = folder / "trivet.db"
    shutil.copy(template, path)
    clock, bus = SystemClock(), await open_bus(valkey.url, installation=INSTALLATION)
    store = open_store(f"sqlite+aiosqlite:///{path}", clock)
    parts = Parts(
        store=store,
        figures=bus.operator,
        lanes=bus.lanes,
        intake=bus.intake,
        deliveries=bus.deliveries,
        keeper=keeper_of(store, bus),
        vault=bus.vault,
        scrubber=Scrubber(),
        client_key="the-key-of-clients",
        clock=clock,
        channels=("telegram",),
        version="0.1.0",
    )
    async with listening(behind(create_app(parts, TOKEN))) as port:
        yield Office(f"http://127.0.0.1:{port}", path, store, bus)
        parts.stopping.set()
    await store.close()
    await bus.close()
