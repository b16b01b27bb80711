"""The object around every answer of a Bot API server. Pure.

"The response contains a JSON object, which always has a Boolean field 'ok'" (Bot API, Making requests). It says nothing
of the HTTP status, which servers in between may change.
"""

from __future__ import annotations

import json
from http import HTTPStatus

from channels.raw import integer, mapping


def status_in(body: bytes) -> int | None:
    """What an answer says of itself as a status of HTTP: 200, or its `error_code`. None for what is no such object."""
    try:
        response = mapping(json.loads(body))
    except (ValueError, RecursionError):
        return None
    if response.get("ok") is True:
        return HTTPStatus.OK if "result" in response else None
    code = integer(response.get("error_code")) or 0
    return (code if code >= HTTPStatus.BAD_REQUEST else HTTPStatus.INTERNAL_SERVER_ERROR) if "ok" in response else None
