"""Keep the secrets of people's messages in the vault, and delete those messages on their platform."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import OrderedDict
from dataclasses import asdict, dataclass
from typing import Final

from channels.core import notices
from channels.core.adapter import ChannelAdapter, SupportsDeletion
from gateway.bus.deliveries import Deliveries
from gateway.bus.files import Vault
from gateway.bus.inbound import Inbound
from gateway.config import Settings
from gateway.contracts.errors import BusUnavailable, DeliveryError, OutcomeUnknown, RateLimited, SendFailed
from gateway.contracts.ids import ReplyAddress, SessionKey
from gateway.contracts.messages import InboundMessage, Reply, ReplyKind, SecretName
from gateway.contracts.ports import Clock
from gateway.i18n import Language, language_of, words_for
from gateway.scrub import Scrubber
from gateway.scrub.vault import Seal, seal_of, worth_keeping

log = logging.getLogger(__name__)


class SecretCapture:
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


def open_secret_capture(settings: Settings, vault: Vault, scrubber: Scrubber, clock: Clock) -> SecretCapture | None:
    """Open the vault as the settings say; None where there is none. Raises `ConfigError` when its key cannot be had."""
    seal, rules = seal_of(settings), settings.scrub.vault
    return SecretCapture(vault, seal, scrubber, clock, ttl_s=rules.ttl_s, uses=rules.uses_max) if seal else None


# Messages that held a secret are deleted on their platform, too, where it lets us and the operator says so.
#
# A deletion is on record on the bus before the platform is told that the message was received, and leaves the record
# once the platform has answered. A kill in between asks twice, which does no harm. Where the platform does not let us,
# the author is told to delete the message, once for each message, and the place is not asked again for a while.

DELETIONS_MAX: Final = 1_000  # on record at a time: a platform that is away for an hour, and one secret a minute
PAUSES_S: Final = (1.0, 4.0, 15.0, 60.0)  # between two tries at one message
RATE_LIMIT_WAIT_MAX_S: Final = 120.0
UNWILLING_FOR_S: Final = 600.0  # Discord counts refused requests for so long; rights are seldom given sooner
BUS_RETRY_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class PendingDeletion:
    """One message that is to be deleted. `id` is that of the inbound message; its last part is the platform's."""

    id: str
    key: str
    channel: str
    lane: str
    target: str
    language: str = ""

    @property
    def address(self) -> ReplyAddress:
        return ReplyAddress(self.channel, self.lane, self.target)


class Deletions:
    """The pending deletions of one account. Only the process that listens for the account writes the record."""

    def __init__(self, adapter: ChannelAdapter, record: Inbound, outbound: Deliveries, clock: Clock) -> None:
        self._adapter = adapter
        self._deleting = adapter if isinstance(adapter, SupportsDeletion) else None
        self._record = record
        self._outbound = outbound
        self._clock = clock
        self._pending: OrderedDict[str, PendingDeletion] = OrderedDict()
        self._unwilling: dict[str, float] = {}
        self._added = asyncio.Event()
        self._is_loaded = False
        self._saving = asyncio.Lock()

    async def add(self, message: InboundMessage) -> None:
        """Add a message that is on its lane and has to vanish from the chat. Raises `BusUnavailable`."""
        await self._load()
        address = message.address
        language = language_of(message) or Language.EN
        self._pending[message.id] = PendingDeletion(
            message.id, str(message.key), address.channel, address.lane, address.target, language.value
        )
        if len(self._pending) > DELETIONS_MAX:
            forgotten, _ = self._pending.popitem(last=False)
            log.warning("%s: too much is to be deleted; %s stays", self._adapter.name, forgotten)
        await self._save()
        self._added.set()

    async def run(self) -> None:
        """Delete until cancelled, the oldest first."""
        await self._adapter.until_ready()
        while True:
            try:
                await self._load()
                while self._pending:
                    await self._attend(next(iter(self._pending.values())))
            except BusUnavailable:
                await asyncio.sleep(BUS_RETRY_S)
                continue
            self._added.clear()
            await self._added.wait()

    async def _attend(self, deletion: PendingDeletion) -> None:
        if not await self._delete(deletion):
            log.warning("%s: message %s could not be deleted", self._adapter.name, deletion.id)
            # The id prevents that the author is told twice.
            notice = Reply(
                id=f"notice:undeleted:{deletion.id}",
                turn_id="",
                key=SessionKey.parse(deletion.key),
                address=deletion.address,
                text=words_for(deletion.language).say(notices.UNDELETED),
                kind=ReplyKind.NOTICE,
                created_at_ms=self._clock.now_ms(),
                language=deletion.language,
            )
            await self._outbound.publish([notice])
        del self._pending[deletion.id]
        await self._save()

    async def _delete(self, deletion: PendingDeletion) -> bool:
        """Delete the message. False: it stays, whatever is tried."""
        if self._deleting is None or self._clock.monotonic_s() < self._unwilling.get(deletion.lane, 0.0):
            return False
        for pause_s in PAUSES_S:
            try:
                is_gone = await self._deleting.delete_inbound(
                    deletion.address, message_id=deletion.id.rpartition(":")[2]
                )
            except RateLimited as error:
                await asyncio.sleep(min(error.retry_after_s, RATE_LIMIT_WAIT_MAX_S))
            except (SendFailed, OutcomeUnknown) as error:
                log.info("%s: a deletion is tried again: %s", self._adapter.name, error)
                await asyncio.sleep(pause_s)
            except DeliveryError as error:
                log.info("%s: a deletion was refused: %s", self._adapter.name, error)
                break
            else:
                if is_gone:
                    return True
                break
        else:
            return False
        self._unwilling[deletion.lane] = self._clock.monotonic_s() + UNWILLING_FOR_S
        return False

    # --- the record

    @property
    def _name(self) -> str:
        return f"{self._adapter.account}:deletions"

    async def _load(self) -> None:
        if not self._is_loaded:
            text = await self._record.position(self._name)
            left = [PendingDeletion(**fields) for fields in json.loads(text or "[]")]
            self._pending = OrderedDict((deletion.id, deletion) for deletion in left) | self._pending
            self._is_loaded = True

    async def _save(self) -> None:
        async with self._saving:  # an older state must not arrive after a newer one
            text = json.dumps([asdict(deletion) for deletion in self._pending.values()], separators=(",", ":"))
            await self._record.set_position(self._name, text)
