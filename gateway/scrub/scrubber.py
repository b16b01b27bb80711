"""The scrubber: raw text in, `CleanText` out. Nothing else in Trivet makes `CleanText` of raw text.

It fails closed: whatever goes wrong inside, the raw text does not come out."""

from __future__ import annotations

import asyncio
import copy
import re
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any, Final, NamedTuple

from gateway.contracts.messages import CleanText, Finding, RemovedSecrets, portion
from gateway.scrub.announced import AnnouncedValue
from gateway.scrub.known import (
    PLACEHOLDER,
    WHOLE_TEXT,
    WHOLE_TEXT_KIND,
    FoundValues,
    KnownValues,
    MetInChat,
    MetSecrets,
    Placeholders,
    kind_of,
)
from gateway.scrub.known import RULE as KNOWN
from gateway.scrub.lines import LineRule, ListedRun, RuledLines, TableColumn, may_open, open_anchor
from gateway.scrub.lookahead import Lookahead, LookaheadScanner
from gateway.scrub.openings import CommandLine, ReadAhead, opened_by
from gateway.scrub.own_rules import OWN, OwnRuleReader, OwnRules
from gateway.scrub.raw_text import decoded
from gateway.scrub.rules import Movable, SecretSpan
from gateway.scrub.states import Candidate, KeyBlock, State, StepResult, ValueBeforeKeyword
from gateway.scrub.view import CONTEXT_CHARS, RUN_CHARS_MAX, View, closed_until, is_cjk
from gateway.scrub.words import Announcement, announcement, is_announcing, swallowed, vocabulary
from gateway.scrub.wrapped import WrappedTokens

# The one incremental machine from which whole-text scrubbing and streaming are both made.
#
# It reads closed units only (view.py), keeps whatever is open as an explicit state (states.py), and never
# takes back what it gave away. Scrubbing a whole text is feeding it in one piece, so the two agree for every
# way of cutting a text, by construction and not by luck.

NAMED: Final = "named"  # rules of this kind know where a secret begins, and not by its form where it ends
_REST_OF_SECRET: Final = re.compile(r"[A-Za-z0-9+/=_.~-]+", re.ASCII)
_CUT_ZONE_CHARS: Final = 512  # a run that is too long is cut before anything that may begin a secret in its last part
_BUDGET_CHARS: Final = 500_000  # for so many the budget is given again: a file of nothing but secrets takes half of it
_UNCLOCKED_CHARS_MAX: Final = 8_192  # so few take milliseconds, and to ask for the time is a tenth of most texts' cost
_SIGMA: Final = "\u03a3"
_FORGET_CHARS: Final = 4096  # a stream drops what it gave away in pieces of this size: rarely enough to be free
_UNINTERRUPTED: Final = (KeyBlock, RuledLines)


class Overrun(Exception):
    """The time budget of one call is spent."""


class Terms(NamedTuple):
    """What a text is scrubbed with; see `Scrubber`."""

    known: KnownValues
    placeholders: Placeholders
    own: OwnRules | None
    budget_s: float
    spent_s: Callable[[], float]
    met: MetInChat | None = None
    hides_examples: bool = False


def _rule_in(terms: Terms, encoded: str) -> str | None:
    """Return the rule of the first secret in a text that was encoded; encodings inside it are not undone. The machine
    that met it is not known here, nor to any other of its parts: they would keep each other."""
    machine = Machine(terms._replace(met=None, hides_examples=False), is_inner=True)
    machine.feed(encoded, is_last=True)
    return machine.findings[0].rule if machine.findings else None


