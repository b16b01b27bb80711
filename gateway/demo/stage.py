"""The emulated platforms as people in front of them see them, by the playground's control API."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import httpx

_POLL_S: Final = 0.05
_TIMEOUT_S: Final = 10.0
Row: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Line:
    """One message of a place, as people see it."""

    id: str
    is_by_bot: bool
    text: str


class DemoStage:
    """One platform. People and places are rows as the control API gives them."""

    def __init__(self, client: httpx.AsyncClient, platform: str) -> None:
        self._client = client
        self.platform = platform

    async def add_person(self, name: str) -> Row:
        """Somebody new, with a direct chat to the bot."""
        person: Row = await self._post("people", {"name": name})
        return person

    async def direct_place(self, person: Row) -> Row:
        """The direct chat of a person with the bot."""
        places: list[Row] = (await self._get("places"))["places"]
        return next(place for place in places if place["kind"] == "dm" and place["person_id"] == person["id"])

    async def add_place(self, kind: str, title: str, *, parent: Row | None = None) -> Row:
        """A new group, or a thread in one."""
        given = {"kind": kind, "title": title, "parent_id": parent["id"] if parent else None}
        place: Row = await self._post("places", given)
        return place

    async def say(self, person: Row, place: Row, text: str, *, mention_bot: bool = False) -> None:
        """Write as `person` in `place`."""
        given = {"person_id": person["id"], "place_id": place["id"], "text": text, "mention_bot": mention_bot}
        await self._post("say", given)

    async def answers(self, place: Row) -> list[Line]:
        """What the bot has said in a place or in a thread of it, oldest first."""
        places: list[Row] = (await self._get("places"))["places"]
        around = [place["id"], *(each["id"] for each in places if each["parent_id"] == place["id"])]
        rows: list[Row] = []
        for place_id in around:
            rows += (await self._get("messages", place=place_id))["messages"]
        lines = {row["id"]: _line(row) for row in sorted(rows, key=lambda row: int(row["at_ms"]))}
        return [line for line in lines.values() if line.is_by_bot]

    async def until(
        self, place: Row, is_enough: Callable[[Sequence[Line]], bool], *, seen: Container[str], timeout_s: float
    ) -> list[Line]:
        """The bot's lines that are not in `seen`, by id, once they are enough or time is up."""
        deadline = asyncio.get_running_loop().time() + timeout_s
        while True:
            fresh = [line for line in await self.answers(place) if line.id not in seen]
            if is_enough(fresh) or asyncio.get_running_loop().time() > deadline:
                return fresh
            await asyncio.sleep(_POLL_S)

    async def _get(self, what: str, **query: str) -> Any:
        return _body(await self._client.get(f"/stage/{self.platform}/{what}", params=query, timeout=_TIMEOUT_S))

    async def _post(self, what: str, given: Row) -> Any:
        return _body(await self._client.post(f"/stage/{self.platform}/{what}", json=given, timeout=_TIMEOUT_S))


def _line(row: Row) -> Line:
    return Line(row["id"], row["author"]["is_bot"], row["text"])


def _body(response: httpx.Response) -> Any:
    response.raise_for_status()
    return response.json()
