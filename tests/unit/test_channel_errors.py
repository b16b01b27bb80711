"""What each platform's refusals mean for a delivery: the table, row by row."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import discord
import pytest
from slack_sdk.errors import SlackApiError
from telegram.error import (
    BadRequest,
    ChatMigrated,
    Conflict,
    Forbidden,
    InvalidToken,
    NetworkError,
    TelegramError,
    TimedOut,
)

from channels.discord.client import point_rest_at
from channels.discord.errors import delivery_error as discord_error
from channels.slack.errors import delivery_error as slack_error
from channels.slack.errors import opening_error, or_rejected
from channels.telegram.client import NotConnected
from channels.telegram.errors import delivery_error as telegram_error
from channels.telegram.errors import seconds
from gateway.contracts.errors import (
    AddressDead,
    AddressMoved,
    CredentialsRejected,
    DeliveryError,
    FormatRefused,
    OutcomeUnknown,
    RateLimited,
    SendFailed,
)
from gateway.contracts.ids import ReplyAddress

NEW_HOME = ReplyAddress("telegram", "-200", "{}")
UNFORESEEN = NetworkError("at https://api.example/bot42:token")
UNFORESEEN.__cause__ = RuntimeError("at https://api.example/bot42:token")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ChatMigrated(-200), AddressMoved),
        (BadRequest("Can't parse entities: unsupported start tag"), FormatRefused),
        (BadRequest("Message is too long"), FormatRefused),
        (BadRequest("Chat not found"), AddressDead),
        (BadRequest("Message thread not found"), AddressDead),
        (BadRequest("Not enough rights to send text messages to the chat"), AddressDead),
        (BadRequest("USER_IS_BLOCKED"), AddressDead),
        (BadRequest("TOPIC_ID_INVALID"), AddressDead),
        (BadRequest("CHANNEL_PRIVATE"), AddressDead),
        (Forbidden("bot was blocked by the user"), AddressDead),
        (InvalidToken("Unauthorized"), CredentialsRejected),
        (NetworkError("Bad Gateway (502)"), OutcomeUnknown),
        (NetworkError("Too Many Requests: retry after 7"), RateLimited),  # without its parameters
        (NetworkError("Too Many Requests"), RateLimited),
        (NetworkError("Request Entity Too Large (413)"), FormatRefused),
        (NetworkError("cut before an answer came"), OutcomeUnknown),
        (UNFORESEEN, OutcomeUnknown),
        (NotConnected("ClientConnectorError"), SendFailed),
        (TimedOut(), OutcomeUnknown),
        (Conflict("conflict"), OutcomeUnknown),
    ],
)
def test_telegram(error: TelegramError, expected: type[DeliveryError]) -> None:
    refusal = telegram_error(error, lambda chat_id: NEW_HOME)
    assert type(refusal) is expected
    assert "42:token" not in str(refusal)


def test_telegram_says_how_long_to_wait_in_two_ways() -> None:
    """Whole seconds, or a timedelta where the environment asks for it."""
    assert (seconds(3), seconds(timedelta(seconds=3))) == (3.0, 3.0)


def test_telegram_says_how_long_to_wait_in_words_only() -> None:
    refusal = telegram_error(NetworkError("Too Many Requests: retry after 7"), lambda chat_id: NEW_HOME)
    assert isinstance(refusal, RateLimited)
    assert refusal.retry_after_s == 7.0


def slack_answer(word: str | None, status: int = 200, headers: dict[str, str] | None = None) -> SlackApiError:
    """An answer of the Web API; without a word, one that was no JSON."""
    data: Any = b"<html>" if word is None else {"ok": False, "error": word}
    response = SimpleNamespace(data=data, status_code=status, headers=headers or {})
    return SlackApiError("refused", cast(Any, response))  # type: ignore[no-untyped-call]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (slack_answer("channel_not_found"), AddressDead),
        (slack_answer("is_archived"), AddressDead),
        (slack_answer("invalid_auth"), CredentialsRejected),
        (slack_answer("missing_scope"), CredentialsRejected),
        (slack_answer("account_inactive"), CredentialsRejected),
        (slack_answer("no_permission"), AddressDead),
        (slack_answer("access_denied"), AddressDead),
        (slack_answer("org_login_required"), SendFailed),
        (slack_answer("msg_too_long"), FormatRefused),
        (slack_answer("invalid_blocks"), FormatRefused),
        (slack_answer("fatal_error"), OutcomeUnknown),
        (slack_answer("internal_error"), OutcomeUnknown),
        (slack_answer("service_unavailable"), SendFailed),
        (slack_answer(None, 502), OutcomeUnknown),
        (slack_answer(None, 503), SendFailed),
        (aiohttp.ServerDisconnectedError(), OutcomeUnknown),
        (TimeoutError(), OutcomeUnknown),
    ],
)
def test_slack(error: Exception, expected: type[DeliveryError]) -> None:
    assert type(slack_error(error)) is expected


@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({}, 5.0),
        ({"Retry-After": "soon"}, 5.0),
        ({"Retry-After": "inf"}, 3600.0),
        ({"Retry-After": "nan"}, 0.0),
        ({"Retry-After": "-5"}, 0.0),
    ],
)
def test_slack_says_how_long_to_wait_in_a_header(headers: dict[str, str], wait_s: float) -> None:
    refusal = slack_error(slack_answer("ratelimited", 429, headers))
    assert isinstance(refusal, RateLimited)
    assert refusal.retry_after_s == wait_s


def test_what_one_place_of_slack_refuses_ends_nothing_else() -> None:
    """`no_permission` of a post concerns its channel, of auth.test the app."""
    assert isinstance(or_rejected(slack_answer("no_permission")), CredentialsRejected)
    assert isinstance(opening_error(slack_answer("missing_scope")), AddressDead)
    assert isinstance(opening_error(slack_answer("token_revoked")), CredentialsRejected)


def discord_answer(status: int, code: int = 0, headers: dict[str, str] | None = None) -> discord.HTTPException:
    """An answer of the REST API."""
    response = SimpleNamespace(status=status, reason="", headers=headers or {})
    kinds = {403: discord.Forbidden, 404: discord.NotFound}
    kind = discord.DiscordServerError if status >= 500 else kinds.get(status, discord.HTTPException)
    return kind(cast(Any, response), {"code": code, "message": ""})


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (discord_answer(403, 50013), AddressDead),
        (discord_answer(404, 10003), AddressDead),
        (discord_answer(400, 50083), AddressDead),
        (discord_answer(404, headers={"Content-Type": "application/json"}), AddressDead),
        (discord_answer(403, headers={"Content-Type": "text/html"}), SendFailed),  # Cloudflare's page
        (discord_answer(404, headers={"Content-Type": "text/html"}), SendFailed),
        (discord_answer(403, 40333), SendFailed),  # their network, not the place
        (discord_answer(400, 50035), FormatRefused),
        (discord_answer(400, 50006), FormatRefused),
        (discord_answer(401, headers={"Content-Type": "application/json"}), CredentialsRejected),
        (discord_answer(401, headers={"Content-Type": "text/html"}), SendFailed),  # a proxy's page
        (discord.LoginFailure(), CredentialsRejected),
        (discord_answer(502), OutcomeUnknown),
        (discord_answer(503), OutcomeUnknown),
        (discord.RateLimited(90.0), RateLimited),
        (aiohttp.ServerDisconnectedError(), OutcomeUnknown),
        (TimeoutError(), OutcomeUnknown),
    ],
)
def test_discord(error: Exception, expected: type[DeliveryError]) -> None:
    assert type(discord_error(error)) is expected


def test_discord_says_how_long_to_wait_in_a_header() -> None:
    refusal = discord_error(discord_answer(429, headers={"Retry-After": "2.5"}))
    assert isinstance(refusal, RateLimited)
    assert refusal.retry_after_s == 2.5


async def test_discord_says_how_long_to_wait_in_its_answer_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK looks there only if the answer has come through Discord's own proxy."""

    async def text(encoding: str) -> str:
        return '{"message": "You are being rate limited.", "retry_after": 7.5, "global": false}'

    response = SimpleNamespace(status=429, headers={}, content_type="application/json", text=text)
    monkeypatch.setattr(discord.http.Route, "BASE", "")  # put back afterwards
    point_rest_at("http://127.0.0.1:1/api/v10")
    with pytest.raises(discord.RateLimited) as caught:
        await discord.http.json_or_text(cast(Any, response))
    refusal = discord_error(caught.value)
    assert isinstance(refusal, RateLimited)
    assert refusal.retry_after_s == 7.5
