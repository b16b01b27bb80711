"""From what a tool returned to what the model may see: bounded, scrubbed, cut with a handle, framed if foreign."""

from __future__ import annotations

from typing import Final, NamedTuple

from agent.limits import FRAME_CHARS, TOOL_RESULT_CHARS_MAX
from agent.tools.framing import frame_chars, framed
from agent.tools.outputs import readable
from agent.tools.shelf import Shelf
from agent.tools.truncation import abridged
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText, own_words
from gateway.contracts.ports import Clock, Scrubber
from gateway.scrub.placeholder import WHOLE_TEXT

_ADVICE: Final = ": ask for less at once"

_UNCHECKED: Final = own_words(
    "[redacted:text#0000] This result could not be looked through for secrets, so it is left out: ask for less."
)


class Envelope(NamedTuple):
    """A result fit to be shown, stored and logged."""

    text: CleanText
    is_truncated: bool


class Envelopes:
    """Makes envelopes; long results go to the shelf."""

    def __init__(self, shelf: Shelf, scrubber: Scrubber, clock: Clock) -> None:
        self._shelf = shelf
        self._scrubber = scrubber
        self._clock = clock

    def wrap(self, key: SessionKey, raw: str, *, foreign: bool, reads_on: bool = True) -> Envelope:
        """The envelope of what a tool returned for `key`: at most TOOL_RESULT_CHARS_MAX characters. Only who `reads_on`
        gets a handle to the rest: a sub-agent may not have `read_more`."""
        scrubber = self._scrubber.for_chat(str(key))
        clean = scrubber.scrub(readable(raw))
        if clean == WHOLE_TEXT:
            return Envelope(_UNCHECKED, is_truncated=False)
        room = TOOL_RESULT_CHARS_MAX - (frame_chars(FRAME_CHARS) if foreign else 0)
        is_truncated = len(clean) > room
        shown = self._cut(key, clean, room, foreign=foreign, reads_on=reads_on) if is_truncated else clean
        if foreign:
            shown = framed(shown, self._clock.code(FRAME_CHARS))
        # Scrubbed once more: the cut brought together what was apart.
        return Envelope(scrubber.scrub(shown), is_truncated)

    def _cut(self, key: SessionKey, clean: CleanText, room: int, *, foreign: bool, reads_on: bool) -> str:
        """Cut only after scrubbing: a cut through a secret would hide it from the scrubber."""
        handle = self._shelf.keep(key, clean, foreign=foreign) if reads_on else ""
        return abridged(clean, room, handle=handle, advice=_ADVICE)
