"""The Events API over HTTP: signed requests to the app's own address, as Slack sends them."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections import deque
from collections.abc import Callable
from typing import Final
from urllib.parse import urlencode

import httpx

from channels.emulators.slack.delivery import Failure, Parcel
from channels.emulators.slack.switches import Switches
from channels.emulators.traffic import RECORDED_MAX, Json

_USER_AGENT: Final = "Slackbot 1.0 (+https://api.slack.com/robots)"
_FORM: Final = "application/x-www-form-urlencoded"


def signature(secret: str, timestamp: str, body: str) -> str:
    """`v0=` and the HMAC-SHA256 over version, timestamp and raw body."""
    digest = hmac.new(secret.encode(), f"v0:{timestamp}:{body}".encode(), hashlib.sha256).hexdigest()
    return f"v0={digest}"


class HttpEvents:
    """Posts to `url`. `clock_s` gives Unix seconds for the signature's timestamp."""

    def __init__(self, *, url: str, signing_secret: str, switches: Switches, clock_s: Callable[[], float]) -> None:
        self.url = url
        self._secret = signing_secret
        self._switches = switches
        self._clock_s = clock_s
        self._client = httpx.AsyncClient(trust_env=False, follow_redirects=False)
        self.sent: deque[dict[str, str]] = deque(maxlen=RECORDED_MAX)  # the headers of every request

    async def verify(self, token: str) -> bool:
        """The `url_verification` challenge of the set-up page: whether the app gave it back."""
        challenge = secrets.token_urlsafe(24)
        body = json.dumps({"token": token, "challenge": challenge, "type": "url_verification"})
        try:
            response = await self._post(body, "application/json")
        except httpx.HTTPError:
            return False
        return response.is_success and challenge in response.text

    async def attempt(self, parcel: Parcel, *, number: int, reason: str) -> Failure | None:
        """One signed request; anything but 2xx within three seconds is a failure."""
        body, content_type = _body(parcel)
        retry = {"x-slack-retry-num": str(number), "x-slack-retry-reason": reason} if number else {}
        try:
            response = await self._post(body, content_type, retry)
        except httpx.TimeoutException:
            return Failure("http_timeout")
        except httpx.TransportError:
            return Failure("connection_failed")
        if not response.is_success:
            return Failure("http_error", is_final=response.headers.get("x-slack-no-retry") == "1")
        parcel.answer(_response(response))
        return None

    async def _post(self, body: str, content_type: str, more: dict[str, str] | None = None) -> httpx.Response:
        timestamp = str(int(self._clock_s()))
        headers = {
            "Content-Type": content_type,
            "User-Agent": _USER_AGENT,
            "X-Slack-Request-Timestamp": timestamp,
            "X-Slack-Signature": signature(self._secret, timestamp, body),
        } | (more or {})
        self.sent.append(headers)
        return await self._client.post(
            self.url, content=body.encode(), headers=headers, timeout=self._switches.ack_within_s
        )

    async def aclose(self) -> None:
        await self._client.aclose()


def _body(parcel: Parcel) -> tuple[str, str]:
    if parcel.kind == "slash_commands":
        return urlencode(parcel.payload), _FORM
    if parcel.kind == "interactive":
        return urlencode({"payload": json.dumps(parcel.payload)}), _FORM
    return json.dumps(parcel.payload), "application/json"


def _response(response: httpx.Response) -> Json | None:
    if not response.content:
        return None
    if not response.headers.get("content-type", "").startswith("application/json"):
        return {"text": response.text}
    body = response.json()
    return body if isinstance(body, dict) else None
