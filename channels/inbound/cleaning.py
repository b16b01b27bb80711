"""Turn what a person wrote into a message for the bus: scrubbed and bounded.

Everything of it that goes any further is clean: text, names of people and files.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, TypeAlias

from channels.inbound.bounding import fit, fitting
from channels.inbound.names import clean_name
from channels.inbound.quoting import quoted
from channels.normalized import FileReference, Incoming
from gateway.contracts.ids import SessionScope
from gateway.contracts.messages import Attachment, Finding, InboundMessage, Quote, RemovedSecrets, clipped
from gateway.contracts.ports import Clock, Scrubber
from gateway.scrub import removed_secrets
from gateway.scrub.carryover import open_ending, scrub_after

FILE_NAME_CHARS_MAX: Final = 255  # what file systems take
FILES_MAX: Final = 12  # of one message: more than are ever fetched, so that its author is told of the others
ENDING_TTL_S: Final = 60.0  # who announces a password says it within seconds
ENDINGS_MAX: Final = 1_000  # people who speak to one account within a minute
REFERENCE_CHARS_MAX: Final = 512  # Telegram's have about a hundred
MEDIA_TYPE_CHARS_MAX: Final = 127  # two names of 63 at most (RFC 6838)
_LANGUAGE: Final = re.compile(r"[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8}){0,3}")


_Author: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Said:
    """The newest message of an author: the ending that was open before it, and the one that it leaves."""

    message_id: str
    before: str
    after: str
    until_ms: int


class OpenEndings:
    """Remember which announcement each author's newest message in a place leaves open.

    In memory only, bounded in number, length and time; a process that started later remembers nothing.
    """

    def __init__(self) -> None:
        self._said: OrderedDict[_Author, _Said] = OrderedDict()

    def before(self, incoming: Incoming, now_ms: int) -> str:
        """Return what is open before this message, or before the message that this is an edit of."""
        said = self._said.get(_author_of(incoming))
        if said is None or said.until_ms <= now_ms:
            return ""
        return said.before if said.message_id == incoming.id else said.after

    def keep(self, incoming: Incoming, now_ms: int) -> None:
        """Remember this message as the newest of its author."""
        author, before = _author_of(incoming), self.before(incoming, now_ms)
        until_ms = now_ms + int(ENDING_TTL_S * 1000)
        self._said[author] = _Said(incoming.id, before, open_ending(incoming.text), until_ms)
        self._said.move_to_end(author)
        while len(self._said) > ENDINGS_MAX:
            self._said.popitem(last=False)

    def is_newest(self, incoming: Incoming) -> bool:
        """Tell whether its author has said nothing since."""
        said = self._said.get(_author_of(incoming))
        return said is not None and said.message_id == incoming.id


def _author_of(incoming: Incoming) -> _Author:
    return (incoming.channel, incoming.account, incoming.user_id, *incoming.place)


class Cleaner:
    """The scrubber at the door of one channel."""

    def __init__(self, scrubber: Scrubber, clock: Clock, scope: SessionScope, *, language: str = "") -> None:
        """With a `language`, everybody is said to speak it."""
        self._scrubber = scrubber
        self._clock = clock
        self._scope = scope
        self._language = language

    def clean(self, incoming: Incoming, ending: str = "") -> InboundMessage:
        """Return the message as it goes on the bus; `ending` is what its author's last message left open."""
        key = incoming.key(self._scope)
        scrubber = self._scrubber.for_chat(str(key))
        text, found = scrub_after(scrubber, ending, incoming.text)
        bounded = fit(text)
        return InboundMessage(
            id=incoming.id,
            key=key,
            address=incoming.address,
            text=text if bounded == text else scrubber.scrub(bounded),
            author_id=incoming.user_id,
            author_name=clean_name(incoming.author_name, scrubber),
            is_private=incoming.is_private,
            sent_at_ms=incoming.sent_at_ms or self._clock.now_ms(),
            received_at_ms=incoming.edited_at_ms or self._clock.now_ms(),  # an edit that comes twice is one
            attachments=_attachments(incoming.attachments, scrubber),
            removed=_removed(found, incoming.attachments, scrubber),
            language=self._language or _language(incoming.language),
            quotes=fitting(_with_files(quoted(incoming, scrubber), incoming, scrubber)),
            place=() if key.place else incoming.place,
            realm=incoming.realm,
            is_aside=incoming.is_aside,
            is_nameable=incoming.is_nameable,
        )


def _removed(
    found: Sequence[Finding], files: Sequence[FileReference], scrubber: Scrubber
) -> tuple[RemovedSecrets, ...]:
    """Count what the author is told of: how many of each kind, in the text and in the names of files."""
    in_names = removed_secrets(finding for file in files for finding in scrubber.findings(file.name))
    return (*removed_secrets(found), *in_names)


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