class Machine(Movable):
    """Feed it a text in any pieces; what comes out, joined, is the scrubbed text."""

    POSITIONS = (
        "_at", "_closed", "_seen", "_limit", "_shown_at", "_cuts_off_at", "_ahead", "_wrapped", "_own", "_state", "_due"
    )  # fmt: skip

    def __init__(self, terms: Terms, *, is_inner: bool = False) -> None:
        self.findings: list[Finding] = []
        secret_in = None if is_inner else partial(_rule_in, terms)
        self._terms = terms
        self._lookahead = LookaheadScanner(terms.known, secret_in, hides_examples=terms.hides_examples)
        self._is_inner = is_inner
        self._view = View()
        self._values: FoundValues | None = None
        self._ahead: Lookahead | None = None
        self._shown = self._lowered = ""
        self._shown_at = self._cuts_off_at = -1
        self._wrapped = WrappedTokens(secret_in)
        self._own = OwnRuleReader(terms.own) if terms.own is not None else None
        self._out: list[str] = []
        self._state: State | None = None
        self._due: RuledLines | TableColumn | None = None
        self._line_read: tuple[LineRule | None, int] = (None, 0)
        self._swallowed: Announcement | None = None
        self._at = self._closed = self._seen = self._given_raw = self._forgotten_raw = self._limit = 0

    def feed(self, chunk: str, *, is_last: bool = False) -> str:
        """Take a piece of the text; returns what can be said for certain by now.

        Raises `Overrun` when the time budget is spent; the machine is of no use afterwards."""
        is_clocked = len(self._view.text) + len(chunk) > _UNCLOCKED_CHARS_MAX or self._terms.budget_s < 0
        budget_s = self._terms.budget_s * (1 + len(chunk) / _BUDGET_CHARS)
        deadline_s = self._terms.spent_s() + budget_s if is_clocked else 0.0
        self._view.append(chunk, is_last=is_last)
        while (end := self._next_border(is_last=is_last)) > self._closed:
            if is_clocked and self._terms.spent_s() > deadline_s:
                raise Overrun
            self._advance(end, is_last=False)
            self._closed = end
        if is_last:
            self._advance(len(self._view.text), is_last=True)
            self._give(self._view.raw_length)
        else:
            self._forget()
        if is_clocked and self._terms.spent_s() > deadline_s:
            raise Overrun
        clean = "".join(self._out)
        self._out.clear()
        return clean

    # --- how far to read

    def _next_border(self, *, is_last: bool) -> int:
        """Return the position up to which the text is closed; `self._closed` if nothing more is."""
        text = self._view.text
        window = min(len(text), self._closed + RUN_CHARS_MAX)
        if is_last and window == len(text):
            self._settle(text, window, is_last=True)
            return self._closed
        unread = max(self._closed, self._seen - 1)
        border = closed_until(text, unread, window)
        if border > unread:
            self._seen = border
            return self._before_open_value(text, border, is_full=window - self._closed == RUN_CHARS_MAX)
        self._seen = window
        if window - self._closed == RUN_CHARS_MAX:
            return self._forced_border(text, window)
        return self._closed

    def _before_open_value(self, text: str, border: int, *, is_full: bool) -> int:
        """Return where the unit begins in which a token, a value or a phrase begins that may go on after `border`."""
        end, begun = border, self._settle(text, border, is_last=False)
        run = ListedRun()
        while True:
            begun = min(
                begun,
                self._terms.known.reaches_over(text, self._closed, end, border),
                self._wrapped.reaches_over(end),
                end if self._own is None else self._own.reaches_over(end),
                open_anchor(text, self._closed, end),
                end if self._is_inner else run.open_at(text, self._closed, end),
            )
            if begun >= end:
                break
            end = min(begun, closed_until(text, self._closed, begun + 1))
        if end == self._closed and is_full:
            self._settle(text, border, is_last=True)
            return border
        if end < border:
            self._seen = self._closed
        return end

    def _settle(self, text: str, border: int, *, is_last: bool) -> int:
        """Decide on all lines of the closed text up to `border`; returns up to where that was possible."""
        at = self._wrapped.settle(text, self._closed, border, is_last=is_last)
        if self._own is not None:
            at = min(at, self._own.settle(text, self._lower(), self._closed, border, is_last=is_last))
        return at

    def _forced_border(self, text: str, window: int) -> int:
        zone = window - _CUT_ZONE_CHARS
        border = self._lookahead.first_suspect(text, self._lower(), zone, window)
        if self._own is not None:
            border = self._own.first_word(text, self._lower(), zone, border)
            self._own.settle(text, self._lower(), self._closed, border, is_last=True)
        self._cuts_off_at = border
        return border

    def _lower(self) -> str:
        """Return the view in lower case; converts what is new, or all if a sigma is there: what follows shapes it."""
        text, done = self._view.text, len(self._lowered)
        if done != len(text):
            self._lowered = text.lower() if _SIGMA in text else self._lowered + text[done:].lower()
        return self._lowered

    def _forget(self) -> None:
        """Keep what rules may look back at, drop the rest."""
        if self._given_raw - self._forgotten_raw < _FORGET_CHARS or isinstance(self._state, RuledLines):
            return
        before = max(0, min(self._at, self._closed) - CONTEXT_CHARS)
        self._lowered = self._lower()[before:]
        self._view.forget(before, self._given_raw)
        self._forgotten_raw = self._given_raw
        self.moved(before)

    # --- reading

    def _advance(self, end: int, *, is_last: bool) -> None:
        """Read the closed text up to `end` and give away all of it that is decided."""
        text = self._view.text
        self._drop_rest_of_cut_secret(text, end)
        if isinstance(self._state, KeyBlock) and self._state.step(text, self._at, end, is_last=is_last).waits:
            return  # nothing else is looked for inside a key file
        if isinstance(self._state, RuledLines) and self._state.waits(text, self._at, end, is_last=is_last):
            return
        # What was seen while a line was not whole is known: its anchor may stand in a token, which begins before it.
        is_seen = isinstance(self._state, RuledLines) and self._ahead is not None
        begun, start = self._limit if is_seen else self._at, max(self._at, self._limit)
        ahead = self._lookahead.over(text, self._lower(), (begun, start, end), self._wrapped.spans, is_last=is_last)
        if self._values is not None:
            self._lookahead.put(ahead, self._values.spans(text, start, end), text, start)
        if self._terms.met is not None:
            edges = [start, *(edge for span in reversed(ahead.spans) for edge in span[:2]), end]
            self._lookahead.put(ahead, self._terms.met.spans(text, edges), text, start)
        if self._ahead is not None:  # a run is not read again from where a state waits in it
            ahead.spans.extend(self._ahead.spans)
            if is_seen:
                ahead.openings.extend(self._ahead.openings)
                ahead.lines.extend(self._ahead.lines)
        if self._own is not None and self._own.spans:
            self._own.pass_by(self._at)
            ahead.cover([span for span in self._own.spans if span.end <= end])
        self._ahead, self._limit = ahead, end
        while (state := self._state) or ahead.spans or ahead.openings or self._due or self._swallowed:
            ahead.pass_by(self._at)
            if not (self._go_on(state, text, end, ahead, is_last=is_last) if state else self._begin(text, end, ahead)):
                break
        else:
            self._at = end
        self._wrapped.pass_by(self._at)
        self._give(self._view.raw_start(self._at))

    def _begin(self, text: str, end: int, ahead: Lookahead) -> bool:
        """Go to the next thing that matters. False: there is none up to `end`."""
        word, self._swallowed = self._swallowed, None
        if word is not None and word.start < self._at <= word.end <= (ahead.spans[-1].start if ahead.spans else end):
            self._state = ReadAhead(opened_by(word, text), word.end)
            return True
        opening = ahead.next_opening(end)
        next_at = opening.at if opening else ahead.spans[-1].start if ahead.spans else end
        if self._due is not None and (due_at := max(self._due.due_at or 0, self._at)) <= min(next_at, end - 1):
            self._at, self._state, self._due = due_at, self._due, None
        elif next_at >= end:
            self._at = end
            return False
        elif opening is None:
            self._cut(text, ahead.spans[-1], ahead)
        else:
            self._at = ahead.take().at
            match opening.what:
                case LineRule() as rule:
                    of, until_raw = self._line_read
                    is_new = of is not rule or self._view.raw_start(self._at) >= until_raw
                    if is_new and rule.may_begin(text, self._at, self._shown, self._shown_at):
                        self._state = RuledLines(rule)
                case Candidate() as candidate:
                    near = max(0, self._at - CONTEXT_CHARS, self._shown_at)
                    self._state = ValueBeforeKeyword(candidate, self._shown + text[near : self._at])
                case int() as stop:
                    place = self._at, stop
                    announced = announcement(text, self._lowered, place, end, self._shown, self._shown_at)
                    if announced is not None:
                        self._at = announced.end
                        self._state = opened_by(announced, text, self._shown_at)
                case _:
                    self._state = KeyBlock(opening.at)
        return True

    def _go_on(self, state: State, text: str, end: int, ahead: Lookahead, *, is_last: bool) -> bool:
        """Take one step in what is open. False: it needs more text."""
        due = self._interrupting(state, text, end, ahead) if self._due is not None or ahead.lines else None
        due_at = due.due_at if due is not None else None
        if type(state) is AnnouncedValue:
            is_form = bool(ahead.spans) and not ahead.spans[-1].rule.startswith((OWN, NAMED))
            state.token_at = ahead.spans[-1].start if is_form else None
        ruled_at = end
        if due_at is not None and isinstance(due, RuledLines) and type(state) is ReadAhead and due is not self._due:
            if due.waits(text, due_at, end, is_last=is_last):
                return False
            if may_open(due.rule, text, due_at, end, is_last=is_last):  # now that all of its line is there
                ruled_at = due_at
            due_at = None
        step = state.step(text, self._at, due_at or end, is_last=is_last and due_at is None)
        if due_at is not None and step.waits:
            due_at = None
            step = state.step(text, step.at, end, is_last=is_last)
        if type(state) is ReadAhead:  # as a second scrub, which finds no value, goes on there
            ruled_at = min(ruled_at, next((one.at for one in reversed(ahead.openings) if type(one.what) is int), end))
        if step.cut is not None and step.cut.start > ruled_at:  # first the rule says what it knows
            step = StepResult(self._at, is_over=True)
        if step.found:
            ahead.cover(step.found)
        if ahead.spans and type(state) is not KeyBlock:
            reached = step.cut.end if step.cut else step.at
            if reached > ahead.spans[-1].start:
                if step.is_over or step.cut is None or step.becomes is not None:
                    self._close(state)
                self._cut(text, _with_tokens(step.cut, ahead.spans), ahead)
                return True
        if step.cut is not None:
            self._cut(text, step.cut, ahead)
        self._at = step.at
        if step.becomes is not None and not (step.cut is not None and self._swallowed):
            is_ahead = step.cut is not None and type(step.becomes) is not ReadAhead
            self._state = ReadAhead(step.becomes, step.at) if is_ahead else step.becomes
            return True
        if step.is_over or step.becomes is not None:
            self._close(state)
            return True
        if step.cut is None and due_at is not None and due is not None:
            due.interrupted = state
            self._at, self._state = due_at, due
            if due is self._due:
                self._due = None
            else:
                ahead.pass_by(due_at)
                ahead.take()
            return True
        return step.cut is not None

    def _interrupting(self, state: State, text: str, end: int, ahead: Lookahead) -> RuledLines | TableColumn | None:
        """Return the rule that is to read its line before the open state does, if there is one: a row that is due, or
        for what goes from word to word what a rule knows of its line."""
        due_at = self._due.due_at if self._due is not None else None
        is_due = due_at is not None and self._at <= due_at <= end and type(state) not in _UNINTERRUPTED
        limit = min(end, self._at + CONTEXT_CHARS, due_at if is_due and due_at is not None else end)
        is_walk = ahead.lines and type(state) in (AnnouncedValue, CommandLine, ReadAhead)
        for at, _, rule in reversed(ahead.lines) if is_walk else ():
            if at >= limit:
                break
            is_apart = type(state) is not AnnouncedValue or text[at - 1].isspace()  # else it may be a part of the value
            if is_apart and isinstance(rule, LineRule) and rule.may_begin(text, at, self._shown, self._shown_at):
                return RuledLines(rule, at)
        return self._due if is_due else None

    def _close(self, state: State) -> None:
        """Go on without a state, with the one that it interrupted, or with the lines that are due below it."""
        self._state = None
        if isinstance(state, RuledLines | TableColumn):
            self._state, state.interrupted = state.interrupted, None
            self._due = state if state.due_at is not None else self._due
            if isinstance(state, RuledLines) and state.read_until is not None:
                self._line_read = state.rule, self._view.raw_start(state.read_until)

    # --- giving away

    def _give(self, until_raw: int) -> None:
        if until_raw > self._given_raw:
            self._out.append(self._view.raw(self._given_raw, until_raw))
            self._given_raw = until_raw

    def _cut(self, text: str, span: SecretSpan, ahead: Lookahead) -> None:
        if self._own and span.rule != KNOWN and text[span.start : span.end] in self._own.rules.allowed_values:
            self._at = span.end
            return
        start, end = self._view.raw_start(span.start), self._view.raw_end(span.end)
        self._give(start)
        stand_in = self._terms.placeholders.stand_in(span.rule, text[span.start : span.end])
        self._out.append(stand_in)
        self.findings.append(Finding(span.rule, start, end))
        self._given_raw = end
        self._at = span.end
        self._swallowed = swallowed(text, self._lowered, span.start, span.end)
        gap = text[max(0, self._shown_at, span.start - CONTEXT_CHARS) : span.start]
        inside = self._swallowed
        word = text[inside.start : span.end] if inside is not None and inside.end == span.end else ""
        self._shown, self._shown_at = f"{self._shown}{gap}{stand_in}{word}"[-CONTEXT_CHARS:], span.end
        self._lookahead.put_behind(ahead, text, span.end, self._limit)
        if not self._is_inner:
            self._meet(text, span, ahead)

    def _meet(self, text: str, span: SecretSpan, ahead: Lookahead) -> None:
        """Remember what was cut, and look for it in the rest of the closed text."""
        value = text[span.start : span.end]
        self._values = self._values or FoundValues()
        added = self._values.add(value, span.rule)
        if added is not None:
            self._lookahead.put(ahead, added.spans(text, span.end, self._limit), text, span.end)
        if added is not None and self._terms.met is not None:
            self._terms.met.add(value, span.rule)

    def _drop_rest_of_cut_secret(self, text: str, end: int) -> None:
        """Drop the rest of a secret that a forced border cut: it goes on in the next piece, and so does its removal."""
        if self._cuts_off_at == self._at == self._closed and self._given_raw == self._view.raw_end(self._at):
            self._cuts_off_at = -1
            if self._shown_at == self._at and (rest := _REST_OF_SECRET.match(text, self._at, end)):
                self._at = self._shown_at = rest.end()
                self._given_raw = self._view.raw_end(self._at)
                if self.findings:
                    self.findings[-1] = replace(self.findings[-1], end=self._given_raw)


