"""Checks of the platforms: does each take its token? Plain HTTP, the same calls any client begins with."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias
from urllib.parse import urlencode

import httpx
from pydantic import SecretStr

from gateway.config import (
    ApiAccount,
    DiscordAccount,
    PluginAccount,
    Settings,
    SlackAccount,
    TelegramAccount,
    hook_url,
    table_of,
)
from gateway.ops.doctor import CheckResult, ok, warning, wrong

_TIMEOUT_S: Final = 10.0
_MESSAGE_CONTENT: Final = (1 << 18) | (1 << 19)  # Discord's application flags GATEWAY_MESSAGE_CONTENT and _LIMITED
_SLACK_APP: Final = re.compile(r"xapp-[0-9]-(A[A-Z0-9]+)-")
DISCORD_PERMISSIONS: Final = sum(
    1 << bit
    for bit in (
        10,  # View Channels
        11,  # Send Messages
        15,  # Attach Files
        16,  # Read Message History
        35,  # Create Public Threads
        38,  # Send Messages in Threads
    )
)
"""As https://discord.com/developers/docs/topics/permissions numbers them."""
_SIGNING_SECRET: Final = re.compile(r"[0-9a-f]{32}")  # as every app of Slack has been given one so far


def platform_client(proxy: str = "") -> httpx.AsyncClient:
    """Build a client that does not wait for ever."""
    return httpx.AsyncClient(timeout=_TIMEOUT_S, proxy=proxy or None)


Account: TypeAlias = TelegramAccount | DiscordAccount | SlackAccount


@dataclass(frozen=True, slots=True)
class _Checks:
    """The checks of one channel. `hook_url` is where its platform calls us, empty if it does not."""

    name: str
    hook_url: str

    @property
    def table(self) -> str:
        return table_of(self.name)

    def of(self, account: Account, client: httpx.AsyncClient) -> AsyncIterator[CheckResult]:
        match account:
            case TelegramAccount():
                return self.telegram(client, account)
            case DiscordAccount():
                return self.discord(client, account)
            case SlackAccount():
                return self.slack(client, account)

    async def telegram(self, client: httpx.AsyncClient, telegram: TelegramAccount) -> AsyncIterator[CheckResult]:
        """Check the bot by https://core.telegram.org/bots/api#getme and #getwebhookinfo"""
        root = f"{telegram.api_base}/bot{_value(telegram.token)}"
        me = _json(await client.get(f"{root}/getMe"))
        if not me.get("ok"):
            yield wrong(self.name, _refusal(me, "description"), f"ask @BotFather for the token: {self.table}.token")
            return
        username = me["result"].get("username")
        yield ok(self.name, f"@{username}", f"https://t.me/{username}")
        hook = _json(await client.get(f"{root}/getWebhookInfo")).get("result") or {}
        if telegram.mode == "polling" and hook.get("url"):
            seen = "a webhook is set, so polling gets nothing until it is removed"
            yield warning(self.name, seen, "start `trivet channels`, which removes it, or use mode = webhook")
        if telegram.mode == "webhook":
            yield self._webhook(hook)

    def _webhook(self, hook: Mapping[str, Any]) -> CheckResult:
        if hook.get("url") != self.hook_url:
            return warning(self.name, "its webhook is not set yet", "start `trivet channels`, which sets it")
        waiting = hook.get("pending_update_count")
        if hook.get("last_error_message") and waiting:
            seen = f"{waiting} updates wait; the last call of the webhook failed: {hook['last_error_message']}"
            return wrong(self.name, seen, f"make {self.hook_url} reach http.webhook_port from the internet")
        return ok(self.name, f"its webhook is {self.hook_url}, {waiting} updates wait")

    async def discord(self, client: httpx.AsyncClient, discord: DiscordAccount) -> AsyncIterator[CheckResult]:
        """Check the bot by https://discord.com/developers/docs/resources/user#get-current-user"""
        headers = {"Authorization": f"Bot {_value(discord.token)}"}
        me = await client.get(f"{discord.api_base}/users/@me", headers=headers)
        if me.status_code != httpx.codes.OK:
            remedy = f"reset the token in the developer portal, Bot page: {self.table}.token"
            yield wrong(self.name, _refusal(_json(me), "message"), remedy)
            return
        answer = await client.get(f"{discord.api_base}/oauth2/applications/@me", headers=headers)
        application = _json(answer) if answer.status_code == httpx.codes.OK else {}
        yield ok(self.name, f"@{_json(me).get('username')}", discord_invite(str(application.get("id", ""))))
        flags = application.get("flags")
        if isinstance(flags, int) and not flags & _MESSAGE_CONTENT:
            remedy = "switch it on in the developer portal, Bot page, Privileged Gateway Intents"
            yield warning(self.name, "the Message Content Intent is off", remedy)
        for finding in self._interactions(discord, application):
            yield finding

    def _interactions(self, discord: DiscordAccount, application: Mapping[str, Any]) -> list[CheckResult]:
        """Check that presses of buttons can reach us: https://discord.com/developers/docs/resources/application"""
        endpoint, key = application.get("interactions_endpoint_url"), application.get("verify_key")
        if discord.interactions == "gateway":
            if not endpoint:
                return []
            remedy = f"clear the Interactions Endpoint URL in the portal, or set {self.table}.interactions = http"
            return [warning(self.name, f"interactions go to {endpoint} and not over the gateway", remedy)]
        if key and key != discord.public_key.lower():
            remedy = f"copy it from the General Information page: {self.table}.public_key"
            return [wrong(self.name, "the public key is that of another application", remedy)]
        if endpoint != self.hook_url:
            remedy = f"set it to {self.hook_url} in the portal while `trivet channels` runs"
            return [warning(self.name, f"the Interactions Endpoint URL is {endpoint or 'empty'}", remedy)]
        return [ok(self.name, f"interactions come to {self.hook_url}")]

    async def slack(self, client: httpx.AsyncClient, slack: SlackAccount) -> AsyncIterator[CheckResult]:
        """Check the app by https://docs.slack.dev/reference/methods/auth.test and apps.connections.open"""
        me = await _slack_call(client, slack, "auth.test", slack.bot_token)
        if not me.get("ok"):
            remedy = f"reinstall the app and copy {self.table}.bot_token (xoxb-…)"
            yield wrong(self.name, _refusal(me, "error"), remedy)
            return
        yield ok(self.name, f"@{me.get('user')} in {me.get('team')}", _slack_link(slack, me))
        if slack.mode == "socket":
            opened = await _slack_call(client, slack, "apps.connections.open", slack.app_token)
            if not opened.get("ok"):
                remedy = f"make an app-level token with connections:write: {self.table}.app_token (xapp-…)"
                yield wrong(self.name, f"Socket Mode: {_refusal(opened, 'error')}", remedy)
        elif not _SIGNING_SECRET.fullmatch(_value(slack.signing_secret)):
            remedy = f"copy it from the Basic Information page: {self.table}.signing_secret"
            yield warning(self.name, "the signing secret does not look like one", remedy)


