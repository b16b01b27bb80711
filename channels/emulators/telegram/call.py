"""One call of a method: its parameters as the server reads them, its refusals, and what it spends."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from json import JSONDecodeError
from typing import Final

from starlette.datastructures import UploadFile
from starlette.requests import Request

from channels.emulators.telegram.world import Json

# --- the errors of the API; clients match on their descriptions


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


# --- parameters from the query, a form, a multipart body or JSON


@dataclass(frozen=True, slots=True)
class Upload:
    """A file that came with the call."""

    name: str
    mime_type: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Call:
    """`method` in lower case. Values are text, except those that came in a JSON body."""

    method: str
    given: Mapping[str, object] = field(default_factory=dict)
    uploads: Mapping[str, Upload] = field(default_factory=dict)

    def text(self, name: str) -> str:
        value = self.given.get(name)
        if value is None:
            return ""
        if isinstance(value, bool):
            return "true" if value else "false"
        return value if isinstance(value, str) else json.dumps(value) if isinstance(value, dict | list) else str(value)

    def number(self, name: str, default: int = 0) -> int:
        """Read a number; text that is none counts as `default`, as it does for the server."""
        try:
            return int(self.text(name))
        except ValueError:
            return default

    def flag(self, name: str) -> bool:
        return self.text(name).lower() in {"true", "yes", "1"}

    def structure(self, name: str) -> object:
        """Parse a JSON-serialised parameter, None when absent. Raises 400 when it is not JSON."""
        value = self.given.get(name)
        if not isinstance(value, str):
            return value
        if not value.strip():
            return None
        try:
            return json.loads(value)
        except JSONDecodeError:
            what = name.replace("_", " ")
            raise bad_request(f"can't parse {what} JSON object") from None

    def table(self, name: str) -> Json | None:
        value = self.structure(name)
        if value is None or isinstance(value, dict):
            return value
        raise bad_request(f"object expected as {name.replace('_', ' ')}")

    def rows(self, name: str) -> list[object] | None:
        value = self.structure(name)
        if value is None or isinstance(value, list):
            return value
        raise bad_request(f"expected an Array of {name.replace('_', ' ')}")


async def read_call(request: Request, method: str) -> Call:
    """Read the call that a request carries. Raises 400 for a body that is not what its type says."""
    given: dict[str, object] = dict(request.query_params)
    uploads: dict[str, Upload] = {}
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json":
        body = await request.body()
        try:
            parsed = json.loads(body) if body.strip() else {}
        except (JSONDecodeError, UnicodeDecodeError):
            raise bad_request("can't parse JSON object") from None
        if not isinstance(parsed, dict):
            raise bad_request("object expected as parameters")
        given |= parsed
    elif kind in {"application/x-www-form-urlencoded", "multipart/form-data"}:
        async with request.form() as form:
            for name, value in form.multi_items():
                if isinstance(value, UploadFile):
                    mime_type = value.content_type or "application/octet-stream"
                    uploads[name] = Upload(value.filename or name, mime_type, await value.read())
                else:
                    given[name] = value
    return Call(method.lower(), given, uploads)


# --- how much a bot may send
#
# The vendor documents about one message a second in a chat (short bursts pass), 20 a minute in a group and about
# 30 a second overall; how much burst passes is not published, so the bursts here are our reading.


@dataclass(frozen=True, slots=True)
class Allowance:
    """`burst` calls at once, then `per_s` a second."""

    burst: float
    per_s: float


PRIVATE: Final = Allowance(burst=20, per_s=1)
GROUP: Final = Allowance(burst=20, per_s=20 / 60)
OVERALL: Final = Allowance(burst=120, per_s=30)

_EVERYTHING: Final = 0  # no chat has this id


@dataclass(slots=True)
class _Bucket:
    left: float
    at: float


class Quotas:
    """`now` gives seconds that do not run backwards."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._buckets: dict[int, _Bucket] = {}

    def spend(self, chat_id: int) -> None:
        """Take one message's worth. Raises the 429 that tells when there will be enough again."""
        allowance = GROUP if chat_id < 0 else PRIVATE
        wait_s = max(self._wait_s(_EVERYTHING, OVERALL), self._wait_s(chat_id, allowance))
        if wait_s > 0:
            raise too_many_requests(math.ceil(wait_s))
        self._buckets[_EVERYTHING].left -= 1
        self._buckets[chat_id].left -= 1

    def _wait_s(self, name: int, allowance: Allowance) -> float:
        now = self._now()
        bucket = self._buckets.setdefault(name, _Bucket(allowance.burst, now))
        bucket.left = min(allowance.burst, bucket.left + (now - bucket.at) * allowance.per_s)
        bucket.at = now
        return max(0.0, 1 - bucket.left) / allowance.per_s
