"""What Trivet loads: the settings of `[channels.matrix]`, the adapter, a check for `trivet doctor`, an emulator."""

from __future__ import annotations

import secrets

import httpx
from pydantic import Field

from channels.core.adapter import AdapterDeps, ChannelAdapter
from channels.emulators.__main__ import Part
from gateway.config.channels import ChannelAccount
from gateway.config.section import Secret
from gateway.contracts.errors import ConfigError
from trivet_matrix.adapter import REJECTED, MatrixAdapter
from trivet_matrix.homeserver import Homeserver


class Account(ChannelAccount):
    """One user of a homeserver. Without a token the channel says what is missing and stays off."""

    token: Secret = Field(default=None, description="Access token of the bot's user.")
    api_base: str = Field(default="https://matrix.org", description="Address of the homeserver.")

    @property
    def access_token(self) -> str:
        return self.token.get_secret_value() if self.token else ""


def open_adapter(_name: str, account: Account, parts: AdapterDeps) -> ChannelAdapter:
    """Make the adapter, which connects when it is run."""
    return MatrixAdapter(token=account.access_token, api_base=account.api_base, positions=parts.positions)


async def check_account(account: Account) -> str:
    """Say who we are there. Raises `ConfigError`."""
    headers = {"Authorization": f"Bearer {account.access_token}"}
    async with httpx.AsyncClient(headers=headers, timeout=10) as client:
        answer = await client.get(f"{account.api_base}/_matrix/client/v3/account/whoami")
    if answer.status_code != httpx.codes.OK:
        raise ConfigError(f"Matrix answers {answer.status_code}: {REJECTED}, as channels.matrix.token")
    return str(answer.json()["user_id"])


def emulate(*, is_limited: bool) -> Part:
    """Set a homeserver up for `trivet demo` and for tests; it has no rate limits to switch off."""
    del is_limited
    token = f"syt_{secrets.token_urlsafe(24)}"
    return Part(Homeserver(token=token), lambda url: {"api_base": url, "token": token})