Clients: TypeAlias = Callable[[str], httpx.AsyncClient]
"""Makes a client that calls by way of a proxy, or directly."""


async def check_platforms(settings: Settings, clients: Clients = platform_client) -> list[CheckResult]:
    """Check each enabled channel; each gives one row, or more where there is more to say."""
    channels = settings.channels
    findings: list[CheckResult] = []
    for name in channels.enabled_names:
        account, table = channels.each()[name], table_of(name)
        if isinstance(account, ApiAccount | PluginAccount):  # nobody's but ours; what plug-ins check is in `checks`
            continue
        if account.missing:
            keys = " and ".join(f"{table}.{key}" for key in account.missing)
            findings.append(wrong(name, f"{keys} is empty", f"set it, or set {table}.enabled = false"))
            continue
        try:
            async with clients(account.proxy) as client:
                findings += [finding async for finding in _Checks(name, hook_url(settings, name)).of(account, client)]
        except (httpx.HTTPError, ValueError, ImportError) as error:
            seen = f"its API cannot be used ({type(error).__name__})"
            remedy = f"check the network and {table}.api_base" + (f" and {table}.proxy" if account.proxy else "")
            findings.append(replace(wrong(name, seen, remedy), is_unreachable=True))
    return findings


def discord_invite(application_id: str) -> str:
    """Return the address that invites a bot with what it needs; empty where its application is not known. See
    https://discord.com/developers/docs/topics/oauth2#bot-authorization-flow"""
    if not application_id:
        return ""
    asked = {"client_id": application_id, "scope": "bot applications.commands", "permissions": DISCORD_PERMISSIONS}
    return f"https://discord.com/oauth2/authorize?{urlencode(asked)}"


def _slack_link(slack: SlackAccount, me: Mapping[str, Any]) -> str:
    """Return the address of a direct message with the app, whose id its app-level token holds, else of its workspace:
    https://docs.slack.dev/interactivity/deep-linking"""
    named = _SLACK_APP.match(_value(slack.app_token))
    if named is None:
        return str(me.get("url") or "")
    return f"https://slack.com/app_redirect?{urlencode({'app': named[1], 'team': me.get('team_id', '')})}"


async def _slack_call(
    client: httpx.AsyncClient, slack: SlackAccount, method: str, token: SecretStr | None
) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {_value(token)}"}
    return _json(await client.post(f"{slack.api_base}{method}", headers=headers))


def _json(response: httpx.Response) -> dict[str, Any]:
    """Return the object in a response. Raises `ValueError` when there is none."""
    body = response.json()
    if not isinstance(body, dict):
        raise ValueError("no object")  # noqa: TRY004 - bad data from a server, not a wrong argument
    return body


def _refusal(body: Mapping[str, Any], field: str) -> str:
    return f"the token is refused: {body.get(field, 'no reason given')}"


def _value(secret: SecretStr | None) -> str:
    return secret.get_secret_value() if secret else ""
