"""The meaning of Discord's refusals for a delivery.

A dropped connection escapes discord.py as a raw error of aiohttp, and the message may be there; the nonce makes
sending it again harmless for a few minutes, and the history tells after that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import aiohttp
import discord

from gateway.contracts import errors

_GONE_CODES: Final = frozenset({
    10003,  # unknown channel
    50001,  # missing access
    50007,  # cannot send messages to this user
    50008,  # cannot send messages in a non-text channel
    50013,  # missing permissions
    50083,  # the thread is archived
    160005,  # the thread is locked
})  # fmt: skip
_TURNED_OFF: Final = 40333  # Discord's own network turned the request away
RETRY_AFTER_DEFAULT_S: Final = 5.0

REJECTED: Final = (
    "Discord does not accept the bot token; reset it in the developer portal and set channels.discord.token"
)
INTENT_MISSING: Final = (
    "Discord refuses the MESSAGE CONTENT intent; switch it on in the developer portal under Bot, "
    "Privileged Gateway Intents"
)
SHARDS_WRONG: Final = "Discord does not take so few connections from this bot; set channels.discord.shards to 0"
OUTDATED: Final = "Discord does not let this version of Trivet in; look for a newer one"

CLOSED_FOR_GOOD: Final[Mapping[int, str]] = {
    4004: REJECTED,  # authentication failed
    4010: SHARDS_WRONG,  # invalid shard
    4011: SHARDS_WRONG,  # sharding required
    4012: OUTDATED,  # invalid API version
    4013: OUTDATED,  # invalid intents
    4014: INTENT_MISSING,  # disallowed intents
}
"""The codes after which the gateway will close every new connection, too, and the operator's remedy."""


def delivery_error(error: Exception) -> errors.DeliveryError:
    """Choose the branch of our error tree for any error of a call of discord.py."""
    match error:
        case errors.DeliveryError():
            return error
        case discord.RateLimited():
            return errors.RateLimited(error.retry_after)
        case discord.LoginFailure():
            return errors.CredentialsRejected(REJECTED)
        case discord.HTTPException():
            said = f"Discord answers {error.status}, code {error.code}"
            if error.status == 429:
                scope = error.response.headers.get("X-RateLimit-Scope", "")
                return errors.RateLimited(_retry_after_s(error), is_global=scope == "global")
            if error.code == _TURNED_OFF or (error.status in (401, 403, 404) and not _is_discords(error)):
                return errors.SendFailed(f"{said}: not by Discord itself")
            if error.status == 401:
                return errors.CredentialsRejected(REJECTED)
            if error.status in (403, 404) or error.code in _GONE_CODES:
                return errors.AddressDead(said)
            if error.status >= 500:
                return errors.OutcomeUnknown(said)
            return errors.FormatRefused(said)
        case aiohttp.ClientConnectorError():
            return errors.SendFailed("no connection to Discord")
        case _:
            return errors.OutcomeUnknown(f"cut before Discord answered ({type(error).__name__})")


def _is_discords(error: discord.HTTPException) -> bool:
    """Tell whether Discord itself refused. A proxy in front of the API refuses with a page, and says nothing of the
    place that was written to, nor of the token."""
    return error.code != 0 or error.response.headers.get("Content-Type", "").startswith("application/json")


def _retry_after_s(error: discord.HTTPException) -> float:
    try:
        return max(0.0, float(error.response.headers.get("Retry-After", RETRY_AFTER_DEFAULT_S)))
    except ValueError:
        return RETRY_AFTER_DEFAULT_S
