"""Who may use the operator's API: whoever holds the admin token. There is no way to run without one."""

from __future__ import annotations

import base64
import binascii
import hmac
from typing import Final
from urllib.parse import urlsplit

from fastapi import HTTPException, Request
from starlette.status import HTTP_401_UNAUTHORIZED

from gateway.contracts.errors import ConfigError

_BEARER: Final = 'Bearer realm="trivet"'
_BASIC: Final = 'Basic realm="Trivet: any name, the admin token as password", charset="UTF-8"'
_READING: Final = frozenset({"GET", "HEAD"})
_FROM_OUR_SCRIPT: Final = "trivet-page"  # a header: see `require_to_act`


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

    def require_to_read(self, request: Request) -> None:
        """Dependency of API routes that only read and that our own pages fetch: as `require`, or the password that the
        browser was asked for on such a page, if one of our pages makes the request.

        A browser adds that password to whatever it requests of us, on behalf of any site. Such a request could change
        nothing here, nor could the site read the answer; it is refused all the same, so that nobody's page holds
        connections or runs queries. Who asks, browsers say in headers that no script can set: `Sec-Fetch-Site`, or,
        where they leave that out (plain HTTP to another machine), `Referer`.
        """
        self._require_or_password(request, takes_password=request.method in _READING and _is_from_our_page(request))

    def require_to_act(self, request: Request) -> None:
        """Dependency of API routes that change something and that our own pages call: as `require`, or the password
        that the browser was asked for, if the script of one of our pages makes the request.

        That it does is said twice. The browser says it in headers that no script can set: `Sec-Fetch-Site`, or, where
        it leaves that out, `Origin`. And our script adds a header of its own, which no form and no picture can; before
        another site's script may, its browser asks us, and is not answered.
        """
        is_ours = _FROM_OUR_SCRIPT in request.headers and _is_from_our_page(request)
        self._require_or_password(request, takes_password=is_ours)

    def require_before_body(self, request: Request) -> None:
        """What any request that may bring a body needs before a byte of it is read; its route may ask for more."""
        if request.method not in _READING:
            self.require_to_act(request)

    def require_from_browser(self, request: Request) -> None:
        """Dependency of pages that only show: also takes the password a browser asks for.

        Not for the API: a browser sends such a password along with requests that other sites made it send.
        """
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        secret = _password(given.strip()) if scheme.lower() == "basic" else given.strip()
        if scheme.lower() not in {"basic", "bearer"} or not self._is_right(secret):
            raise HTTPException(HTTP_401_UNAUTHORIZED, "the admin token is required", {"WWW-Authenticate": _BASIC})

    def _require_or_password(self, request: Request, *, takes_password: bool) -> None:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "basic" or not takes_password:
            self.require(request)
        elif not self._is_right(_password(given.strip())):
            raise HTTPException(HTTP_401_UNAUTHORIZED, "the admin token is required", {"WWW-Authenticate": _BEARER})

    def _is_right(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self._token)


def _is_from_our_page(request: Request) -> bool:
    """By what the browser says of the page that made the request."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    host = request.headers.get("host", "")
    page = request.headers.get("referer" if request.method in _READING else "origin", "")
    return bool(host) and urlsplit(page).netloc == host


def _password(credentials: str) -> str:
    try:
        return base64.b64decode(credentials, validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return ""
