"""/approve and /deny for /help. The control lane answers them (`agent.services.deciding`), whatever else goes on."""

from __future__ import annotations

from agent.commands.table import Asked, CommandRow, Done
from agent.questions import NOT_OPEN_WORD


def answering_commands() -> tuple[CommandRow, ...]:
    """The rows, in the order of /help."""

    async def too_late(asked: Asked) -> Done:
        # One that comes this way was taken for work: the turn that could have asked it has ended.
        return Done(asked.words.say(NOT_OPEN_WORD))

    return (
        CommandRow("approve", too_late),
        CommandRow("deny", too_late),
    )
