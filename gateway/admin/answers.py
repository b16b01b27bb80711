"""How the API answers: JSON, every text of which goes through the scrubber on its way out.

What is kept was scrubbed when it came in, by what was known then; rules are added, and so are secrets of our own.
A refusal quotes what it refuses, so it takes the same way, and one of FastAPI's leaves out what was sent.
"""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette import status
from starlette.exceptions import HTTPException

from gateway.contracts.errors import BusError, StoreError
from gateway.contracts.ports import Scrubber
from gateway.scrub.structured import each_text


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


def _in_words(problem: str) -> str:
    """As whoever wrote JSON understands it: there are no tuples in it, and a sentence of ours needs no announcement."""
    return problem.removeprefix("Value error, ").replace("a valid tuple", "a valid list")
