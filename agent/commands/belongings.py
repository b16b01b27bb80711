"""/export: everything that is kept of a person, into his own hands; where several share a conversation, what whoever
asks said there and was answered."""

from __future__ import annotations

import asyncio
import io
import zipfile
from typing import Final

from agent.commands.table import Asked, CommandRow, Done
from agent.limits import EXPORT_PLAIN_BYTES_MAX, SENT_FILE_BYTES_MAX
from agent.tools.enclosures import Enclosed
from gateway.contracts.messages import own_words
from gateway.contracts.ports import Scrubber
from gateway.store.export import PeopleStore
from gateway.words import sentence

_PLAIN: Final = own_words("trivet-export.json")
_PACKED: Final = own_words("trivet-export.zip")
_EVERYTHING: Final = sentence("Here is everything I keep of you.")
_OWN: Final = sentence("Here is what you said in this place, and what I answered. What others said is left out.")
_LEFT_OUT: Final = sentence(
    "This holds what one person said in a shared place and was answered. What others said there is left out, with what "
    "was quoted or sent along, and what cannot be told to be of anybody."
)


def belongings_commands(people: PeopleStore, scrubber: Scrubber) -> tuple[CommandRow, ...]:
    """The row of /export."""

    async def export(asked: Asked) -> Done:
        owner, words = asked.session.key.owner, asked.words
        if not owner.user:  # what is a shared place's is everybody's who speaks there
            told, left_out, person = words.say(_OWN), words.say(_LEFT_OUT), asked.message.author
            document = await people.export_own(asked.session.key, person, left_out=left_out, clean=scrubber.scrub)
        elif asked.message.is_private and asked.session.key == owner:
            told, document = words.say(_EVERYTHING), await people.export(owner, clean=scrubber.scrub)
        else:
            return Done(words.say("Write /export to me in a direct message: the file holds what you said there, too."))
        file = await asyncio.to_thread(_enclosed, document)
        if len(file.content) > SENT_FILE_BYTES_MAX:
            return Done(
                words.say("What I keep of you is too large to be sent here. The operator can export it for you.")
            )
        return Done(told, files=(file,))

    return (CommandRow("export", export),)


def _enclosed(document: bytes) -> Enclosed:
    """The document as it is, or packed when it is large."""
    if len(document) <= EXPORT_PLAIN_BYTES_MAX:
        return Enclosed(_PLAIN, "application/json", document, own_words(""))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(_PLAIN, document)
    return Enclosed(_PACKED, "application/zip", packed.getvalue(), own_words(""))
