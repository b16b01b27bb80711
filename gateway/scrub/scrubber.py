"""The scrubber: raw text in, `CleanText` out. Nothing else in Trivet makes `CleanText` of raw text.

It fails closed: whatever goes wrong inside, the raw text does not come out.
"""

from __future__ import annotations

import asyncio
import copy
import re
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Final, NamedTuple

from gateway.contracts.messages import CleanText, Finding, RemovedSecrets, portion
from gateway.scrub.known import KnownValues
from gateway.scrub.machine import Machine
from gateway.scrub.met import MetInChat, MetSecrets
from gateway.scrub.own_rules import OwnRules
from gateway.scrub.placeholder import PLACEHOLDER, WHOLE_TEXT, WHOLE_TEXT_KIND, Placeholders, kind_of
from gateway.scrub.raw_text import decoded
from gateway.scrub.rules import rule_book
from gateway.scrub.view import is_cjk
from gateway.scrub.words import is_announcing, vocabulary

BUDGET_S: Final = 2.0
"""Processor time, so that a busy or sleeping machine costs nobody a message; enough for some 5 MB."""

_KEY_BYTES: Final = 32


class Scrubbed(NamedTuple):
    """A clean text and what was removed from it; the findings point into the raw text."""

    text: CleanText
    findings: tuple[Finding, ...]


_NOTHING: Final = Scrubbed(CleanText(""), ())


class Scrubber:
    """The one maker of `CleanText`, on the rules of `rules.toml` and the values it is told to keep.

    It never raises: a failure inside replaces the whole text.

    `known_values` are this process's own secrets (tokens, passwords, API keys), each of at least six
    characters. `placeholder_key` makes placeholders comparable between processes that share it; by default
    it is random, so that they can be compared within this process only. `own` are the operator's own formats.
    """

    def __init__(
        self,
        known_values: Iterable[str] = (),
        *,
        placeholder_key: bytes | None = None,
        own: OwnRules | None = None,
        budget_s: float = BUDGET_S,
        spent_s: Callable[[], float] = time.thread_time,
    ) -> None:
        key = placeholder_key or secrets.token_bytes(_KEY_BYTES)
        self._known = KnownValues(known_values)
        self._placeholders = Placeholders(key)
        self._met_by_chat = MetSecrets(key)
        self._met: MetInChat | None = None
        self._own = own
        self._hides_examples = False
        self._budget_s = budget_s
        self._spent_s = spent_s

    def for_chat(self, chat: str) -> Scrubber:
        """This scrubber with the placeholders of one chat (a session key's text), where it meets again what it found
        before. One HMAC at first, then none: rules and known values are shared."""
        narrowed = copy.copy(self)
        narrowed._placeholders = self._placeholders.of(chat)
        narrowed._met = self._met_by_chat.of(chat)
        narrowed._own = self._own.within(chat) if self._own is not None else None
        return narrowed

    def for_person(self) -> Scrubber:
        """This scrubber for what a person sends: the keys of documentation go as well, so that who pastes one to try
        sees it work. Elsewhere they stay readable."""
        narrowed = copy.copy(self)
        narrowed._hides_examples = True
        return narrowed

    def scrub(self, text: str) -> CleanText:
        """The text with a placeholder for each secret. Never raises; a failure replaces the whole text."""
        return self.examine(text).text

    def findings(self, text: str) -> Sequence[Finding]:
        """Which rule fired where in `text`; never the secret itself."""
        return self.examine(text).findings

    def removed(self, text: str) -> Mapping[str, str]:
        """The secrets of `text` by the placeholders that `scrub` puts in their place: for the vault, and for nobody
        else. Empty when something goes wrong."""
        made: dict[str, str] = {}
        noting = copy.copy(self)
        noting._placeholders = self._placeholders.noting(made)
        return made if WHOLE_TEXT not in noting.scrub(text) else {}

    def examine(self, text: str) -> Scrubbed:
        """`scrub` and `findings` in one pass."""
        if not text:
            return _NOTHING
        try:
            machine = self.machine()
            clean = machine.feed(text, is_last=True)
        except Exception:  # noqa: BLE001 - whatever went wrong, the raw text must not come out
            return Scrubbed(CleanText(WHOLE_TEXT), (Finding(WHOLE_TEXT_KIND, 0, len(text)),))
        return Scrubbed(CleanText(clean), tuple(machine.findings))

    def stream(self) -> StreamScrubber:
        """A scrubber for one text that arrives in pieces."""
        return StreamScrubber(self)

    def machine(self) -> Machine:
        """A machine for one text."""
        return Machine(
            rule_book(),
            self._known,
            self._placeholders,
            budget_s=self._budget_s,
            spent_s=self._spent_s,
            met=self._met,
            own=self._own,
            hides_examples=self._hides_examples,
        )


