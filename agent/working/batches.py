"""Which messages of a lane make one turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gateway.contracts.commands import find_command
from gateway.contracts.messages import InboundMessage
from gateway.contracts.schedules import is_firing


def first_batch(messages: Sequence[InboundMessage]) -> tuple[InboundMessage, ...]:
    """The messages one turn may take: a command or a firing alone, else all up to the next of these or other place."""
    first = messages[0]
    if _is_alone(first):
        return (first,)
    return (first, *those_that_join(first, messages[1:]))


def those_that_join(first: InboundMessage, behind: Sequence[InboundMessage]) -> tuple[InboundMessage, ...]:
    """Of the messages behind a turn that `first` began, in order, those that may be part of it."""
    return tuple(behind[: leading(behind, lambda message: _belongs(message, first))])


def leading(messages: Sequence[InboundMessage], belongs: Callable[[InboundMessage], bool]) -> int:
    """How many of the first messages do."""
    return next((at for at, message in enumerate(messages) if not belongs(message)), len(messages))


def _belongs(message: InboundMessage, first: InboundMessage) -> bool:
    is_same_place = (message.address.channel, message.address.lane) == (first.address.channel, first.address.lane)
    return is_same_place and not _is_alone(message) and not _is_alone(first)


def _is_alone(message: InboundMessage) -> bool:
    """A command is no conversation, and in a turn that a schedule began nobody is present."""
    return find_command(message.text) is not None or is_firing(message)
