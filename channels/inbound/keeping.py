"""Puts the secrets of people's messages into the vault, before the message itself is on its way without them."""

from __future__ import annotations

from gateway.bus.files import Vault
from gateway.config import Settings
from gateway.contracts.messages import InboundMessage
from gateway.contracts.ports import Clock
from gateway.contracts.vault import SecretName
from gateway.scrub import Scrubber
from gateway.scrub.vault import Seal, worth_keeping
from gateway.secrecy import seal_of


class Keeping:
    """The vault as intake sees it: secrets go in, each for `ttl_s` and `uses` calls of a tool."""

    def __init__(self, vault: Vault, seal: Seal, scrubber: Scrubber, clock: Clock, *, ttl_s: int, uses: int) -> None:
        self._vault = vault
        self._seal = seal
        self._scrubber = scrubber
        self._clock = clock
        self._ttl_s = ttl_s
        self._uses = uses

    async def keep(self, message: InboundMessage, raw: str) -> None:
        """Keep what was removed from `raw` to make `message` of it. Raises `BusUnavailable`."""
        if not message.removed:
            return
        found = worth_keeping(self._scrubber.for_chat(str(message.key)).removed(raw))
        until_ms = self._clock.now_ms() + 1000 * self._ttl_s
        await self._vault.put(
            [
                self._seal.sealed(SecretName(message.key, message.author, placeholder), secret, expires_at_ms=until_ms)
                for placeholder, secret in found.items()
            ],
            uses=self._uses,
        )


def keeping_for(settings: Settings, vault: Vault, scrubber: Scrubber, clock: Clock) -> Keeping | None:
    """The vault as the settings say; None where there is none. Raises `ConfigError` when its key cannot be had."""
    seal, rules = seal_of(settings), settings.scrub.vault
    return Keeping(vault, seal, scrubber, clock, ttl_s=rules.ttl_s, uses=rules.uses_max) if seal else None
