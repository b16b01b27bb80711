"""The meaning of Slack's refusals for a delivery.

Slack answers 200 with `ok: false` and a word; a hung call is a plain `TimeoutError`, a cut one an error of aiohttp,
and both may have been carried out."""

from __future__ import annotations

from typing import Final

import aiohttp
from slack_sdk.errors import SlackApiError

from gateway.contracts import errors

_GONE: Final = frozenset({
    "channel_not_found", "not_in_channel", "is_archived", "user_disabled", "user_not_found", "cannot_dm_bot",
    "restricted_action", "restricted_action_read_only_channel", "restricted_action_thread_only_channel",
    "restricted_action_non_threadable_channel", "restricted_action_thread_locked", "messages_tab_disabled",
    "thread_not_found", "message_not_found", "team_access_not_granted", "ekm_access_denied", "cannot_reply_to_message",
    "no_permission", "access_denied",
})  # fmt: skip
"""Slack's words about one place. The last two also come where the app is not let into a conversation."""
_CREDENTIALS: Final = frozenset({
    "invalid_auth", "not_authed", "token_revoked", "token_expired", "account_inactive", "missing_scope",
    "not_allowed_token_type", "two_factor_setup_required", "enterprise_is_restricted",
})  # fmt: skip
_SHUT_OUT: Final = _CREDENTIALS | {"no_permission", "access_denied"}
"""Slack's words that shut us out when we ask who we are, where no place is meant."""
_NO_SCOPE: Final = frozenset({"missing_scope", "not_allowed_token_type"})
_NOT_FOR_US: Final = _NO_SCOPE | {"no_permission", "access_denied"}
_SAFE: Final = frozenset({
    "service_unavailable", "request_timeout", "accesslimited", "team_added_to_org", "org_login_required",
})  # fmt: skip
"""The last two while a workspace moves into an organisation."""
_UNSURE: Final = frozenset({
    "fatal_error", "internal_error", "duplicate_message_not_found", "duplicate_channel_not_found",
})  # fmt: skip
"""Documented as "some aspect of the operation may have succeeded before the error was raised"; the last two say
that an earlier post with the same client_msg_id exists and cannot be shown."""
CANNOT_BE_CHANGED: Final = frozenset({"message_not_found", "cant_update_message", "edit_window_closed"})
"""Words of chat.update for a message that is gone, or none of ours."""
ALREADY_DELETED: Final = frozenset({"message_not_found"})
CANNOT_BE_DELETED: Final = frozenset({"cant_delete_message", "compliance_exports_prevent_deletion"})
"""Words of chat.delete."""
STILL_STREAMING: Final = frozenset({"streaming_state_conflict"})
"""chat.update, for a message that still grows."""
NEVER_STREAMS: Final = _NO_SCOPE | {"unknown_method", "not_allowed", "feature_not_enabled", "method_deprecated"}
"""chat.startStream, in a workspace that has no streams for us."""

_TOO_MANY: Final = frozenset({"ratelimited", "rate_limited", "message_limit_exceeded"})

_NEVER_LEFT: Final = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
RETRY_AFTER_DEFAULT_S: Final = 5.0  # the header always comes, unless something in between ate it
RETRY_AFTER_MAX_S: Final = 3600.0  # whatever a proxy says


def delivery_error(error: Exception) -> errors.DeliveryError:
    """Choose the branch of our error tree for any error of a call of the SDK."""
    if isinstance(error, SlackApiError):
        return _api_error(error)
    if isinstance(error, _NEVER_LEFT):
        return errors.SendFailed(f"no connection to Slack ({type(error).__name__})")
    return errors.OutcomeUnknown(f"cut before Slack answered ({type(error).__name__})")


def file_error(error: Exception) -> errors.DeliveryError:
    """Choose the branch for a file: an app that may not write files (installed before it asked for `files:write`) still
    writes words."""
    if api_word(error) in _NOT_FOR_US:
        return errors.FormatRefused(
            f"Slack answers {api_word(error)!r}; give the app the scope files:write and reinstall it"
        )
    return error if isinstance(error, errors.DeliveryError) else delivery_error(error)


