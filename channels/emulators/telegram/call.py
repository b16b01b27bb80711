"""One call of a method: parameters from the query, a form, a multipart body or JSON, read as the server reads them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from json import JSONDecodeError

from starlette.datastructures import UploadFile
from starlette.requests import Request

from channels.emulators.telegram.errors import bad_request
from channels.emulators.telegram.people import Json


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
        """Text that is no number counts as `default`, as it does for the server."""
        try:
            return int(self.text(name))
        except ValueError:
            return default

    def flag(self, name: str) -> bool:
        return self.text(name).lower() in {"true", "yes", "1"}

    def structure(self, name: str) -> object:
        """A JSON-serialised parameter, None when absent. Raises 400 when it is not JSON."""
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
    """The call that a request carries. Raises 400 for a body that is not what its type says."""
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
