"""Make a message fit for the bus: secrets removed, every part bounded."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, TypeAlias

from channels.core.message import FileReference, Incoming
from gateway.bounded_dict import BoundedDict
from gateway.contracts.ids import SessionScope
from gateway.contracts.messages import Attachment, CleanText, InboundMessage, Quote, clipped
from gateway.contracts.ports import Clock
from gateway.limits import AUTHOR_NAME_CHARS_MAX, ENVELOPE_BYTES_MAX, INBOUND_CHARS_MAX
from gateway.scrub import Scrubbed, Scrubber, removed_secrets
from gateway.scrub.raw_text import head
from gateway.scrub.scrubber import open_ending, scrub_after

_UNFIT: Final = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]+")
"""Ends of lines, what terminals obey, and marks that turn the direction of writing; some languages need the other
invisible ones."""


def clean_name(name: str, scrubber: Scrubber) -> CleanText:
    """Remove secrets from a name and cut it to at most AUTHOR_NAME_CHARS_MAX characters."""
    whole = scrubber.scrub(name)  # before a secret is parted where something unfit stood in it
    fit = _UNFIT.sub(" ", whole).strip()
    return clipped(whole if fit == whole else scrubber.scrub(fit), AUTHOR_NAME_CHARS_MAX)


NAMES_MAX: Final = 4_096  # people who speak to one account in a busy hour; a forgotten name is scrubbed once more


class HarmlessNames:
    """Names in which nothing had to change: the same in every chat, so nobody's is scrubbed for each message."""

    def __init__(self) -> None:
        self._known: BoundedDict[str, CleanText] = BoundedDict(NAMES_MAX)

    def clean(self, name: str, scrubber: Scrubber) -> CleanText:
        """Return what `clean_name` makes of the name. A name that held a secret is not kept."""
        known = self._known.get(name)
        clean = clean_name(name, scrubber) if known is None else known
        if clean == name:
            self._known[name] = clean
        return clean


# Text that fits the bus. Pure.
#
# Two bounds: characters, which people can be told, and the bytes of the envelope, which the bus enforces (a text of
# four-byte characters is within the first and beyond the second). Quotes have room of their own, so that neither they
# nor the text can push the other out.

ENVELOPE_REST_BYTES: Final = 48 * 1024  # ids, address, names and attachments, without the text
QUOTES_BYTES_MAX: Final = 64 * 1024  # sixteen quotes of the longest, or a whole thread of short ones
TEXT_BYTES_MAX: Final = ENVELOPE_BYTES_MAX - ENVELOPE_REST_BYTES - QUOTES_BYTES_MAX
_FRAME_BYTES: Final = 256  # of one quote or attachment in an envelope, without its texts
_NOTE_CHARS: Final = 160


def fit(text: str, *, chars_max: int = INBOUND_CHARS_MAX, bytes_max: int = TEXT_BYTES_MAX) -> str:
    """Return the text itself if it fits, otherwise its beginning and a note that says how much is missing."""
    if len(text) <= chars_max and _wire_bytes(text) <= bytes_max:
        return text
    kept = _longest_prefix(text[: chars_max - _NOTE_CHARS], bytes_max - _NOTE_CHARS)
    return f"{kept}\n\n[The message was cut here: it had {len(text):,} characters, the first {len(kept):,} are kept.]"


def fitting(quotes: Sequence[Quote], *, bytes_max: int = QUOTES_BYTES_MAX) -> tuple[Quote, ...]:
    """Return the last of the quotes, as many as there is room for."""
    kept: list[Quote] = []
    for quote in reversed(quotes):
        bytes_max -= _quote_bytes(quote)
        if bytes_max < 0:
            break
        kept.append(quote)
    return tuple(reversed(kept))


def _quote_bytes(quote: Quote) -> int:
    of_files = [text for file in quote.attachments for text in (file.name, file.reference, file.media_type)]
    texts_bytes = sum(map(_wire_bytes, (quote.author_name, quote.text, *of_files)))
    return texts_bytes + _FRAME_BYTES * (1 + len(quote.attachments))


def _longest_prefix(text: str, bytes_max: int) -> str:
    fits, too_long = 0, len(text) + 1
    while too_long - fits > 1:
        middle = (fits + too_long) // 2
        if _wire_bytes(text[:middle]) <= bytes_max:
            fits = middle
        else:
            too_long = middle
    return text[:fits]


def _wire_bytes(text: str) -> int:
    """Return the size of a text as a JSON string, where a control character takes six bytes."""
    return len(json.dumps(text, ensure_ascii=False).encode("utf-8", "surrogatepass"))


# Scrub and bound the context of a message: quotes, excerpts, forwards, the thread before it. Pure.

QUOTES_MAX: Final = 40  # what was said in a thread before we were called: enough to know what it is about
QUOTE_CHARS_MAX: Final = 4_000  # of each: context must not crowd out what is said


