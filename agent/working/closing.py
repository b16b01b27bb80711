"""A turn that leaves no answer says so: then nobody is shown that one is being made."""

from __future__ import annotations

import structlog

from gateway.bus.deliveries import Deliveries
from gateway.contracts.errors import BusError
from gateway.contracts.ids import ReplyAddress
from gateway.contracts.messages import Activity

_log = structlog.get_logger(__name__)


async def put_out(bus: Deliveries, address: ReplyAddress, turn_id: str) -> None:
    """Put out the typing indicator, and take away what was shown of an answer. Lossy: both go by themselves a little
    later."""
    try:
        await bus.show_activity(Activity(address, turn_id, 0.0, ended=True))
    except BusError as error:
        _log.debug("turn.indicator_left", turn_id=turn_id, reason=str(error))
