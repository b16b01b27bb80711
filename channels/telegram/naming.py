"""The name of a topic: the title of the conversation in it."""

from __future__ import annotations

from typing import Final

from telegram import Bot
from telegram.error import BadRequest

from channels.telegram import limits
from channels.telegram.address import TelegramTarget
from channels.text.graphemes import clipped
from gateway.contracts.messages import CleanText

_NOT_MODIFIED: Final = "topic_not_modified"


async def name_topic(bot: Bot, target: TelegramTarget, title: CleanText) -> None:
    """Rename the topic, however often this is asked. Raises the SDK's `TelegramError`."""
    name = clipped(title, limits.TOPIC_NAME_UNITS_MAX)
    try:
        await bot.edit_forum_topic(target.chat_id, target.message_thread_id or 0, name=name)
    except BadRequest as error:
        if _NOT_MODIFIED not in error.message.lower():
            raise