def _with_tokens(value: SecretSpan | None, tokens: Sequence[SecretSpan]) -> SecretSpan:
    """Return what is cut where a token, the last of `tokens`, overlaps a value or what leads to one: all of the value
    if it begins before the token; else the token, whose form names its kind."""
    nearest = tokens[-1]
    if value is None:
        return nearest
    if nearest.rule.startswith(OWN):  # it may have less of the value than we know
        return nearest._replace(start=min(nearest.start, value.start), end=max(nearest.end, value.end))
    is_known_before = nearest.rule.startswith(NAMED) and nearest.start == value.start and nearest.end < value.end
    if nearest.start <= value.start and not is_known_before:
        return nearest
    for token in reversed(tokens):
        if token.start >= value.end:
            break
        value = value._replace(end=max(value.end, token.end))
    return value


BUDGET_S: Final = 2.0  # processor time, so that a busy or sleeping machine costs nobody a message; enough for some 5 MB
_KEY_BYTES: Final = 32


class Scrubbed(NamedTuple):
    """A clean text and what was removed from it; the findings point into the raw text."""

    text: CleanText
    findings: tuple[Finding, ...]


class Scrubber:
    """The one maker of `CleanText`, on the rules of `rules.toml` and the values it is told to keep.

    It never raises: a failure inside replaces the whole text.

    `known_values` are this process's own secrets (tokens, passwords, API keys), each of at least six
    characters. `placeholder_key` makes placeholders comparable between processes that share it; by default
    it is random, so that they can be compared within this process only. `own` are the operator's own formats."""

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
        self._terms = Terms(KnownValues(known_values), Placeholders(key), own, budget_s, spent_s)
        self.met_by_chat = MetSecrets(key, time.monotonic)

    def for_chat(self, chat: str) -> Scrubber:
        """Return this scrubber with the placeholders of one chat (a session key's text), where it meets again what
        it found before. It costs one HMAC: rules and known values are shared."""
        return self._with(
            placeholders=self._terms.placeholders.of(chat),
            met=self.met_by_chat.of(chat),
            own=self._terms.own.within(chat) if self._terms.own is not None else None,
        )

    def for_person(self) -> Scrubber:
        """Return this scrubber for what a person sends: the keys of documentation go as well, so that who pastes one
        to try sees it work. Elsewhere they stay readable."""
        return self._with(hides_examples=True)

    def _with(self, **terms: Any) -> Scrubber:
        changed = copy.copy(self)
        changed._terms = self._terms._replace(**terms)
        return changed

    def scrub(self, text: str) -> CleanText:
        """Return the text with a placeholder for each secret. Never raises; a failure replaces the whole text."""
        return self.examine(text).text

    def findings(self, text: str) -> Sequence[Finding]:
        """Tell which rule fired where in `text`; never the secret itself."""
        return self.examine(text).findings

    def removed(self, text: str) -> Mapping[str, str]:
        """Return the secrets of `text` by the placeholders that `scrub` puts in their place: for the vault, and for
        nobody else. Empty when something goes wrong."""
        made: dict[str, str] = {}
        noting = self._with(placeholders=self._terms.placeholders.noting(made))
        return made if WHOLE_TEXT not in noting.scrub(text) else {}

    def examine(self, text: str) -> Scrubbed:
        """Scrub and find in one pass."""
        if not text:
            return Scrubbed(CleanText(""), ())
        try:
            machine = self.machine()
            clean = machine.feed(text, is_last=True)
        except Exception:  # noqa: BLE001 - whatever went wrong, the raw text must not come out
            return Scrubbed(CleanText(WHOLE_TEXT), (Finding(WHOLE_TEXT_KIND, 0, len(text)),))
        return Scrubbed(CleanText(clean), tuple(machine.findings))

    def stream(self) -> StreamScrubber:
        """Open a scrubber for one text that arrives in pieces."""
        return StreamScrubber(self)

    def machine(self) -> Machine:
        """Make a machine for one text."""
        return Machine(self._terms)


