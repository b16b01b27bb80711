"""Who may use the operator's API: whoever holds the admin token. There is no way to run without one."""

from __future__ import annotations

import base64
import binascii
import hmac
from typing import Final

from fastapi import HTTPException, Request
from starlette.status import HTTP_401_UNAUTHORIZED

from gateway.contracts.errors import ConfigError

_BEARER: Final = 'Bearer realm="trivet"'
_BASIC: Final = 'Basic realm="Trivet: any name, the admin token as password", charset="UTF-8"'


class AdminToken:
    """Compares in constant time. Raises `ConfigError` for an empty token, so that no door stands open."""

    def __init__(self, token: str) -> None:
        if not token.strip():
            raise ConfigError("the admin token is empty: set http.admin_token or delete <data_dir>/admin-token")
        self._token = token.encode()

    def require(self, request: Request) -> None:
        """FastAPI dependency of the API: `Authorization: Bearer <token>`, else 401."""
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not self._is_right(given.strip()):
            raise HTTPException(HTTP_401_UNAUTHORIZED, "the admin token is required", {"WWW-Authenticate": _BEARER})

    def require_from_browser(self, request: Request) -> None:
        """Dependency of pages that only show: also takes the password a browser asks for.

        Not for the API: a browser sends such a password along with requests that other sites made it send.
        """
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        secret = _password(given.strip()) if scheme.lower() == "basic" else given.strip()
        if scheme.lower() not in {"basic", "bearer"} or not self._is_right(secret):
            raise HTTPException(HTTP_401_UNAUTHORIZED, "the admin token is required", {"WWW-Authenticate": _BASIC})

    def _is_right(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self._token)


def _password(credentials: str) -> str:
    try:
        return base64.b64decode(credentials, validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return ""
