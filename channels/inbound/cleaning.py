"""What a person wrote becomes a message for the bus: scrubbed, joined with what came before it, bounded.

Everything of it that goes any further is clean: text, names of people and files.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from channels.inbound.bounding import fit, fitting
from channels.inbound.halves import PARTS_MAX, Part, linked, part_of, torn
from channels.inbound.names import clean_name
from channels.inbound.quoting import quoted
from channels.normalized import FileReference, Incoming
from gateway.contracts.ids import SessionScope
from gateway.contracts.messages import Attachment, Finding, InboundMessage, Quote, RemovedSecrets, clipped, own_words
from gateway.contracts.ports import Clock, Scrubber
from gateway.scrub import removed_secrets
from gateway.scrub.continued import continued, revealed

FILE_NAME_CHARS_MAX: Final = 255  # what file systems take
FILES_MAX: Final = 12  # of one message: more than are ever fetched, so that its author is told of the others
REFERENCE_CHARS_MAX: Final = 512  # Telegram's have about a hundred
MEDIA_TYPE_CHARS_MAX: Final = 127  # two names of 63 at most (RFC 6838)
_LANGUAGE: Final = re.compile(r"[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8}){0,3}")


@dataclass(frozen=True, slots=True)
class Cleaned:
    """A message fit for its lane; the earlier ones that must not stay as they are; what to remember of them all."""

    message: InboundMessage
    mended: tuple[InboundMessage, ...]
    parts: tuple[Part, ...]


class Cleaner:
    """The scrubber at the door of one channel."""

    def __init__(self, scrubber: Scrubber, clock: Clock, scope: SessionScope, *, language: str = "") -> None:
        """With a `language`, everybody is said to speak it."""
        self._scrubber = scrubber
        self._clock = clock
        self._scope = scope
        self._language = language

    def clean(self, incoming: Incoming, before: Sequence[Part] = ()) -> Cleaned:
        """The message in the light of what its author said before, oldest first."""
        near, far = linked(before)
        key = incoming.key(self._scope)
        scrubber = self._scrubber.for_chat(str(key))
        read = continued(scrubber, [part.raw for part in near], incoming.text)
        parts, mends = torn(near, read.reach, read.placeholder)
        quoting = quoted(incoming, scrubber)
        if quoting.ending is not None and not read.is_joined:
            read = quoting.ending
        bounded = fit(read.text)
        message = InboundMessage(
            id=incoming.id,
            key=key,
            address=incoming.address,
            text=read.text if bounded == read.text else scrubber.scrub(bounded),
            author_id=incoming.user_id,
            author_name=clean_name(incoming.author_name, scrubber),
            is_private=incoming.is_private,
            sent_at_ms=incoming.sent_at_ms or self._clock.now_ms(),
            received_at_ms=incoming.edited_at_ms or self._clock.now_ms(),  # an edit that comes twice is one
            attachments=_attachments(incoming.attachments, scrubber),
            removed=_removed(read.found, incoming.attachments, scrubber, is_joined=read.is_joined),
            mends=mends,
            language=self._language or _language(incoming.language),
            quotes=fitting(_with_files(quoting.quotes, incoming, scrubber)),
            place=() if key.place else incoming.place,
            realm=incoming.realm,
            is_aside=incoming.is_aside,
            is_nameable=incoming.is_nameable,
        )
        torn_ids = {mend.message_id for mend in mends}
        mended = tuple(part.message for part in parts if part.message.id in torn_ids)
        newest = part_of(message, incoming.text, goes_on=read.may_go_on)
        is_served = read.reach > 0 and not read.may_go_on
        return Cleaned(message, mended, (newest,) if is_served else (*far, *parts, newest)[-PARTS_MAX:])

    def belated(self, part: Part, edit: Incoming) -> InboundMessage | None:
        """What mends a message that was answered before an edit showed that it ends in half a secret. None: the edit
        shows nothing of the kind."""
        scrubber = self._scrubber.for_chat(str(part.message.key))
        reach, placeholder = revealed(scrubber, part.raw, edit.text)
        _, mends = torn((part,), reach, placeholder)
        nothing = own_words("")
        return (
            replace(part.message, id=f"{edit.id}#mended", text=nothing, attachments=(), removed=(), mends=mends)
            if mends
            else None
        )

    def forestalled(self, cleaned: Cleaned, following: Incoming) -> Cleaned:
        """A message that is not on its lane yet, without the first half of what `following` ends."""
        *earlier, newest = self.clean(following, cleaned.parts).mended or (cleaned.message,)
        if newest.id != cleaned.message.id:
            return cleaned
        (*parts, last) = cleaned.parts
        hidden = replace(last, message=newest, bare=0)
        return Cleaned(newest, (*cleaned.mended, *earlier), (*parts, hidden))


def _removed(
    found: Sequence[Finding], files: Sequence[FileReference], scrubber: Scrubber, *, is_joined: bool
) -> tuple[RemovedSecrets, ...]:
    """What the author is told: how many of each kind, in the text and in the names of files."""
    in_text = (replace(removed, is_joined=is_joined) for removed in removed_secrets(found))
    in_names = removed_secrets(finding for file in files for finding in scrubber.findings(file.name))
    return (*in_text, *in_names)


def _attachments(files: Sequence[FileReference], scrubber: Scrubber) -> tuple[Attachment, ...]:
    """A reference that is longer than any platform's leads nowhere."""
    fit_ones = (found for found in files if len(found.reference) <= REFERENCE_CHARS_MAX)
    return tuple(_attachment(found, scrubber) for found in islice(fit_ones, FILES_MAX))


def _attachment(found: FileReference, scrubber: Scrubber) -> Attachment:
    return Attachment(
        kind=found.kind,
        reference=found.reference,
        name=clipped(scrubber.scrub(found.name), FILE_NAME_CHARS_MAX),
        media_type=clipped(scrubber.scrub(found.media_type), MEDIA_TYPE_CHARS_MAX),
        size_bytes=found.size_bytes,
    )


def _with_files(quotes: Sequence[Quote], incoming: Incoming, scrubber: Scrubber) -> list[Quote]:
    """The newest of its quotes with the files that stand in them."""
    raw = incoming.quotes[len(incoming.quotes) - len(quotes) :]
    return [
        replace(quote, attachments=_attachments(found.attachments, scrubber))
        for quote, found in zip(quotes, raw, strict=True)
    ]


def _language(tag: str) -> str:
    return tag if _LANGUAGE.fullmatch(tag) else ""
