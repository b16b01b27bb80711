"""Discord's errors as its API spells them: an HTTP status, a JSON code and a message."""

from __future__ import annotations

from typing import Final

from channels.emulators.traffic import Json


class Refused(Exception):
    """The request is answered with this error."""

    def __init__(self, status: int, code: int, message: str, errors: Json | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.errors = errors

    def body(self) -> Json:
        body: Json = {"message": self.message, "code": self.code}
        return body if self.errors is None else body | {"errors": self.errors}


def unauthorized() -> Refused:
    return Refused(401, 0, "401: Unauthorized")


def no_such_route() -> Refused:
    return Refused(404, 0, "404: Not Found")


_UNKNOWN: Final = {
    "Application": 10002,
    "Channel": 10003,
    "Guild": 10004,
    "Member": 10007,
    "Message": 10008,
    "User": 10013,
    "Emoji": 10014,
    "Webhook": 10015,
    "interaction": 10062,
    "application command": 10063,
}


def unknown(what: str) -> Refused:
    """404 `Unknown Channel` and its like."""
    return Refused(404, _UNKNOWN[what], f"Unknown {what}")


def invalid_form(path: str, code: str, message: str) -> Refused:
    """400 / 50035 with the error hung under the field it is about; `path` is dotted."""
    errors: Json = {"_errors": [{"code": code, "message": message}]}
    for part in reversed(path.split(".")):
        errors = {part: errors}
    return Refused(400, 50035, "Invalid Form Body", errors)


def empty_message() -> Refused:
    return Refused(400, 50006, "Cannot send an empty message")


_FORBIDDEN: Final = {
    50001: "Missing Access",
    50003: "Cannot execute action on a DM channel",
    50005: "Cannot edit a message authored by another user",
    50007: "Cannot send messages to this user",
    50013: "Missing Permissions",
    50021: "Cannot execute action on a system message",
}


def forbidden(code: int) -> Refused:
    return Refused(403, code, _FORBIDDEN.get(code, "Missing Permissions"))
