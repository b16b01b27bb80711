"""The files of a channel on a Cluster: wishes and pieces are in the shard of the channel's name."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.bus.placing import Placing
from gateway.bus.shard import Shard
from gateway.contracts.ports import FetchedFile, WantedAttachment


class SpreadAttachments:
    """`gateway.contracts.ports.AttachmentBus`."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        self._rooms = Placing([shard.attachments for shard in shards])

    async def fetch(self, wanted: WantedAttachment) -> FetchedFile | None:
        return await self._rooms.named(wanted.channel).fetch(wanted)

    async def wanted(self, channel: str, *, wait_s: float) -> WantedAttachment | None:
        return await self._rooms.named(channel).wanted(channel, wait_s=wait_s)

    async def at_it(self, wanted: WantedAttachment) -> None:
        await self._rooms.named(wanted.channel).at_it(wanted)

    async def lend(self, wanted: WantedAttachment, file: FetchedFile) -> bool:
        return await self._rooms.named(wanted.channel).lend(wanted, file)

    async def refuse(self, wanted: WantedAttachment, *, reason: str) -> None:
        await self._rooms.named(wanted.channel).refuse(wanted, reason=reason)
