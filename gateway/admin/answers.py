"""How the API answers: JSON, every text of which goes through the scrubber on its way out.

What is kept was scrubbed when it came in, by what was known then; rules are added, and so are secrets of our own.
A refusal quotes what it refuses, so it takes the same way, and one of FastAPI's leaves out what was sent. What a route
may refuse stands in its documentation (`refusals`).
"""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette import status
from starlette.exceptions import HTTPException

from gateway.contracts.errors import BusError, StoreError
from gateway.contracts.ports import Scrubber
from gateway.scrub.structured import each_text


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
    """For the documentation: these answers of a route are a `Refusal`."""
    return {code: {"model": Refusal} for code in codes}


def clean_json(scrubber: Scrubber) -> type[JSONResponse]:
    """The class of every answer of the API."""

    class CleanJson(JSONResponse):
        def render(self, content: Any) -> bytes:
            return super().render(each_text(content, scrubber.scrub))

    return CleanJson


def refuse_in(app: FastAPI, answer: type[JSONResponse]) -> None:
    """Every refusal of `app` becomes such an answer."""

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
    """FastAPI dependency of every route: 422 for an address or a query with a NUL. Nothing is called so, and
    PostgreSQL would refuse to look."""
    if any("\0" in text for text in (request.scope["path"], *request.query_params.values())):
        raise HTTPException(status.HTTP_422_UNPROCESSABLE_CONTENT, "there is no NUL in any name here")


def _in_words(problem: str) -> str:
    """As whoever wrote JSON understands it: there are no tuples in it, and a sentence of ours needs no announcement."""
    return problem.removeprefix("Value error, ").replace("a valid tuple", "a valid list")
