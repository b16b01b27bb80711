"""Drafts of private chats (Bot API 9.3): a preview that grows, fades half a minute after the last call, and is no
message: nothing of it has to be remembered, and the answer is sent as if nothing had been shown.

A server that does not know the method answers 404; one that has it for some bots only refuses the first call. Either
way there are none for the rest of this process, and answers grow in messages that are edited.
"""

from __future__ import annotations

import logging
import zlib
from typing import Final

from telegram import Bot
from telegram.error import BadRequest, InvalidToken

from channels.telegram import limits
from channels.telegram.address import TelegramTarget
from channels.telegram.render import TelegramChunk
from channels.telegram.sending import entities_of
from gateway.contracts.errors import SendFailed

log = logging.getLogger(__name__)

_WITH_A_STOP_BUTTON: Final = {"can_stop": True}
"""Since Bot API 10.3; the press is read in `presses`. Older servers pass over it."""

_OF_THIS_ONE: Final = ("not found", "peer_id_invalid", "can't parse", "entit", "too long", "empty")
"""What a refusal says that concerns one chat or one text, and not drafts."""


class TelegramDrafts:
    """Those of one bot."""

    def __init__(self, bot: Bot) -> None:
        self._bot = bot
        self._are_known = False
        self._are_absent = False

    def are_for(self, target: TelegramTarget) -> bool:
        """Whether what grows in this chat is a draft: private chats of the bot's own have them."""
        return target.chat_id > 0 and not self._are_absent

    async def show(self, target: TelegramTarget, chunk: TelegramChunk, *, send_id: str) -> None:
        """Show the draft, or let it grow. Raises the SDK's errors, `SendFailed` where there are no drafts."""
        try:
            await self._bot.send_message_draft(
                target.chat_id,
                draft_id_of(send_id),
                chunk.text,
                message_thread_id=target.message_thread_id,
                entities=entities_of(chunk),
                read_timeout=limits.CALL_TIMEOUT_S,
                api_kwargs=_WITH_A_STOP_BUTTON,
            )
        except (InvalidToken, BadRequest) as error:  # a 404 is an invalid token to the SDK; polling knows better
            is_refused = not self._are_known and not any(sign in error.message.lower() for sign in _OF_THIS_ONE)
            if not isinstance(error, InvalidToken) and not is_refused:
                raise
            self._are_absent = True
            log.info("telegram: this server shows no drafts, so answers grow in messages")
            raise SendFailed("no drafts here") from None
        self._are_known = True


def draft_id_of(send_id: str) -> int:
    """The same for all that is shown of one message: 31 bits, and never 0, which is no id."""
    return zlib.crc32(send_id.encode()) >> 1 or 1