def quoted(incoming: Incoming, scrubber: Scrubber, names: HarmlessNames) -> list[Quote]:
    """Return the newest quotes of `incoming` without their files, in their order."""
    clean = []
    for found in incoming.quotes[-QUOTES_MAX:]:
        # Whose name nobody could look up is called by the id of the account.
        author = incoming.author_name if found.author_name == incoming.user_id else found.author_name
        text = clipped(scrubber.scrub(head(found.text, QUOTE_CHARS_MAX)), QUOTE_CHARS_MAX)
        clean.append(Quote(found.kind, names.clean(author, scrubber), text))
    return clean


# Turn a person's message into one for the bus: scrubbed and bounded.
#
# All its parts that go any further are clean: text, names of people and files.

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
    """The newest message of an author: the ending that was open before it, and the ending that it leaves open."""

    message_id: str
    before: str
    after: str
    until_ms: int


class OpenEndings:
    """The announcement that each author's newest message in a place leaves open.

    In memory only, bounded in number, length and time; a process that started later remembers nothing."""

    def __init__(self) -> None:
        self._said: BoundedDict[_Author, _Said] = BoundedDict(ENDINGS_MAX)

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

    def is_newest(self, incoming: Incoming) -> bool:
        """Tell whether its author has said nothing since."""
        said = self._said.get(_author_of(incoming))
        return said is not None and said.message_id == incoming.id


def _author_of(incoming: Incoming) -> _Author:
    return (incoming.channel, incoming.account, incoming.user_id, *incoming.place)


class Sanitizer:
    """Sanitize the messages of one channel."""

    def __init__(self, scrubber: Scrubber, clock: Clock, scope: SessionScope, *, language: str = "") -> None:
        """Treat everybody as a speaker of `language`, if it is given."""
        self._scrubber = scrubber
        self._clock = clock
        self._scope = scope
        self._language = language
        self._names = HarmlessNames()

    def clean(self, incoming: Incoming, ending: str = "") -> InboundMessage:
        """Return the message as it goes on the bus; `ending` is what its author's last message left open."""
        key = incoming.key(self._scope)
        scrubber = self._scrubber.for_chat(str(key))
        text, found = scrub_after(scrubber.for_person(), ending, incoming.text)
        bounded = fit(text)
        file_names = _file_names(incoming.attachments, scrubber)
        in_names = removed_secrets(finding for name in file_names for finding in name.findings)
        return InboundMessage(
            id=incoming.id,
            key=key,
            address=incoming.address,
            text=text if bounded == text else scrubber.scrub(bounded),
            author_id=incoming.user_id,
            author_name=self._names.clean(incoming.author_name, scrubber),
            is_private=incoming.is_private,
            sent_at_ms=incoming.sent_at_ms or self._clock.now_ms(),
            received_at_ms=incoming.edited_at_ms or self._clock.now_ms(),  # an edit that comes twice is one
            attachments=_attachments(incoming.attachments, file_names, scrubber),
            removed=(*removed_secrets(found), *in_names),
            language=self._language or _language(incoming.language),
            quotes=fitting(_with_files(quoted(incoming, scrubber, self._names), incoming, scrubber)),
            place=() if key.place else incoming.place,
            realm=incoming.realm,
            is_aside=incoming.is_aside,
            is_nameable=incoming.is_nameable,
        )


def _file_names(files: Sequence[FileReference], scrubber: Scrubber) -> list[Scrubbed]:
    return [scrubber.examine(file.name) for file in files]


def _attachments(
    files: Sequence[FileReference], names: Sequence[Scrubbed], scrubber: Scrubber
) -> tuple[Attachment, ...]:
    """Convert the files to attachments; a reference longer than any platform's is dropped, since it leads nowhere."""
    named = zip(files, names, strict=True)
    fit_ones = ((file, name.text) for file, name in named if len(file.reference) <= REFERENCE_CHARS_MAX)
    return tuple(_attachment(file, name, scrubber) for file, name in islice(fit_ones, FILES_MAX))


def _attachment(found: FileReference, name: CleanText, scrubber: Scrubber) -> Attachment:
    return Attachment(
        kind=found.kind,
        reference=found.reference,
        name=clipped(name, FILE_NAME_CHARS_MAX),
        media_type=clipped(scrubber.scrub(found.media_type), MEDIA_TYPE_CHARS_MAX),
        size_bytes=found.size_bytes,
    )


def _with_files(quotes: Sequence[Quote], incoming: Incoming, scrubber: Scrubber) -> list[Quote]:
    """Give each of the last quotes of the message the files that were found in it."""
    raw = incoming.quotes[len(incoming.quotes) - len(quotes) :]
    return [
        replace(quote, attachments=_attachments(found.attachments, _file_names(found.attachments, scrubber), scrubber))
        for quote, found in zip(quotes, raw, strict=True)
    ]


def _language(tag: str) -> str:
    return tag if _LANGUAGE.fullmatch(tag) else ""
