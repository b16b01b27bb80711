"""Replies on their way to a channel: published once per id, by whichever script."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.bus.keys import InstallationNames, ShardKeys
from gateway.bus.line import Command, Line, Word
from gateway.bus.scripts import digest, script
from gateway.bus.wire import bounded
from gateway.contracts.messages import Reply


def reply_arguments(reply: Reply) -> tuple[Word, ...]:
    """Channel, digest and envelope of a reply, as the scripts that publish want them."""
    return reply.address.channel, digest(reply.id), bounded(reply)


class Publisher:
    """Publishes replies that no commit carries."""

    def __init__(self, line: Line, keys: ShardKeys, names: InstallationNames) -> None:
        self._line = line
        self._keys = keys
        self._news = names.news("")

    async def publish(self, replies: Sequence[Reply]) -> None:
        """Put each reply on its channel's stream, unless its id is known or its delivery has begun."""
        await self._line.call_all([self._command(reply) for reply in replies])

    def _command(self, reply: Reply) -> Command:
        keys = (
            self._keys.outbound(reply.address.channel),
            self._keys.outbound_channels,
            self._keys.ledger(reply.id),
        )
        channel, identity, envelope = reply_arguments(reply)
        arguments = (channel, self._keys.published(""), identity, envelope, self._news)
        return self._line.command(script("publish"), keys, arguments)
