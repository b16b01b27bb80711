"""Where sealed secrets are kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gateway.contracts.ids import SessionKey
from gateway.contracts.vault import SealedSecret, SecretName


class VaultBus(Protocol):
    """Sealed secrets, each until it expires or is used up. Raises `BusUnavailable`."""

    async def put(self, secrets: Sequence[SealedSecret], *, uses: int) -> None:
        """Keep secrets of one lane, each for `uses` calls of one tool. One that is sent again begins anew; of one
        owner the newest VAULT_SECRETS_MAX are kept."""
        ...

    async def take(self, names: Sequence[SecretName], *, tool: str) -> Sequence[SealedSecret] | None:
        """Use up one call of each of these secrets of one lane, all of them or none (None: one of them is not there
        for that tool). The first tool that takes a secret is the only one that may."""
        ...

    async def drop(self, key: SessionKey) -> None:
        """Forget everything of one lane."""
        ...

    async def drop_all(self, owner: SessionKey) -> None:
        """Forget everything of all lanes of one owner."""
        ...