class StreamScrubber:
    """One text that arrives in pieces. However it is cut, the joined output equals `scrub` of the whole.

    What comes out of `feed` is final; what could still turn out to be part of a secret waits for more. The
    time budget is that of one piece, and memory does not grow with the text."""

    def __init__(self, scrubber: Scrubber | None = None) -> None:
        self.removed: Counter[str] = Counter()  # how many secrets of each kind were removed since the stream was made
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
            if self._machine.findings:  # of a text without end they would have none
                self.removed.update(kind_of(finding.rule) for finding in self._machine.findings)
                self._machine.findings.clear()
            return CleanText(clean)
        except Exception:  # noqa: BLE001 - whatever went wrong, the raw text must not come out
            self.has_failed = True
            self.removed["text"] += 1
            return CleanText(WHOLE_TEXT)


def scrub(text: str) -> CleanText:
    """Scrub with the default rules and no known values; see `Scrubber.scrub`."""
    return _default().scrub(text)


def findings(text: str) -> Sequence[Finding]:
    """Find with the default rules and no known values; see `Scrubber.findings`."""
    return _default().findings(text)


def removed_secrets(found: Iterable[Finding]) -> tuple[RemovedSecrets, ...]:
    """Count what the user is told: how many of each kind, most frequent first. No lengths, no positions."""
    counts = Counter(kind_of(finding.rule) for finding in found)
    return tuple(RemovedSecrets(kind, count) for kind, count in counts.most_common())


