"""The row of the fourth platform in the suite of the contract."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Final

from trivet_matrix.adapter import MatrixAdapter
from trivet_matrix.homeserver import BODY_CHARS_MAX, Homeserver

from channels.core.adapter import ChannelAdapter
from channels.emulators.serving import serve
from gateway.bus.bus import RedisBus
from gateway.limits import POLLER_LEASE_TTL_S
from tests.parts.towns import Town, settled

TOKEN: Final = "syt_dHJpdmV0_matrix"


@contextlib.asynccontextmanager
async def matrix_town() -> AsyncIterator[Town]:
    stage = Homeserver(token=TOKEN)
    async with serve({stage.platform: stage}) as where:
        address = where.url_of(stage.platform)

        def adapter(
            bus: RedisBus, holder: str = "test", lease_ttl_s: float = POLLER_LEASE_TTL_S, bots: Sequence[str] = ()
        ) -> ChannelAdapter:
            return MatrixAdapter(token=TOKEN, api_base=address, positions=bus.intake)

        yield settled(stage.platform, stage, address, BODY_CHARS_MAX, adapter)
