"""`python -m channels.emulators --port N`: the emulated platforms and their playground as one process.

When everything listens, one line of JSON goes to standard output:

    {"playground": url, "roles": {"telegram:7": "admin", ...}, "telegram": {"api_base": ..., "token": ...}, ...}

An order that the page gives is a line, too, and is answered by one on standard input, in any order:

    {"number": 1, "order": "kill-agent"}
    {"number": 1, "happened": [{"at_ms": ..., "what": ...}]}

The process ends when its standard input closes (its starter is gone), on SIGTERM and on Ctrl-C.
`TRIVET_DEMO_ADMIN_URL` and `TRIVET_DEMO_ADMIN_TOKEN` let the page show the sessions of the conversations,
`TRIVET_DEMO` is JSON: the `tries` and the `orders` that the page offers."""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import os
import secrets
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Final, Protocol, runtime_checkable
from urllib.parse import quote

from channels.emulators.discord import DiscordEmulator, DiscordSwitches
from channels.emulators.playground.site import AdminApi, Installation
from channels.emulators.serving import PLAYGROUND, Emulator, serve
from channels.emulators.slack import SlackEmulator, SlackSwitches
from channels.emulators.stage import Json, PlaceKind, Stage
from channels.emulators.telegram import TelegramEmulator

ADMIN_URL: Final = "TRIVET_DEMO_ADMIN_URL"
ADMIN_TOKEN: Final = "TRIVET_DEMO_ADMIN_TOKEN"
DEMO: Final = "TRIVET_DEMO"
STDIN: Final = 0
TELEGRAM_BOT_ID: Final = 4_242_001
DISCORD_BOT_ID: Final = 1_200_000_000_000_000_001
CALL_EVERY_S: Final = 0.2  # until the app is there to be called
PEOPLE: Final = {"Ada": "admin", "Noor": "member", "Gus": "guest", "Sam": ""}
"""The people at the start, with their roles; the last one is a stranger."""


@runtime_checkable
class CallingStage(Protocol):
    """A platform that calls an app at the address that the app's owner configured."""

    async def use_http(self, url: str) -> bool:
        """Call it there from now on; False: it did not answer as it has to."""


@dataclass(frozen=True, slots=True)
class Part:
    """One platform of the demo. `access` says, for its root URL, what a client needs to connect."""

    emulator: Emulator
    access: Callable[[str], Mapping[str, str]]


def telegram(*, is_limited: bool) -> Part:
    """Set up Telegram; its tokens are the bot's id, a colon and 35 characters."""
    token = f"{TELEGRAM_BOT_ID}:AA{secrets.token_hex(17)[:33]}"
    emulator = TelegramEmulator(token=token)
    emulator.faults.other["unlimited"] = 0 if is_limited else 1
    return Part(emulator, lambda url: {"api_base": url, "token": token})


def discord(*, is_limited: bool) -> Part:
    """Set up Discord; the first part of a token is the bot's id in base64."""
    bot_id = base64.b64encode(str(DISCORD_BOT_ID).encode()).decode().rstrip("=")
    token = f"{bot_id}.{secrets.token_urlsafe(5)[:6]}.{secrets.token_urlsafe(28)[:38]}"
    switches = DiscordSwitches() if is_limited else DiscordSwitches(rates={}, global_per_s=0)
    emulator = DiscordEmulator(token=token, switches=switches)
    return Part(
        emulator,
        lambda url: {
            "api_base": f"{url}/api/v10",
            "gateway_url": f"{url.replace('http', 'ws', 1)}/gateway",
            "token": token,
            "public_key": emulator.public_key,
        },
    )


def slack(*, is_limited: bool) -> Part:
    """Set up Slack, with a bot token and an app-level token."""
    bot_token = f"xoxb-{secrets.randbelow(10**12):012}-{secrets.randbelow(10**13):013}-{secrets.token_hex(12)}"
    app_token = f"xapp-1-A0EMULATOR-{secrets.randbelow(10**13):013}-{secrets.token_hex(32)}"
    secret = secrets.token_hex(16)
    switches = SlackSwitches(is_rate_limited=is_limited)
    return Part(
        SlackEmulator(bot_token=bot_token, app_token=app_token, signing_secret=secret, switches=switches),
        lambda url: {
            "api_base": f"{url}/api/",
            "bot_token": bot_token,
            "app_token": app_token,
            "signing_secret": secret,
        },
    )


class Make(Protocol):
    """Sets a platform up."""

    def __call__(self, *, is_limited: bool) -> Part: ...