@cache
def _default() -> Scrubber:
    return Scrubber()


# Carry an announcement over to its author's next message: "my password is" in one, the password in the next.
#
# The value alone has no looks to be told by. So the end that a message leaves open is kept for a moment by whoever
# receives messages, and the next message is read after it.

ENDING_CHARS_MAX: Final = 120  # how much of a message's end is kept: as far as an announcing word reaches
_CARRIED_WORDS_MAX: Final = 4  # words after an announcing one that say what the value is for
_SIGN: Final = re.compile(r"[:=：＝→][\s\"'`“«(]*\Z|[-–—]\Z")
_WORD: Final = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")


def open_ending(text: str) -> str:
    """Return the end of `text` if it announces a value and does not say it, else nothing."""
    end = text.strip()[-ENDING_CHARS_MAX:]
    return end if end and announces(end) else ""


def scrub_after(scrubber: Scrubber, ending: str, text: str) -> Scrubbed:
    """Scrub `text` as its author said it after `ending`; the findings are those in it, not their positions.

    A value counts as announced only where the message begins with it. Otherwise this is `scrubber.examine(text)`."""
    alone = scrubber.examine(text)
    message = text.lstrip()
    if not ending or not message:
        return alone
    border = len(ending) + 1
    raw = f"{ending} {message}"
    clean, found = scrubber.examine(raw)
    in_message = tuple(each for each in found if each.end > border)
    begins_at = len(text) - len(message)
    if not in_message or in_message[0].start != border or any(each.start == begins_at for each in alone.findings):
        return alone
    before = found[: -len(in_message)]
    stand_ins = (scrubber._terms.placeholders.stand_in(each.rule, "") for each in before)  # as long as any of the kind
    begins = border + sum(map(len, stand_ins)) - sum(each.end - each.start for each in before)
    if PLACEHOLDER.match(clean, begins) is None:  # nothing says where the message begins
        return Scrubbed(scrubber.scrub(WHOLE_TEXT), in_message)
    # Read alone it may show what the announcement has hidden.
    again = scrubber.examine(portion(clean, begins, len(clean)))
    return Scrubbed(again.text, (*in_message, *again.findings))


def announces(text: str) -> bool:
    """Tell whether the end of `text` announces a value ("my password is"), and no more ("the password is wrong")."""
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
    is_carried = carries.issuperset(rest) or (rest[0] in carries and len(rest) <= _CARRIED_WORDS_MAX)
    return is_carried or rest[-1] in says


# Text files without their secrets, a piece at a time, so that nobody else has to wait.

_PIECE_CHARS: Final = 65_536  # scrubbed at a time: some ten milliseconds, then others have their turn


async def without_secrets(content: bytes, scrubber: Scrubber) -> bytes | None:
    """Return a text (`raw_text.is_text`) with a placeholder for each secret, in its own encoding; None if it could
    not be looked through in time. Of at most SCRUBBED_FILE_BYTES_MAX, which callers see to."""
    text, encoding = decoded(content)
    stream = scrubber.stream()
    clean = []
    for at in range(0, len(text), _PIECE_CHARS):
        clean.append(stream.feed(text[at : at + _PIECE_CHARS]))
        await asyncio.sleep(0)
    clean.append(stream.flush())
    whole = "".join(clean)
    return None if WHOLE_TEXT in whole and WHOLE_TEXT not in text else whole.encode(encoding)