class StreamScrubber:
    """One text that arrives in pieces. However it is cut, the joined output equals `scrub` of the whole.

    What comes out of `feed` is final; what could still turn out to be part of a secret waits for more. The
    time budget is that of one piece, and memory does not grow with the text.
    """

    def __init__(self, scrubber: Scrubber | None = None) -> None:
        self.removed: Counter[str] = Counter()
        """How many secrets of each kind were removed since the stream was made."""
        self.has_failed = False
        """Is the rest of this text withheld? A placeholder for the whole was given in its place."""
        self._machine: Machine | None = None
        self._scrubber = scrubber or _default()

    def feed(self, chunk: str) -> CleanText:
        """Take the next piece; returns what is certain by now, often nothing."""
        return self._read(chunk, is_last=False)

    def flush(self) -> CleanText:
        """Say that the text is over; returns the rest. The next `feed` begins a new text."""
        rest = self._read("", is_last=True)
        self._machine, self.has_failed = None, False
        return rest

    def _read(self, chunk: str, *, is_last: bool) -> CleanText:
        if self.has_failed:
            return CleanText("")
        try:
            if self._machine is None:
                self._machine = self._scrubber.machine()
            clean = self._machine.feed(chunk, is_last=is_last)
            self.removed.update(kind_of(finding.rule) for finding in self._machine.taken_findings())
            return CleanText(clean)
        except Exception:  # noqa: BLE001 - whatever went wrong, the raw text must not come out
            self.has_failed = True
            self.removed["text"] += 1
            return CleanText(WHOLE_TEXT)


def scrub(text: str) -> CleanText:
    """`Scrubber.scrub` with the default rules and no known values."""
    return _default().scrub(text)


def findings(text: str) -> Sequence[Finding]:
    """`Scrubber.findings` with the default rules and no known values."""
    return _default().findings(text)


def report(text: str) -> Mapping[str, int]:
    """How many secrets of each kind a text holds, for `trivet scrub --report`."""
    return {removed.kind: removed.count for removed in removed_secrets(findings(text))}


def removed_secrets(found: Iterable[Finding]) -> tuple[RemovedSecrets, ...]:
    """What the user is told: how many of each kind, most frequent first. No lengths, no positions."""
    counts = Counter(kind_of(finding.rule) for finding in found)
    return tuple(RemovedSecrets(kind, count) for kind, count in counts.most_common())


@cache
def _default() -> Scrubber:
    return Scrubber()


# Carry an announcement over to its author's next message: "my password is" in one, the password in the next.
#
# The value alone has no looks to be told by. So the end that a message leaves open is kept for a moment by whoever
# receives messages, and the next message is read after it.


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


def scrub_after(scrubber: Scrubber, ending: str, text: str) -> Scrubbed:
    """Scrub `text` as its author said it after `ending`; the findings are those in it, not their positions.

    A value counts as announced only where the message begins with it. Otherwise this is `scrubber.examine(text)`.
    """
    alone = scrubber.examine(text)
    message = text.lstrip()
    if not ending or not message:
        return alone
    border = len(ending) + 1
    raw = f"{ending} {message}"
    clean, unsorted = scrubber.examine(raw)
    found = sorted(unsorted, key=lambda each: each.start)
    in_message = tuple(each for each in found if each.end > border)
    begins_at = len(text) - len(message)
    if not in_message or in_message[0].start != border or any(each.start == begins_at for each in alone.findings):
        return alone
    shown = _after_border(raw, clean, found, border)
    if shown is None:  # the clean text does not say where the message begins: it may hold what it should not
        return Scrubbed(scrubber.scrub(WHOLE_TEXT), in_message)
    # Read alone it may show what the announcement has hidden.
    again = scrubber.examine(shown)
    return Scrubbed(again.text, (*in_message, *again.findings))


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


# Text files without their secrets, a piece at a time, so that nobody else has to wait.


_PIECE_CHARS: Final = 65_536  # scrubbed at a time: some ten milliseconds, then others have their turn


async def without_secrets(content: bytes, scrubber: Scrubber) -> bytes | None:
    """A text (`readable.is_text`) with a placeholder for each secret, in its own encoding; None if it could not be
    looked through in time. Of at most SCRUBBED_FILE_BYTES_MAX, which callers see to."""
    text, encoding = decoded(content)
    stream = scrubber.stream()
    clean = []
    for at in range(0, len(text), _PIECE_CHARS):
        clean.append(stream.feed(text[at : at + _PIECE_CHARS]))
        await asyncio.sleep(0)
    clean.append(stream.flush())
    whole = "".join(clean)
    return None if WHOLE_TEXT in whole and WHOLE_TEXT not in text else whole.encode(encoding)