PARTS: Final[dict[str, Make]] = {"telegram": telegram, "discord": discord, "slack": slack}


def populate(stage: Stage) -> dict[str, str]:
    """Add people, a group and a thread in it, so that there is somebody to be; return their roles by session key."""
    people = {stage.add_person(name): role for name, role in PEOPLE.items()}
    group = stage.add_place(PlaceKind.GROUP, "Garden club")
    stage.add_place(PlaceKind.THREAD, "Tomatoes", parent_id=group.id)
    # No key holds a colon or a slash of an id.
    return {f"{stage.platform}:{quote(person.id, safe='@!$')}": role for person, role in people.items() if role}


async def called(stage: Stage, url: str) -> None:
    """Let the platform call the app at `url`, as soon as somebody there gives the right answers."""
    while not (isinstance(stage, CallingStage) and await stage.use_http(url)):  # noqa: ASYNC110 - another process
        await asyncio.sleep(CALL_EVERY_S)


class OrderLines:
    """Orders to the parent process: a line to standard output, answered by a line from standard input."""

    def __init__(self) -> None:
        self._waiting: dict[int, asyncio.Future[list[Json]]] = {}
        self._number = 0

    async def give(self, order: str) -> list[Json]:
        """Give an order, and return what happened when it has been carried out."""
        self._number += 1
        happened: asyncio.Future[list[Json]] = asyncio.get_running_loop().create_future()
        self._waiting[self._number] = happened
        write_line({"number": self._number, "order": order})
        return await happened

    def hear(self, line: bytes) -> None:
        """Hear what became of an order."""
        told = json.loads(line)
        self._waiting.pop(told["number"]).set_result(told["happened"])


def write_line(told: Json) -> None:
    """Tell the parent process."""
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()


async def run(port: int, *, is_limited: bool, calls: Mapping[str, str], plugins: Mapping[str, str]) -> None:
    """Serve until told to stop. `calls`: which platforms call the app, and where; `plugins`: the modules of platforms
    that are not ours, each with a function `emulate`. Raises `OSError` when the port is taken."""
    makes = PARTS | {name: import_module(module).emulate for name, module in plugins.items()}
    parts = {name: make(is_limited=is_limited) for name, make in makes.items()}
    roles = {key: role for part in parts.values() for key, role in populate(part.emulator).items()}
    admin_url, orders = os.environ.get(ADMIN_URL, ""), OrderLines()
    admin = AdminApi(admin_url, os.environ.get(ADMIN_TOKEN, "")) if admin_url else None
    installation = Installation(admin, **json.loads(os.environ.get(DEMO, "{}")), give=orders.give)
    stop = _told_to_stop(orders)
    stages = {name: part.emulator for name, part in parts.items()}
    async with serve(stages, playground=True, playground_port=port, installation=installation) as served:
        access = {name: dict(part.access(served.url_of(name))) for name, part in parts.items()}
        write_line({"playground": served.url_of(PLAYGROUND), "roles": roles, **access})
        calling = [asyncio.create_task(called(parts[name].emulator, url)) for name, url in calls.items()]
        await stop.wait()
        for task in calling:
            task.cancel()
        await asyncio.gather(*calling, return_exceptions=True)


def _told_to_stop(orders: OrderLines) -> asyncio.Event:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)

    def watch_stdin() -> None:
        # Not sys.stdin: the interpreter aborts when it ends while a thread holds that object's lock.
        heard = b""
        while more := os.read(STDIN, 4096):
            *lines, heard = (heard + more).split(b"\n")
            for line in lines:
                loop.call_soon_threadsafe(orders.hear, line)
        loop.call_soon_threadsafe(stop.set)

    threading.Thread(target=watch_stdin, name="stdin", daemon=True).start()
    return stop


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m channels.emulators", description="The emulated platforms and their playground."
    )
    parser.add_argument("--port", type=int, default=0, help="port of the playground page; 0 takes any free one")
    parser.add_argument("--call", action="append", default=[], help="slack=URL or discord=URL: call the app there")
    parser.add_argument("--plugin", action="append", default=[], help="matrix=MODULE: emulate the platform, too")
    parser.add_argument("--unlimited", action="store_true", help="no rate limits, for measuring")
    options = parser.parse_args()
    port = options.port
    try:
        calls, plugins = (dict(each.split("=", 1) for each in given) for given in (options.call, options.plugin))
        asyncio.run(run(port, is_limited=not options.unlimited, calls=calls, plugins=plugins))
    except OSError as problem:
        sys.stderr.write(f"The playground cannot listen on port {port}: {problem.strerror}. Choose another --port.\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
