"""Shared parts of all routes: who may use the API, parameters, and answers that went through the scrubber.

Stored text was scrubbed when it came in, by the rules and the secrets known then; since both grow, it is scrubbed
again on the way out. A refusal quotes what it refuses, so it takes the same way, and one of FastAPI's leaves out the
text that was sent. The refusals of a route are in its documentation (`refusals`)."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Annotated, Any, Final, TypeVar
from urllib.parse import urlencode

from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette import status
from starlette.exceptions import HTTPException
from starlette.status import HTTP_401_UNAUTHORIZED

from gateway.access import NoSuchCode
from gateway.clients import BadClientName
from gateway.contracts.errors import BadSessionKey, BusError, ConfigError, Declined, StoreError
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import each_text
from gateway.contracts.ports import Clock
from gateway.limits import SIGN_IN_S
from gateway.scrub import Scrubber

T = TypeVar("T")


class Refusal(BaseModel):
    """Why it is not done."""

    detail: str


class Problem(BaseModel):
    """One part of a request that is wrong."""

    where: list[str | int] = Field(description='The way to it, such as `["query", "limit"]`.')
    problem: str


class Malformed(BaseModel):
    """The mistakes of a request."""

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


_ERRORS: Final[Mapping[type[Exception], int]] = {
    BadSessionKey: status.HTTP_422_UNPROCESSABLE_CONTENT,
    BadClientName: status.HTTP_422_UNPROCESSABLE_CONTENT,
    NoSuchCode: status.HTTP_404_NOT_FOUND,
    Declined: status.HTTP_409_CONFLICT,
    BusError: status.HTTP_503_SERVICE_UNAVAILABLE,
    StoreError: status.HTTP_503_SERVICE_UNAVAILABLE,
}
"""How errors of ours are answered; what they say is the reason."""


def refuse_in(app: FastAPI, answer: type[JSONResponse]) -> None:
    """Turn every refusal of `app` into such an answer."""

    async def refused(_request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        return answer({"detail": error.detail}, error.status_code, error.headers)

    async def malformed(_request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        told = [{"where": list(problem["loc"]), "problem": _in_words(problem["msg"])} for problem in error.errors()]
        return answer({"detail": told}, status.HTTP_422_UNPROCESSABLE_CONTENT)

    app.add_exception_handler(HTTPException, refused)
    app.add_exception_handler(RequestValidationError, malformed)
    for kind, code in _ERRORS.items():
        app.add_exception_handler(kind, lambda _, error, code=code: answer({"detail": str(error)}, code))


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


ADMIN: Final = "admin"
"""The holder of the admin token: the API knows no other names."""

PAGE_MAX: Final = 500  # rows of one answer: a dashboard shows fewer, an export pages on
PAGE_DEFAULT: Final = 50
NUMBER_MAX: Final = 2**53  # what JSON carries unharmed; every database counts farther

Limit = Annotated[int, Query(ge=1, le=PAGE_MAX)]
Offset = Annotated[int, Query(ge=0, le=NUMBER_MAX)]
Number = Annotated[int, Query(ge=1, le=NUMBER_MAX)]


def owner_of(text: str) -> SessionKey:
    """Return the person, or the shared place, that a session key belongs to. Raises `BadSessionKey`."""
    return SessionKey.parse(text).owner


def found(what: T | None, otherwise: str) -> T:
    """Return what there is. Raises 404, which says `otherwise`, where that is nothing."""
    if not what:
        raise HTTPException(status.HTTP_404_NOT_FOUND, otherwise)
    return what


# Who may use the operator's port: scripts with the admin token, and browsers that signed in with it. There is no way to
# run without a token.
#
# A signed-in browser holds a cookie that says until when, under a signature whose key is the admin token. Nothing is
# kept on our side: any admin process knows it, after a restart, too, and a new admin token ends all of them.


LOGIN_PATH: Final = "/login"
_FORM_TOKEN: Final = "trivet-form-token"  # noqa: S105 - a header's name
_BEARER: Final = 'Bearer realm="trivet"'
_READING: Final = frozenset({"GET", "HEAD"})
_NOT_SIGNED_IN: Final = "the admin token is required"


class AdminToken:
    """The admin token, compared in constant time. Raises `ConfigError` for an empty token, so that the API is never
    open."""

    def __init__(self, token: str, clock: Clock) -> None:
        if not token.strip():
            raise ConfigError("the admin token is empty: set http.admin_token or delete <data_dir>/admin-token")
        self._token = token.encode()
        self._clock = clock

    def require(self, request: Request) -> None:
        """Require, as FastAPI dependency of the API, `Authorization: Bearer <token>`, or the cookie of a browser that
        signed in, if one of our pages asks; otherwise 401.

        A browser sends the cookie to every port of this machine's name, and along with what pages of such ports make it
        send. Browsers name the requesting page in headers that no script can set: `Sec-Fetch-Site`, or, where they
        leave that out (plain HTTP to another machine), `Origin` and `Referer`. What changes something must carry the
        form token of this sign-in, too, which only our pages show."""
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self.is_right(given.strip()):
            return
        session = self.session_of(request)
        if session and is_from_our_page(request) and self._may(request, session):
            return
        raise HTTPException(HTTP_401_UNAUTHORIZED, _NOT_SIGNED_IN, {"WWW-Authenticate": _BEARER})

    def require_before_body(self, request: Request) -> None:
        """Require what any request that may bring a body needs before a byte of it is read. Who signs in has nothing
        yet, and must come from our own form."""
        if request.url.path == LOGIN_PATH:
            if request.method not in _READING and not is_from_our_page(request):
                raise HTTPException(status.HTTP_403_FORBIDDEN, "sign in by the page of this address")
        elif request.method not in _READING:
            self.require(request)

    def require_on_page(self, request: Request) -> None:
        """Require the cookie as dependency of pages, which only show; anybody else is sent to sign in. The token is
        taken, too."""
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if not self.session_of(request) and not (scheme.lower() == "bearer" and self.is_right(given.strip())):
            wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
            where = LOGIN_PATH if wanted == "/" else f"{LOGIN_PATH}?{urlencode({'next': wanted})}"
            raise HTTPException(status.HTTP_303_SEE_OTHER, _NOT_SIGNED_IN, {"Location": where})

    def is_right(self, given: str) -> bool:
        """Tell whether this is the admin token."""
        return hmac.compare_digest(given.encode(), self._token)

    def new_session(self) -> str:
        """Make the value of a cookie that holds for `SIGN_IN_S`."""
        said = f"{self._clock.now_ms() // 1000 + SIGN_IN_S}.{self._clock.new_id()}"
        return f"{said}.{self._signed('session', said)}"

    def session_of(self, request: Request) -> str:
        """Return the cookie of a browser that is signed in; empty for any other."""
        session = request.cookies.get(cookie_name(request), "")
        return session if self.is_signed(session) else ""

    def is_signed(self, session: str) -> bool:
        """Tell whether this is the value of a cookie that we made and that still holds."""
        said, _, signature = session.rpartition(".")
        if not hmac.compare_digest(signature.encode(), self._signed("session", said).encode()):
            return False
        return int(said.partition(".")[0]) * 1000 > self._clock.now_ms()

    def form_token(self, session: str) -> str:
        """Return what each form of this sign-in carries."""
        return self._signed("form", session) if session else ""

    def _may(self, request: Request, session: str) -> bool:
        given = request.headers.get(_FORM_TOKEN, "")
        is_form_of_ours = hmac.compare_digest(given.encode(), self.form_token(session).encode())
        return request.method in _READING or is_form_of_ours

    def _signed(self, purpose: str, said: str) -> str:
        return hmac.new(self._token, f"{purpose}|{said}".encode(), "sha256").hexdigest()


def cookie_name(request: Request) -> str:
    """Name the cookie by our port: browsers tell no ports apart, and two Trivets may be on one machine."""
    return f"trivet-{request.url.port or request.url.scheme}"


def is_from_our_page(request: Request) -> bool:
    """Judge, by the browser's headers, whether one of our pages made the request."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    host = request.headers.get("host", "")
    page = request.headers.get("referer" if request.method in _READING else "origin", "")
    return bool(host) and page.split("/")[2:3] == [host]
