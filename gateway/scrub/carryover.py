"""Carry an announcement over to its author's next message: "my password is" in one, the password in the next.

The value alone has no looks to be told by. So the end that a message leaves open is kept for a moment by whoever
receives messages, and the next message is read after it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from gateway.contracts.messages import CleanText, Finding, portion
from gateway.contracts.ports import Scrubber
from gateway.scrub.placeholder import PLACEHOLDER, WHOLE_TEXT
from gateway.scrub.units import is_cjk
from gateway.scrub.words import is_announcing, vocabulary

ENDING_CHARS_MAX: Final = 120
"""How much of a message's end is kept: as far as an announcing word reaches."""

_CARRIED_WORDS_MAX: Final = 4
"""Words after an announcing one that say what the value is for."""

_SIGN: Final = re.compile(r"[:=：＝→][\s\"'`“«(]*\Z|[-–—]\Z")
_WORD: Final = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")


def open_ending(text: str) -> str:
    """Return the end of `text` if it announces a value and does not say it, else nothing."""
    end = text.strip()[-ENDING_CHARS_MAX:]
    return end if end and announces(end) else ""


def scrub_after(scrubber: Scrubber, ending: str, text: str) -> tuple[CleanText, tuple[Finding, ...]]:
    """Scrub `text` as its author said it after `ending`; the findings are those in it, not their positions.

    A value counts as announced only where the message begins with it. Otherwise this is `scrubber.scrub(text)`.
    """
    known = tuple(scrubber.findings(text))
    message = text.lstrip()
    if not ending or not message:
        return scrubber.scrub(text), known
    border = len(ending) + 1
    raw = f"{ending} {message}"
    found = sorted(scrubber.findings(raw), key=lambda each: each.start)
    in_message = tuple(each for each in found if each.end > border)
    if not in_message or in_message[0].start != border or any(each.start == len(text) - len(message) for each in known):
        return scrubber.scrub(text), known
    shown = _after_border(raw, scrubber.scrub(raw), found, border)
    if shown is None:  # the clean text does not say where the message begins: it may hold what it should not
        return scrubber.scrub(WHOLE_TEXT), in_message
    # Read alone it may show what the announcement has hidden.
    return scrubber.scrub(shown), (*in_message, *scrubber.findings(shown))


def announces(text: str) -> bool:
    """Tell whether the end of `text` announces a value ("my password is"), and nothing else ("the password is
    wrong")."""
    end = text.rstrip()
    if _SIGN.search(end) or vocabulary().says_cjk.search(end):
        return True
    words = [part for word in _WORD.findall(end[-ENDING_CHARS_MAX:]) for part in word.lower().split("-")]
    if not words or not end.lower().endswith(words[-1]):
        return False
    if is_cjk(end[-1]):
        return any(end.lower().endswith(word) for word in vocabulary().announcing if is_cjk(word[-1]))
    last = max((at for at, word in enumerate(words) if is_announcing(word)), default=None)
    if last is None:
        return False
    rest = words[last + 1 :]
    says, carries = vocabulary().says, vocabulary().carries | vocabulary().types
    is_carried = bool(rest) and rest[0] in carries and len(rest) <= _CARRIED_WORDS_MAX
    return not rest or rest[-1] in says or all(word in carries for word in rest) or is_carried


def _after_border(raw: str, clean: CleanText, found: Sequence[Finding], border: int) -> CleanText | None:
    """Return the part of `clean` that begins where a finding begins at `border` in `raw`; None where the two texts do
    not agree on it. What is no secret stands in both alike."""
    raw_at = clean_at = 0
    begins: int | None = None
    for each in found:
        length = each.start - raw_at
        if length < 0 or raw[raw_at : each.start] != clean[clean_at : clean_at + length]:
            return None
        clean_at += length
        begins = clean_at if each.start == border else begins
        stand_in = PLACEHOLDER.match(clean, clean_at)
        if stand_in is None:
            return None
        raw_at, clean_at = each.end, stand_in.end()
    return None if begins is None or raw[raw_at:] != clean[clean_at:] else portion(clean, begins, len(clean))
