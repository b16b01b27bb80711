"""What several routes ask for and read alike: session keys, lengths of lists; and in whose name they act."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final, TypeVar

from fastapi import HTTPException, Query
from starlette import status

from gateway.contracts.errors import BadSessionKey
from gateway.contracts.ids import SessionKey

_Read = TypeVar("_Read")

ADMIN: Final = "admin"
"""Whoever holds the admin token: the API knows no other names."""

PAGE_MAX: Final = 500  # rows of one answer: a dashboard shows fewer, an export pages on
PAGE_DEFAULT: Final = 50

Limit = Annotated[int, Query(ge=1, le=PAGE_MAX)]


def read(text: str, parse: Callable[[str], _Read]) -> _Read:
    """What `parse` makes of a name in a request. Raises 422 for one that is none."""
    try:
        return parse(text)
    except BadSessionKey as error:
        raise HTTPException(status.HTTP_422_UNPROCESSABLE_CONTENT, str(error)) from error


def key_of(text: str) -> SessionKey:
    """A session key. Raises 422."""
    return read(text, SessionKey.parse)


def owner_of(text: str) -> SessionKey:
    """The person, or the shared place, that a session key belongs to. Raises 422."""
    return key_of(text).owner
