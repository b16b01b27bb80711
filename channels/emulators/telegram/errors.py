"""The errors of the Bot API: an HTTP status, a description, and sometimes parameters.

Descriptions are the ones the real server sends: clients match on them.
"""

from __future__ import annotations

from collections.abc import Mapping


class ApiError(Exception):
    """A call was refused. `parameters` is the API's ResponseParameters, if it has any."""

    def __init__(self, status: int, description: str, parameters: Mapping[str, int] | None = None) -> None:
        super().__init__(description)
        self.status = status
        self.description = description
        self.parameters = parameters


def bad_request(what: str) -> ApiError:
    return ApiError(400, f"Bad Request: {what}")


def forbidden(what: str) -> ApiError:
    return ApiError(403, f"Forbidden: {what}")


def conflict(what: str) -> ApiError:
    return ApiError(409, f"Conflict: {what}")


def unauthorized() -> ApiError:
    return ApiError(401, "Unauthorized")


def method_not_found() -> ApiError:
    return ApiError(404, "Not Found: method not found")


def too_many_requests(retry_after_s: int) -> ApiError:
    return ApiError(429, f"Too Many Requests: retry after {retry_after_s}", {"retry_after": retry_after_s})


def upgraded(new_chat_id: int) -> ApiError:
    return ApiError(
        400,
        "Bad Request: group chat was upgraded to a supergroup chat",
        {"migrate_to_chat_id": new_chat_id},
    )
