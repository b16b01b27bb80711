"""The commands of a platform's menu, and the task that keeps that menu up to date."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from channels.core.adapter import ChannelAdapter, SupportsMenus
from channels.core.tasks import Backoff
from gateway.contracts.commands import COMMANDS, CommandSpec
from gateway.contracts.errors import DeliveryError, RateLimited
from gateway.contracts.sessions import GrantRole

log = logging.getLogger(__name__)

_FOR_ALL: Final = frozenset({GrantRole.GUEST, GrantRole.MEMBER})  # no menu can tell one from the other


def offered(*, is_admin: bool = False, is_private: bool = True) -> tuple[CommandSpec, ...]:
    """List, in order, the commands offered to everybody, or to an admin, in a direct chat, or where others
    read along."""
    return tuple(
        spec
        for spec in COMMANDS
        if spec.is_in_menu and (is_admin or spec.role in _FOR_ALL) and (is_private or not spec.only_private)
    )


# The upkeep of a platform's menu; `offered` chooses its commands.

RETRY_FIRST_S: Final = 5.0
RETRY_CAP_S: Final = 3_600.0  # people can type what no menu offers


class MenuPublisher:
    """Publishes the menu of one account, once in the life of a process. A menu that cannot be set does not stop the
    channel: it is tried again, more and more rarely."""

    def __init__(self, adapter: ChannelAdapter, publishing: SupportsMenus) -> None:
        self._adapter = adapter
        self._publishing = publishing

    async def run(self) -> None:
        """Keep the menu published until cancelled."""
        backoff = Backoff(RETRY_FIRST_S, RETRY_CAP_S)
        while True:
            pause_s = await self._publish(backoff)
            if pause_s is None:
                break
            await asyncio.sleep(pause_s)
        await asyncio.Event().wait()  # nothing more to do until the end of the line

    async def _publish(self, backoff: Backoff) -> float | None:
        """Publish the menu; return None once it is done, otherwise the pause before the next attempt."""
        await self._adapter.until_ready()
        try:
            await self._publishing.publish_menu()
        except RateLimited as error:
            return max(error.retry_after_s, backoff.next_s())
        except DeliveryError as error:
            log.warning("%s: the menu of commands stays as it was: %s", self._adapter.name, error)
        except Exception:  # named boundary, adapter callback: a menu is worth no outage
            log.exception("%s: the menu of commands stays as it was", self._adapter.name)
        else:
            return None
        return backoff.next_s()


def menu_of(adapter: ChannelAdapter) -> Sequence[MenuPublisher]:
    """Return the publisher of this platform's menu, if it has one."""
    return (MenuPublisher(adapter, adapter),) if isinstance(adapter, SupportsMenus) else ()
