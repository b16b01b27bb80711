"""Shared parts of all routes: who may use the API, parameters, and answers that went through the scrubber.

Stored text was scrubbed when it came in, by the rules and the secrets known then; since both grow, it is scrubbed
again on the way out. A refusal quotes what it refuses, so it takes the same way, and one of FastAPI's leaves out the
text that was sent. The refusals of a route are in its documentation (`refusals`).
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Callable
from typing import Annotated, Any, Final, TypeVar
from urllib.parse import urlsplit

from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette import status
from starlette.exceptions import HTTPException
from starlette.status import HTTP_401_UNAUTHORIZED

from gateway.contracts.errors import BadSessionKey, BusError, ConfigError, StoreError
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import each_text
from gateway.scrub import Scrubber


class Refusal(BaseModel):
    """Why it is not done."""

    detail: str


class Problem(BaseModel):
    """What is wrong with one part of a request."""

    where: list[str | int] = Field(description='The way to it, such as `["query", "limit"]`.')
    problem: str


class Malformed(BaseModel):
    """What is wrong with a request."""

    detail: list[Problem] | str


def refusals(*codes: int) -> dict[int | str, dict[str, Any]]:
    """Describe, for the documentation, these answers of a route as a `Refusal`."""
    return {code: {"model": Refusal} for code in codes}


def clean_json(scrubber: Scrubber) -> type[JSONResponse]:
    """Build the class of every answer of the API, which scrubs secrets."""

    class CleanJson(JSONResponse):
        def render(self, content: Any) -> bytes:
            return super().render(each_text(content, scrubber.scrub))

    return CleanJson


def refuse_in(app: FastAPI, answer: type[JSONResponse]) -> None:
    """Turn every refusal of `app` into such an answer."""

    async def refused(_request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        return answer({"detail": error.detail}, error.status_code, error.headers)

    async def malformed(_request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        told = [{"where": list(problem["loc"]), "problem": _in_words(problem["msg"])} for problem in error.errors()]
        return answer({"detail": told}, status.HTTP_422_UNPROCESSABLE_CONTENT)

    async def unavailable(_request: Request, error: Exception) -> JSONResponse:
        return answer({"detail": str(error)}, status.HTTP_503_SERVICE_UNAVAILABLE)

    app.add_exception_handler(HTTPException, refused)
    app.add_exception_handler(RequestValidationError, malformed)
    app.add_exception_handler(BusError, unavailable)
    app.add_exception_handler(StoreError, unavailable)


def no_nul(request: Request) -> None:
    """Refuse, as FastAPI dependency of every route, an address or a query with a NUL: 422. Nothing is called so, and
    PostgreSQL would refuse to look."""
    if any("\0" in text for text in (request.scope["path"], *request.query_params.values())):
        raise HTTPException(status.HTTP_422_UNPROCESSABLE_CONTENT, "there is no NUL in any name here")


def _in_words(problem: str) -> str:
    """Express a problem in the terms of JSON, which has no tuples, and without pydantic's prefix before a sentence of
    ours."""
    return problem.removeprefix("Value error, ").replace("a valid tuple", "a valid list")


# Parameters that several routes share: session keys, lengths of lists; and the actor of their changes.


_Read = TypeVar("_Read")

ADMIN: Final = "admin"
"""Whoever holds the admin token: the API knows no other names."""

PAGE_MAX: Final = 500  # rows of one answer: a dashboard shows fewer, an export pages on
PAGE_DEFAULT: Final = 50

Limit = Annotated[int, Query(ge=1, le=PAGE_MAX)]


def read(text: str, parse: Callable[[str], _Read]) -> _Read:
    """Parse a name in a request. Raises 422 for an invalid one."""
    try:
        return parse(text)
    except BadSessionKey as error:
        raise HTTPException(status.HTTP_422_UNPROCESSABLE_CONTENT, str(error)) from error


def key_of(text: str) -> SessionKey:
    """Parse a session key. Raises 422."""
    return read(text, SessionKey.parse)


def owner_of(text: str) -> SessionKey:
    """Return the person, or the shared place, that a session key belongs to. Raises 422."""
    return key_of(text).owner


# The door of the operator's API: only holders of the admin token may use it. There is no way to run without one.


_BEARER: Final = 'Bearer realm="trivet"'
_BASIC: Final = 'Basic realm="Trivet: any name, the admin token as password", charset="UTF-8"'
_READING: Final = frozenset({"GET", "HEAD"})
_FROM_OUR_SCRIPT: Final = "trivet-page"  # a header: see `require_to_act`


class AdminToken:
    """The admin token, compared in constant time. Raises `ConfigError` for an empty token, so that the API is never
    open."""

    def __init__(self, token: str) -> None:
        if not token.strip():
            raise ConfigError("the admin token is empty: set http.admin_token or delete <data_dir>/admin-token")
        self._token = token.encode()

    def require(self, request: Request) -> None:
        """Require, as FastAPI dependency of the API, `Authorization: Bearer <token>`, otherwise 401."""
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not self._is_right(given.strip()):
            raise HTTPException(HTTP_401_UNAUTHORIZED, "the admin token is required", {"WWW-Authenticate": _BEARER})

    def require_to_read(self, request: Request) -> None:
        """Require the token as dependency of API routes that only read and that our own pages fetch: as `require`, or
        the password that the browser was asked for on such a page, if one of our pages makes the request.

        A browser adds that password to whatever it requests of us, on behalf of any site. Such a request could change
        nothing here, nor could the site read the answer; it is refused all the same, so that nobody's page holds
        connections or runs queries. Browsers name the requesting page in headers that no script can set:
        `Sec-Fetch-Site`, or, where they leave that out (plain HTTP to another machine), `Referer`.
        """
        self._require_or_password(request, takes_password=request.method in _READING and _is_from_our_page(request))

    def require_to_act(self, request: Request) -> None:
        """Require the token as dependency of API routes that change something and that our own pages call: as
        `require`, or the password that the browser was asked for, if the script of one of our pages makes the
        request.

        Two signs prove that. The browser names the requesting page in headers that no script can set: `Sec-Fetch-Site`,
        or, where it leaves that out, `Origin`. And our script adds a header of its own, which no form and no picture
        can; before another site's script may, its browser asks us, and is not answered.
        """
        is_ours = _FROM_OUR_SCRIPT in request.headers and _is_from_our_page(request)
        self._require_or_password(request, takes_password=is_ours)

    def require_before_body(self, request: Request) -> None:
        """Require what any request that may bring a body needs before a byte of it is read; its route may ask
        for more."""
        if request.method not in _READING:
            self.require_to_act(request)

    def require_from_browser(self, request: Request) -> None:
        """Require the token as dependency of pages that only show; they also take the password a browser asks for.

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
    """Judge, by the browser's headers, whether one of our pages made the request."""
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
