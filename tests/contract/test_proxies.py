"""By way of a proxy: everything that goes to a platform goes through it, and its password is said to nobody."""

from __future__ import annotations

import asyncio
import logging
from urllib.parse import urlsplit

import pytest

from channels.__main__ import open_channel
from channels.telegram.client import AiohttpRequest, HttpxRequest, TelegramEndpoint, http_client
from gateway.bus.bus import RedisBus
from gateway.config import Settings, load_settings
from gateway.config.show import as_table
from gateway.contracts.errors import ConfigError
from tests.parts.answering import EchoAgent
from tests.parts.emulated_discord import TOKEN as DISCORD_TOKEN
from tests.parts.emulated_slack import APP_TOKEN, BOT_TOKEN
from tests.parts.forward_proxy import LOGIN, ForwardProxy, forward_proxy
from tests.parts.platforms import TELEGRAM_TOKEN
from tests.parts.towns import Town, parts_on, town

__all__ = ["town"]


def settings_of(town: Town, proxy: str) -> dict[str, str]:
    """The variables that lead to this town, through the proxy."""
    address = town.api_base
    keys = {
        "telegram": {"TOKEN": TELEGRAM_TOKEN, "API_BASE": address},
        "discord": {"TOKEN": DISCORD_TOKEN, "API_BASE": f"{address}/api/v10"},
        "slack": {"BOT_TOKEN": BOT_TOKEN, "APP_TOKEN": APP_TOKEN, "API_BASE": f"{address}/api/"},
    }[town.platform]
    return {
        f"TRIVET_CHANNELS__{town.platform.upper()}__{key}": value for key, value in (keys | {"PROXY": proxy}).items()
    }


def loaded(environ: dict[str, str]) -> Settings:
    return load_settings(None, environ).settings


async def test_everything_goes_through_it(town: Town, bus: RedisBus, caplog: pytest.LogCaptureFixture) -> None:
    """Also sockets, and the password stands in no log."""
    caplog.set_level(logging.DEBUG, "channels")
    async with forward_proxy() as proxy, EchoAgent(bus).at_work():
        parts = parts_on(bus)
        adapter = await open_channel(town.platform, loaded(settings_of(town, proxy.url)), parts)
        dm = town.dm(town.ann)
        async with town.line(bus, adapter=adapter):
            await town.stage.say(town.ann.id, dm.id, "hello")
            assert await town.until_answers(1, dm) == ["echo: hello"]
        assert {place for _, place in proxy.reached} == {urlsplit(town.api_base).netloc}
        assert proxy.refused == 0
    assert LOGIN.partition(":")[2] not in caplog.text


@pytest.mark.long
async def test_a_proxy_that_is_not_there_is_not_gone_around(town: Town, bus: RedisBus) -> None:
    """Whoever names one has a reason."""
    parts = parts_on(bus)
    gone = ForwardProxy(port=9)
    adapter = await open_channel(town.platform, loaded(settings_of(town, gone.url)), parts)
    async with town.starting(bus, adapter=adapter) as line:
        await asyncio.sleep(0.3)
        assert line.state != "connected"
        assert LOGIN.partition(":")[2] not in line.state


def test_its_password_is_known_to_the_scrubber_and_not_shown() -> None:
    environ = {"TRIVET_CHANNELS__TELEGRAM__PROXY": f"http://{LOGIN}@proxy.example:3128"}
    environ["TRIVET_CHANNELS__DISCORD__ACCOUNTS__GAMES__PROXY"] = "http://games:another-proxy-password@proxy.example"
    found = load_settings(None, environ)
    assert {LOGIN.partition(":")[2], "another-proxy-password"} <= set(found.secrets)
    assert LOGIN.partition(":")[2] not in as_table(found)
    assert "another-proxy-password" not in as_table(found)


@pytest.mark.parametrize(
    ("named", "environment", "used", "client"),
    [
        ("", {}, "", AiohttpRequest),
        ("http://a:1", {"HTTPS_PROXY": "http://b:1"}, "http://a:1", AiohttpRequest),
        ("", {"HTTPS_PROXY": "http://b:1"}, "http://b:1", AiohttpRequest),
        ("", {"HTTPS_PROXY": "b:1"}, "http://b:1", AiohttpRequest),
        ("", {"ALL_PROXY": "http://b:1"}, "http://b:1", AiohttpRequest),
        ("", {"HTTP_PROXY": "http://b:1"}, "", AiohttpRequest),
        ("", {"HTTPS_PROXY": "http://b:1", "NO_PROXY": "api.telegram.org"}, "", AiohttpRequest),
        ("https://a:1", {}, "https://a:1", HttpxRequest),
    ],
)
def test_telegram_is_called_through(
    monkeypatch: pytest.MonkeyPatch, named: str, environment: dict[str, str], used: str, client: type
) -> None:
    """The proxy that was named, otherwise the one of the environment."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    endpoint = TelegramEndpoint(TELEGRAM_TOKEN, "https://api.telegram.org", proxy=named)
    assert endpoint.proxy_in_use == used
    assert type(http_client(used, 1)) is client


async def test_a_socks_proxy_without_its_package_is_named(bus: RedisBus) -> None:
    environ = {"TRIVET_CHANNELS__TELEGRAM__TOKEN": TELEGRAM_TOKEN}
    environ["TRIVET_CHANNELS__TELEGRAM__PROXY"] = "socks5://127.0.0.1:1080"
    parts = parts_on(bus)
    with pytest.raises(ConfigError, match="socksio"):
        await open_channel("telegram", loaded(environ), parts)
