"""Checks of the platforms: does each take its token? Plain HTTP, the same calls any client begins with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import httpx
from pydantic import SecretStr

from gateway.config import Discord, Settings, Slack, Telegram
from gateway.doctor.findings import Finding, ok, warning, wrong

_TIMEOUT_S: Final = 10.0
_MESSAGE_CONTENT: Final = (1 << 18) | (1 << 19)  # Discord's application flags GATEWAY_MESSAGE_CONTENT and _LIMITED


def platform_client() -> httpx.AsyncClient:
    """A client that does not wait for ever."""
    return httpx.AsyncClient(timeout=_TIMEOUT_S)


async def check_platforms(settings: Settings, client: httpx.AsyncClient) -> list[Finding]:
    """A row for each enabled channel, more where there is more to say."""
    channels = settings.channels
    checks: Mapping[str, Callable[[], Awaitable[list[Finding]]]] = {
        "telegram": lambda: _telegram(client, channels.telegram),
        "discord": lambda: _discord(client, channels.discord),
        "slack": lambda: _slack(client, channels.slack),
    }
    findings: list[Finding] = []
    for name in channels.enabled_names:
        if missing := channels.each()[name].missing:
            keys = " and ".join(f"channels.{name}.{key}" for key in missing)
            findings.append(wrong(name, f"{keys} is empty", f"set it, or set channels.{name}.enabled = false"))
            continue
        try:
            findings += await checks[name]()
        except (httpx.HTTPError, ValueError) as error:
            seen = f"its API cannot be used ({type(error).__name__})"
            findings.append(wrong(name, seen, f"check the network and channels.{name}.api_base"))
    return findings


async def _telegram(client: httpx.AsyncClient, telegram: Telegram) -> list[Finding]:
    """https://core.telegram.org/bots/api#getme"""
    root = f"{telegram.api_base}/bot{_value(telegram.token)}"
    me = _json(await client.get(f"{root}/getMe"))
    if not me.get("ok"):
        return [wrong("telegram", _refusal(me, "description"), "ask @BotFather for the token: channels.telegram.token")]
    found = [ok("telegram", f"@{me['result'].get('username')}")]
    hook = _json(await client.get(f"{root}/getWebhookInfo"))
    if telegram.mode == "polling" and hook.get("ok") and hook["result"].get("url"):
        seen = "a webhook is set, so polling gets nothing until it is removed"
        found.append(warning("telegram", seen, "start `trivet channels`, which removes it, or use mode = webhook"))
    return found


async def _discord(client: httpx.AsyncClient, discord: Discord) -> list[Finding]:
    """https://discord.com/developers/docs/resources/user#get-current-user"""
    headers = {"Authorization": f"Bot {_value(discord.token)}"}
    me = await client.get(f"{discord.api_base}/users/@me", headers=headers)
    if me.status_code != httpx.codes.OK:
        remedy = "reset the token in the developer portal, Bot page: channels.discord.token"
        return [wrong("discord", _refusal(_json(me), "message"), remedy)]
    found = [ok("discord", f"@{_json(me).get('username')}")]
    application = await client.get(f"{discord.api_base}/oauth2/applications/@me", headers=headers)
    flags = _json(application).get("flags") if application.status_code == httpx.codes.OK else None
    if isinstance(flags, int) and not flags & _MESSAGE_CONTENT:
        remedy = "switch it on in the developer portal, Bot page, Privileged Gateway Intents"
        found.append(warning("discord", "the Message Content Intent is off", remedy))
    return found


async def _slack(client: httpx.AsyncClient, slack: Slack) -> list[Finding]:
    """https://docs.slack.dev/reference/methods/auth.test and apps.connections.open"""
    me = await _slack_call(client, slack, "auth.test", slack.bot_token)
    if not me.get("ok"):
        return [wrong("slack", _refusal(me, "error"), "reinstall the app and copy channels.slack.bot_token (xoxb-…)")]
    found = [ok("slack", f"@{me.get('user')} in {me.get('team')}")]
    if slack.mode == "socket":
        opened = await _slack_call(client, slack, "apps.connections.open", slack.app_token)
        if not opened.get("ok"):
            remedy = "make an app-level token with connections:write: channels.slack.app_token (xapp-…)"
            found.append(wrong("slack", f"Socket Mode: {_refusal(opened, 'error')}", remedy))
    return found


async def _slack_call(client: httpx.AsyncClient, slack: Slack, method: str, token: SecretStr | None) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {_value(token)}"}
    return _json(await client.post(f"{slack.api_base}{method}", headers=headers))


def _json(response: httpx.Response) -> dict[str, Any]:
    """The object in a response. Raises `ValueError` when there is none."""
    body = response.json()
    if not isinstance(body, dict):
        raise ValueError("no object")  # noqa: TRY004 - bad data from a server, not a wrong argument
    return body


def _refusal(body: Mapping[str, Any], field: str) -> str:
    return f"the token is refused: {body.get(field, 'no reason given')}"


def _value(secret: SecretStr | None) -> str:
    return secret.get_secret_value() if secret else ""
