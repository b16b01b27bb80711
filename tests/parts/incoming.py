"""Normalized messages for tests that begin behind the adapters."""

from __future__ import annotations

from collections.abc import Sequence

from channels.core.adapter import IntakeOutcome
from channels.core.message import Addressing, FileReference, Incoming, Retraction
from gateway.contracts.commands import Suggestion, find_command
from gateway.contracts.ids import ReplyAddress
from gateway.contracts.messages import AttachmentKind, CleanText


def private_message(text: str = "hello", author_name: str = "Ann", file_name: str = "") -> Incoming:
    """Ann's direct message to the bot on Telegram."""
    files = (FileReference(AttachmentKind.DOCUMENT, "file-1", file_name),) if file_name else ()
    return Incoming(
        id="telegram:1:7:99",
        channel="telegram",
        account="1",
        user_id="7",
        place=(),
        addressing=Addressing.PRIVATE,
        command=find_command(text),
        address=ReplyAddress("telegram", "7", "{}"),
        text=text,
        author_name=author_name,
        is_private=True,
        sent_at_ms=1_700_000_000_000,
        attachments=files,
    )


class NobodyHome:
    """A door that nothing may come through."""

    async def accept(self, incoming: Incoming) -> IntakeOutcome:
        raise AssertionError(incoming)

    async def retract(self, retraction: Retraction) -> IntakeOutcome:
        raise AssertionError(retraction)

    async def press(self, press: Incoming) -> CleanText | None:
        raise AssertionError(press)

    async def told(self, press: Incoming) -> CleanText:
        raise AssertionError(press)

    async def invoke(self, chosen: Incoming) -> CleanText | None:
        raise AssertionError(chosen)

    async def suggest(self, typing: Incoming) -> Sequence[Suggestion]:
        raise AssertionError(typing)
