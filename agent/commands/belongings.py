"""/export: everything that is kept of a person, into his own hands."""

from __future__ import annotations

import asyncio
import io
import zipfile
from typing import Final

from agent.commands.table import Asked, CommandRow, Done
from agent.limits import EXPORT_PLAIN_BYTES_MAX, SENT_FILE_BYTES_MAX
from agent.tools.enclosures import Enclosed
from gateway.contracts.messages import own_words
from gateway.contracts.ports import PeopleStore, Scrubber

_PLAIN: Final = own_words("trivet-export.json")
_PACKED: Final = own_words("trivet-export.zip")


def belongings_commands(people: PeopleStore, scrubber: Scrubber) -> tuple[CommandRow, ...]:
    """The row of /export."""

    async def export(asked: Asked) -> Done:
        owner, words = asked.session.key.owner, asked.words
        is_owners = asked.message.is_private or not owner.user
        if not is_owners or asked.session.key != owner:
            return Done(words.say("Write /export to me in a direct message: the file holds what you said there, too."))
        file = await asyncio.to_thread(_enclosed, await people.export(owner, clean=scrubber.scrub))
        if len(file.content) > SENT_FILE_BYTES_MAX:
            return Done(
                words.say("What I keep of you is too large to be sent here. The operator can export it for you.")
            )
        return Done(words.say("Here is everything I keep of you."), files=(file,))

    return (CommandRow("export", export),)


def _enclosed(document: bytes) -> Enclosed:
    """The document as it is, or packed when it is large."""
    if len(document) <= EXPORT_PLAIN_BYTES_MAX:
        return Enclosed(_PLAIN, "application/json", document, own_words(""))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(_PLAIN, document)
    return Enclosed(_PACKED, "application/zip", packed.getvalue(), own_words(""))
