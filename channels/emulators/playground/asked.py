"""What a request to the control API asks for: read and checked once, or refused with a sentence."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

from starlette.requests import Request

from channels.emulators.stage import Faults, SharedFile

BODY_BYTES_MAX: Final = 256 * 1024
_HALF: Final = re.compile(r"[\ud800-\udfff]")  # of a character that a client cut in two: no answer could hold it
_FAULTS: Final = {each.name for each in fields(Faults)}


class Refused(Exception):
    """A call of the control API was refused; the message is fit to be shown."""

    def __init__(self, why: str, status: int = 400) -> None:
        super().__init__(why)
        self.status = status


async def json_body(request: Request, *, bytes_max: int = BODY_BYTES_MAX) -> dict[str, Any]:
    """The JSON object a request carries. A form cannot carry one, so no foreign page can send it."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise Refused("the body must be application/json")
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > bytes_max:
            raise Refused(f"the body is larger than {bytes_max} bytes")
    try:
        given = json.loads(body or b"{}")
    except ValueError:
        raise Refused("the body is not JSON") from None
    if not isinstance(given, dict):
        raise Refused("the body must be a JSON object")
    return given


def files_of(given: object) -> tuple[SharedFile, ...]:
    if not isinstance(given, list) or not all(isinstance(each, dict) for each in given):
        raise Refused("files must be a list of objects")
    try:
        return tuple(
            SharedFile(text_of(each, "name"), text_of(each, "media_type"), b64decode(each["base64"], validate=True))
            for each in given
        )
    except (KeyError, TypeError, ValueError):
        raise Refused("base64 must hold the bytes of a file") from None


def text_of(given: Mapping[str, Any], name: str) -> str:
    value = given.get(name)
    if not isinstance(value, str) or not value:
        raise Refused(f"{name} must be text")
    if _HALF.search(value):
        raise Refused(f"{name} holds half a character")
    return value


def optional_text(given: Mapping[str, Any], name: str) -> str | None:
    return None if given.get(name) in (None, "") else text_of(given, name)


def switch(faults: Faults, given: Mapping[str, Any]) -> None:
    """Set the named fields, all or none of them."""
    for name, value in given.items():
        if name not in _FAULTS:
            raise Refused(f"no fault is called {name!r}")
        if name == "other":
            if not isinstance(value, dict) or not all(isinstance(each, int | float) for each in value.values()):
                raise Refused("other must map names to numbers")
        elif not isinstance(value, type(getattr(faults, name))) and not (
            isinstance(getattr(faults, name), float) and isinstance(value, int)
        ):
            raise Refused(f"{name} must be a {type(getattr(faults, name)).__name__}")
    for name, value in given.items():
        if name == "other":
            faults.other.update(value)
        else:
            setattr(faults, name, value)
