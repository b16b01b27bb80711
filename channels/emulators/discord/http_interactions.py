"""Interactions by HTTP: signed requests to the application's own endpoint, whose answer is the first callback."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable
from typing import Final

import httpx
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from starlette.types import ASGIApp

from channels.emulators.traffic import RECORDED_MAX, Json

ANSWER_WITHIN_S: Final = 3.0
_USER_AGENT: Final = "Discord-Interactions/1.0 (+https://discord.com)"
_OK: Final = 200
_ACCEPTED: Final = 202


class HttpInteractions:
    """Posts to `url`; `api` is Discord's own, which takes what the endpoint answers as if it had been posted there."""

    def __init__(
        self, *, url: str, key: Ed25519PrivateKey, application_id: int, api: ASGIApp, clock_s: Callable[[], float]
    ) -> None:
        self.url = url
        self._key = key
        self._application_id = application_id
        self._clock_s = clock_s
        self._out = httpx.AsyncClient(trust_env=False, timeout=ANSWER_WITHIN_S)
        self._in = httpx.AsyncClient(transport=httpx.ASGITransport(app=api), base_url="http://discord.invalid/api/v10")
        self._under_way: set[asyncio.Task[None]] = set()
        self.failures: deque[str] = deque(maxlen=RECORDED_MAX)  # why people saw "This interaction failed"

    async def verify(self) -> bool:
        """The check when the URL is saved in the portal: a PING is answered, one with a wrong signature refused."""
        ping = {"id": "1", "application_id": str(self._application_id), "type": 1, "token": "ping", "version": 1}
        try:
            good, bad = await self._post(ping), await self._post(ping, is_genuine=False)
            return good.status_code == _OK and good.json().get("type") == 1 and bad.status_code == 401
        except (httpx.HTTPError, ValueError):
            return False

    def send(self, interaction: Json) -> None:
        """Once; nobody tries again."""
        task = asyncio.create_task(self._send(interaction))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _send(self, interaction: Json) -> None:
        try:
            answer = await self._post(interaction)
            if answer.status_code not in (_OK, _ACCEPTED):
                self.failures.append(f"answered {answer.status_code}")
            elif answer.content:
                path = f"/interactions/{interaction['id']}/{interaction['token']}/callback"
                taken = await self._in.post(path, json=answer.json())
                if not taken.is_success:
                    self.failures.append(f"the answer is refused: {taken.text}")
        except (httpx.HTTPError, ValueError) as error:
            self.failures.append(type(error).__name__)

    async def _post(self, payload: Json, *, is_genuine: bool = True) -> httpx.Response:
        body, timestamp = json.dumps(payload).encode(), str(int(self._clock_s()))
        key = self._key if is_genuine else Ed25519PrivateKey.generate()
        headers = {
            "Content-Type": "application/json",
            "User-Agent": _USER_AGENT,
            "X-Signature-Timestamp": timestamp,
            "X-Signature-Ed25519": key.sign(timestamp.encode() + body).hex(),
        }
        return await self._out.post(self.url, content=body, headers=headers)

    async def aclose(self) -> None:
        """Give up on what is still under way."""
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)
        await self._out.aclose()
        await self._in.aclose()
