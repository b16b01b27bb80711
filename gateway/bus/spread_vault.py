"""The vault, over the shards of a Cluster."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.bus.placing import Placing
from gateway.bus.shard import Shard
from gateway.contracts.ids import SessionKey
from gateway.contracts.vault import SealedSecret, SecretName


class SpreadVault:
    """`gateway.contracts.ports.VaultBus`: the secrets of an owner lie where his lanes do."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        self._rooms = Placing([shard.vault for shard in shards])

    async def put(self, secrets: Sequence[SealedSecret], *, uses: int) -> None:
        if secrets:
            await self._rooms.of(secrets[0].name.key).put(secrets, uses=uses)

    async def take(self, names: Sequence[SecretName], *, tool: str) -> Sequence[SealedSecret] | None:
        return await self._rooms.of(names[0].key).take(names, tool=tool)

    async def drop(self, key: SessionKey) -> None:
        await self._rooms.of(key).drop(key)

    async def drop_all(self, owner: SessionKey) -> None:
        await self._rooms.of(owner).drop_all(owner)
