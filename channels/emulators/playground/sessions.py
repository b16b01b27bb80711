"""What the page shows of the bot's own sessions, fetched from its admin API behind a bearer token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

import httpx

FETCH_TIMEOUT_S: Final = 3.0
SESSIONS_SHOWN_MAX: Final = 100
SHOWN: Final = ("id", "key", "title", "channel", "status", "parent_session_id", "updated_at", "message_count")


class SessionsUnreachable(Exception):
    """The admin API did not give its sessions; the message is fit to be shown."""


class SessionSource(Protocol):
    @property
    def board_url(self) -> str:
        """Where the operator watches sub-agents at work."""
        ...

    async def sessions(self) -> list[dict[str, object]]:
        """The newest sessions, with the fields of `SHOWN`. Raises `SessionsUnreachable`."""
        ...


@dataclass(frozen=True, slots=True)
class AdminSessions:
    """`GET {base_url}/api/sessions`; the token stays on this side of the page."""

    base_url: str
    token: str

    @property
    def board_url(self) -> str:
        return f"{self.base_url.rstrip('/')}/tasks"

    async def sessions(self) -> list[dict[str, object]]:
        headers = {"Authorization": f"Bearer {self.token}"}
        try:
            async with httpx.AsyncClient(timeout=FETCH_TIMEOUT_S, trust_env=False) as client:
                url = f"{self.base_url.rstrip('/')}/api/sessions"
                answer = await client.get(url, headers=headers, params={"limit": SESSIONS_SHOWN_MAX})
        except (httpx.HTTPError, httpx.InvalidURL):
            raise SessionsUnreachable("the admin API cannot be reached") from None
        if answer.status_code != httpx.codes.OK:
            raise SessionsUnreachable(f"the admin API answered {answer.status_code}")
        try:
            given = answer.json()
        except ValueError:
            raise SessionsUnreachable("the admin API did not answer in JSON") from None
        rows = given.get("sessions", given.get("items", [])) if isinstance(given, dict) else given
        if not isinstance(rows, list):
            raise SessionsUnreachable("the admin API answered something else than sessions")
        return [{name: row.get(name) for name in SHOWN} for row in rows[:SESSIONS_SHOWN_MAX] if isinstance(row, dict)]
