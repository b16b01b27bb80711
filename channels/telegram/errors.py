"""The meaning of Telegram's refusals for a delivery. Pure but for reading the SDK's exception types.

`BadRequest` is a subclass of `NetworkError` in python-telegram-bot, so the order of the cases matters."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Final

from telegram.error import (
    BadRequest,
    ChatMigrated,
    Forbidden,
    InvalidToken,
    NetworkError,
    RetryAfter,
    TelegramError,
    TimedOut,
)

from channels.telegram.client import NotConnected
from gateway.contracts import errors
from gateway.contracts.ids import ReplyAddress
from gateway.tasks import Backoff

_GONE: Final = (
    "chat not found", "user not found", "peer_id_invalid", "group chat was deactivated", "user is deactivated",
    "user_deactivated", "bot was kicked", "bot was blocked", "user_is_blocked", "banned_in_channel", "channel_private",
    "chat_admin_required", "not enough rights", "have no rights", "need administrator rights", "chat_write_forbidden",
    "chat_restricted", "chat_send_plain_forbidden", "topic_closed", "topic_deleted", "topic_id_invalid",
    "message thread not found",
)  # fmt: skip
"""Descriptions of a 400 that say "not here, not any more"."""

_TOO_LARGE: Final = "request entity too large"
"""A 413, which python-telegram-bot knows as a network error."""

_TOO_MANY: Final = re.compile(r"too many requests(?:: retry after (\d+))?")
"""A 429 whose delay is in its description only, which python-telegram-bot knows as a network error."""
_RETRY_AFTER_DEFAULT_S: Final = 5.0

REJECTED: Final = "Telegram does not accept the bot token; set it to the one that @BotFather shows"


def delivery_error(error: TelegramError, moved: Callable[[int], ReplyAddress]) -> errors.DeliveryError:
    """Choose the branch of our tree for `error`. `moved` gives the address in the chat with a new id."""
    match error:
        case RetryAfter():
            return errors.RateLimited(seconds(error.retry_after))
        case ChatMigrated():
            return errors.AddressMoved(moved(error.new_chat_id))
        case BadRequest():
            said = error.message.lower()
            if any(sign in said for sign in _GONE):
                return errors.AddressDead(error.message)
            return errors.FormatRefused(error.message)
        case Forbidden():
            return errors.AddressDead(error.message)
        case InvalidToken():
            return errors.CredentialsRejected(REJECTED)
        case TimedOut() | NetworkError():
            said = error.message.lower()
            if _TOO_LARGE in said:
                return errors.FormatRefused(error.message)
            if too_many := _TOO_MANY.match(said):
                return errors.RateLimited(float(too_many[1] or _RETRY_AFTER_DEFAULT_S))
            if isinstance(error, NotConnected):
                return errors.SendFailed(f"no connection ({error.message})")
            cause = error.__cause__  # something that nobody foresaw, and its text may hold the address
            # Also after a 5xx: a server in between may have lost the answer only.
            return errors.OutcomeUnknown(
                error.message if cause is None else f"cut before an answer came ({type(cause).__name__})"
            )
        case _:
            return errors.OutcomeUnknown(type(error).__name__)


def fetch_error(error: TelegramError) -> errors.DeliveryError:
    """Choose the branch for a question that may be asked again after any outcome."""
    if isinstance(error, RetryAfter):
        return errors.RateLimited(seconds(error.retry_after))
    return errors.SendFailed(f"Telegram does not say where a file is ({type(error).__name__})")


def wait_s(error: Exception, backoff: Backoff) -> float:
    """Return the seconds that the server asks to wait, otherwise our own choice."""
    asked_s = getattr(error, "retry_after", None)
    return seconds(asked_s) if asked_s is not None else backoff.next_s()


def seconds(delay: float | timedelta) -> float:
    """Convert a delay to seconds: the library hands out whole seconds or a timedelta, as its environment says."""
    return delay.total_seconds() if isinstance(delay, timedelta) else float(delay)