def opening_error(error: Exception) -> errors.DeliveryError:
    """Choose the branch for opening direct messages: an app that may not do so (it asked for no `im:write`) cannot
    reach the person who asked, and goes on everywhere else."""
    if api_word(error) in _NO_SCOPE:
        return errors.AddressDead(
            f"Slack answers {api_word(error)!r}; give the app the scope im:write and reinstall it"
        )
    return delivery_error(error)


def fetch_error(error: Exception) -> errors.DeliveryError:
    """Choose the branch for a file of somebody else, which may be asked for again after any outcome."""
    found = error if isinstance(error, errors.DeliveryError) else delivery_error(error)
    return found if isinstance(found, errors.FileRefused | errors.RateLimited) else errors.SendFailed(str(found))


def lookup_error(error: Exception) -> errors.DeliveryError:
    """Choose the branch for a look-up: an answer that forbids it (a missing scope) or does not know the place ends it
    for good."""
    match found := error if isinstance(error, errors.DeliveryError) else delivery_error(error):
        case errors.CredentialsRejected() | errors.AddressDead() | errors.FormatRefused():
            return errors.Untraceable(f"the history cannot be read: {found}")
        case _:
            return found


def is_about_streams(error: Exception) -> bool:
    """Tell whether Slack refuses the stream (it ran out, somebody stopped it, it was none, it names no recipient) and
    not the words: a post may do."""
    if api_word(error) in NEVER_STREAMS | CANNOT_BE_CHANGED | _NOT_FOR_US:
        return True
    return isinstance(error, SlackApiError) and isinstance(_api_error(error), errors.FormatRefused)


def api_word(error: Exception) -> str:
    """Return Slack's own word for the error, empty when there was no answer, or one that is no JSON."""
    data = getattr(error.response, "data", None) if isinstance(error, SlackApiError) else None
    return str(data.get("error", "")) if isinstance(data, dict) else ""


def rejected(word: str) -> errors.CredentialsRejected:
    """Explain that Slack does not take a token."""
    return errors.CredentialsRejected(
        f"Slack answers {word!r}; check channels.slack.bot_token and channels.slack.app_token and reinstall the app"
    )


def or_rejected(error: SlackApiError) -> Exception:
    """Return the error itself, unless it says that only the operator can help."""
    word = api_word(error)
    return rejected(word) if word in _SHUT_OUT else error


def asked_to_wait_s(error: Exception) -> float:
    """Return the seconds for which Slack wants to be left alone; 0 where it did not name any."""
    found = _api_error(error) if isinstance(error, SlackApiError) else None
    return found.retry_after_s if isinstance(found, errors.RateLimited) else 0.0


def _api_error(error: SlackApiError) -> errors.DeliveryError:
    word = api_word(error)
    status = getattr(error.response, "status_code", None) or getattr(error.response, "status", 0)
    if word in _TOO_MANY or status == 429:
        return errors.RateLimited(_retry_after_s(error))
    if word in _CREDENTIALS:
        return rejected(word)
    if word in _GONE:
        return errors.AddressDead(f"Slack answers {word!r}")
    if word in _UNSURE:
        return errors.OutcomeUnknown(f"Slack answers {word!r}")
    if word in _SAFE or (not word and status == 503):
        return errors.SendFailed(f"Slack answers {word or status!r}")
    if not word:
        return errors.OutcomeUnknown(f"Slack answers {status} without a reason")
    return errors.FormatRefused(f"Slack answers {word!r}")


def _retry_after_s(error: SlackApiError) -> float:
    headers = getattr(error.response, "headers", None) or {}
    try:
        return min(max(0.0, float(headers.get("Retry-After", RETRY_AFTER_DEFAULT_S))), RETRY_AFTER_MAX_S)
    except ValueError:
        return RETRY_AFTER_DEFAULT_S
