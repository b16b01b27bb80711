"""Sealed secrets of people's messages, for a few minutes: one hash for each owner, forgotten with its last secret.

What is kept here nobody on the bus can read: the key is elsewhere (gateway/scrub/vault.py).
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Final

from gateway.bus.keys import ShardKeys
from gateway.bus.line import Line, Word
from gateway.bus.scripts import script
from gateway.contracts.ids import SessionKey
from gateway.contracts.vault import SealedSecret, SecretName

_SEPARATOR: Final = "\x1f"


class Vault:
    """`gateway.contracts.ports.VaultBus`."""

    def __init__(self, line: Line, keys: ShardKeys) -> None:
        self._line = line
        self._keys = keys

    async def put(self, secrets: Sequence[SealedSecret], *, uses: int) -> None:
        """Keep secrets of one lane, each for `uses` calls of one tool."""
        if not secrets:
            return
        arguments: list[Word] = [uses]
        for secret in secrets:
            arguments += [_field(secret.name), secret.expires_at_ms, b64encode(secret.sealed)]
        await self._line.run(script("put_secrets"), (self._key(secrets[0].name.key),), arguments)

    async def take(self, names: Sequence[SecretName], *, tool: str) -> Sequence[SealedSecret] | None:
        """One call of each secret, all or none. When it is repeated (its answer was lost), it takes once more: a
        secret may be used less often than it was allowed to, and never more often."""
        found = await self._line.run(
            script("take_secrets"), (self._key(names[0].key),), (tool, *(_field(name) for name in names))
        )
        if not found:
            return None
        pairs = zip(names, found[::2], found[1::2], strict=True)
        return [SealedSecret(name, int(expires_at_ms), b64decode(sealed)) for name, expires_at_ms, sealed in pairs]

    async def drop(self, key: SessionKey) -> None:
        """Forget everything of one lane."""
        await self._line.run(script("drop_secrets"), (self._key(key),), (f"{key}{_SEPARATOR}",))

    async def drop_all(self, owner: SessionKey) -> None:
        """Forget everything of all lanes of one owner."""
        await self._line.call("DEL", self._key(owner))

    def _key(self, key: SessionKey) -> str:
        return self._keys.vault(str(key.owner))


def _field(name: SecretName) -> str:
    return _SEPARATOR.join((str(name.key), str(name.sent_by), name.placeholder))
