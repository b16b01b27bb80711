"""Scan closed text ahead of the machine for everything that a secret may begin with or be announced by.

The anchors of the rules, the announcing words and the line that begins a key block are all literals, so one search
for the lower-case forms of all of them finds every place that may matter; only around those is looked at more closely.
In nearly all texts of nearly all people it finds nothing, and then there is nothing more to do."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from operator import itemgetter
from typing import Final, NamedTuple

from gateway.scrub.announced import REACH_CHARS
from gateway.scrub.known import PLACEHOLDER, KnownValues, united
from gateway.scrub.lines import LineRule, follows_cell, line_rules, may_open, seed_phrases
from gateway.scrub.openings import SECOND_WORD
from gateway.scrub.rules import UNSPOKEN, SecretRule, SecretSpan, Site, finder, rule_book
from gateway.scrub.states import BEGIN, Candidate, candidates
from gateway.scrub.view import CONTEXT_CHARS, ENCODED, ENCODED_CHARS_MIN, encoded_texts, stretches
from gateway.scrub.words import ENDING_CHARS_MAX, KeywordFamily, KeywordForm, vocabulary

Place = tuple[int, int]  # where something begins and ends

Anchors = tuple[list[Site], list[Place], list[int], list[Place]]
"""Positions in one stretch of text, each list from left to right: of anchors of rules; where announcing words may stand
(of those that begin together the longest, and none inside another); where a key block may begin; of anchors of line
rules."""


class AnchorFinder:
    """Finds all of these in one search."""

    __slots__ = ("_finder", "_meanings")

    def __init__(self) -> None:
        words, begin, lines = vocabulary().announcing, BEGIN.lower(), line_rules()
        spelled, loose = rule_book().spellings, rule_book().in_any_case
        self._finder = finder({*spelled, *words, *lines, begin})
        tails = {word for word, (_, form) in words.items() if form is KeywordForm.TAIL}
        # the anchors that look like it in lower case; is it one in any case, does it begin a block, is it a word, is it
        # one only behind an underscore, is it an anchor of lines
        self._meanings = [
            (spelled.get(each, ()), each in loose, each == begin, each in words, each in tails, each in lines)
            for each in self._finder.literals
        ]

    def anchors_in(self, text: str, lowered: str, start: int, end: int) -> Anchors:
        """Find the anchors of `text[start:end]`; `lowered` is the text in lower case, as long as the text."""
        found: Anchors = [], [], [], []
        anchors, words, blocks, lines = found
        meanings = self._meanings
        for which, at, stop in self._finder.find(lowered, start, end):
            spellings, is_loose, is_begin, is_word, is_tail, is_line = meanings[which]
            if is_begin and text.startswith(BEGIN, at):
                blocks.append(at)
            if is_line:
                lines.append((at, stop))
            if is_loose or (spellings and text[at:stop] in spellings):
                if anchors and anchors[-1][0] == at:
                    anchors.pop()
                anchors.append((at, text[at:stop]))
            if is_word and not (is_tail and text[at - 1 : at] != "_"):
                if words and words[-1][0] == at:
                    words[-1] = (at, stop)
                elif not words or words[-1][1] < stop:  # `sshPassword` is no `sshpass`, but a password
                    words.append((at, stop))
        return found


@cache
def anchor_finder() -> AnchorFinder:
    """Return the finder for the rules as shipped, on the engine that is installed."""
    return AnchorFinder()


# Most announcing words are only talked about: `the token limit is the problem.`
#
# Such a place is told by one bounded pattern, so that neither the word nor what follows it is looked at more closely.
# This decides nothing: the walk of announced.py would come to the same end, a few dozen steps later.

_MADE: Final = frozenset({KeywordFamily.KEY, KeywordFamily.VAGUE, KeywordFamily.SCHEME})
_VALUED: Final = _MADE | {KeywordFamily.PERSONAL, KeywordFamily.CODE}
"""These announce one value, by announced.py; the others open something of their own (openings.py)."""

_PLAIN: Final = r"(?:[A-ZÀ-ÞА-ЯЁ]?[a-zß-ÿа-яё]{1,12}(?:'[a-z]{1,2})?|[A-ZА-ЯЁ]{1,8})"
_PLAIN_WORD: Final = rf"{_PLAIN}(?=[,.;?!]?(?:\s|\Z))"
_ALONE: Final = re.compile(rf"{_PLAIN}(?=[:=,.;?!]?(?:\s|\Z))")
_CJK: Final = "[\u3040-\ud7ff]"


def _talk(joins: str) -> re.Pattern[str]:
    """Return words as in any sentence, in the case that sentences have: none of them is a value of any kind."""
    return re.compile(rf"(?P<ending>[a-zß-ÿа-яё]{{0,12}}+)(?:{joins}? {_PLAIN_WORD}){{0,24}}+")


def _stop(over: str) -> re.Pattern[str]:
    """Return what no value is looked for behind: what ends a sentence if `over` follows, a clause in a script without
    spaces, a long one, and a number too short for any value."""
    return re.compile(
        rf"(?:[.;!]|(?P<asks>\?))(?=(?P<line>{over}))"
        rf"|{_CJK}{{0,12}}(?:[。，；！、]|？(?![\r\n]))|(?=(?P<clause>{_CJK}{{13}}))"
        r"|,? [1-9][0-9]{1,2}(?=[,.;]?(?P<after>[ \n].{0,5}))(?! [0-9]{3}\b)"
    )


# What people chose may be told in the next sentence, or as the answer to a question; what was made, in its own only.
_TALKS: Final = {True: _talk("[,.;!?]"), False: _talk(",")}
_STOPS: Final = {
    True: _stop(r"[^\S\n]{0,3}(?(asks)\Z|(?:\n|\Z))"),
    False: _stop(r"(?(asks)(?:[^\S\r\n]|\Z)|(?:\s|\Z))"),
}

_BELOW: Final = re.compile(rf"\r?\n\s{{0,12}}(?!(?i:[a-z]*{UNSPOKEN.pattern}))(?P<word>{_PLAIN})(?=[:,.;?!]?(?:\s|\Z))")
"""The first word of the next line, which is no value either if it can be spoken."""


def without_talk(text: str, lowered: str, places: list[Place], end: int, *, is_last: bool) -> list[Place]:
    """Return those places of announcing words in `text[:end]` whose word may be followed by a value.

    A word that is only talked about is dropped if no word that stays begins within its talk: the walk from the first
    would have passed over that one."""
    valued, together, codes, announcing = _valued(), vocabulary().together, vocabulary().codes, vocabulary().announcing
    decided = end if is_last else end - 1
    limit = decided
    halt = end
    kept: list[Place] = []
    for at, stop in reversed(places):
        word = lowered[at:stop]
        is_valued = word in valued
        is_talk, begins = False, stop if is_valued else None
        if word in together:
            family, behind, read = _phrase(text, stop, word)
            is_talk = family is KeywordFamily.PHRASE and read <= decided
            begins = behind if family in _VALUED and read <= min(decided, halt) else None
        if begins is not None:
            is_said = word in together or announcing[word][0] not in _MADE
            is_assigned = begins <= halt and text.startswith(("=", ":"), begins)
            ended = None if is_assigned else _end_of_talk(text, begins, end, halt, is_said=is_said)
            over, read = ended or (limit + 1, 0)
            is_talk = over <= limit and read <= decided
        if not is_talk:
            kept.append((at, stop))
            limit = min(limit, at)
        if is_valued and word not in codes and _stands_alone(text, at, stop, end):
            halt = at
    kept.reverse()
    return kept


def _stands_alone(text: str, at: int, stop: int, end: int) -> bool:
    """Tell whether this is a whole word, at which every walk ends."""
    if text[at - 1 : at] != " " or (word := _ALONE.match(text, at, end)) is None:
        return False
    return 0 <= word.end() - stop <= (0 if text[at].isascii() else ENDING_CHARS_MAX)


def _phrase(text: str, at: int, first: str) -> tuple[KeywordFamily, int, int]:
    """Return what the first word of a phrase announces with the word behind it, or without; where what follows begins,
    and how much was read."""
    words, second = vocabulary(), SECOND_WORD.match(text, at)
    assert second is not None, "it may be empty"
    family = words.together[first].get(second["word"].lower(), words.announcing[first][0])
    return family, second.end() if second["word"] else at, second.end()


def _end_of_talk(text: str, at: int, end: int, halt: int, *, is_said: bool) -> tuple[int, int] | None:
    """Return up to where the sentence goes on as sentences do, and how much of the text says so: until it is over, no
    value is in reach, or another announcing word begins at `halt`; None if it does not.
    What `is_said` may stand below behind the name of who says it."""
    talk = _TALKS[is_said].match(text, at, min(end, halt + 1))
    assert talk is not None, "it may be empty"
    over = talk.end()
    if over > halt:
        return halt, halt
    if over - talk.end("ending") > REACH_CHARS:
        return over, over
    if stop := _STOPS[is_said].match(text, over, end):
        return stop.end(), max(stop.end(), *map(stop.end, ("clause", "after", "line")))
    below = _BELOW.match(text, over + text.startswith("?", over), end)
    is_said = is_said or text[over : over + 1] == "?"
    if below is None or follows_cell(text, over) or (is_said and text.startswith(":", below.end())):
        return None
    words, word = vocabulary(), below["word"].lower()
    return None if word in words.types or words.value_name.fullmatch(word) else (over, below.end())


@cache
def _valued() -> frozenset[str]:
    """Return the announcing words from which only `announced.py` walks."""
    words = vocabulary()
    return frozenset(word for word, (family, _) in words.announcing.items() if family in _VALUED) - set(words.together)


_TOKEN_CHARS_MIN: Final = 12  # no token of any rule is shorter: shorter runs, nearly all words, are not looked at
_BEFORE_RUN: Final = re.compile(r"(?s:.*)(?<![!-~])")
_RUN: Final = re.compile(r"[!-~]+")
_ARMOUR: Final = re.compile(BEGIN)
_NEXT_CHARS_MAX: Final = 1024  # so much of a token shows that it is one
_COMMON_ANCHOR_CHARS: Final = 3  # such an anchor stands in a long token by chance
_LEFTOVERS_MAX: Final = 4  # tokens may stand wall to wall; deeper than this only somebody who builds it on purpose gets
_NEXT_TRIES_MAX: Final = 8  # an anchor that begins nothing may stand in a long token thousands of times


def _apart(known: Sequence[SecretSpan], others: Iterable[SecretSpan]) -> Iterator[SecretSpan]:
    """Yield the `others` that overlap none of the known, both in order."""
    nearest = 0
    for span in sorted(others):
        while nearest < len(known) and known[nearest].end <= span.start:
            nearest += 1
        if nearest == len(known) or known[nearest].start >= span.end:
            yield span


def _edges(runs: Iterable[Place], borders: Sequence[tuple[int, ...] | SecretSpan]) -> Iterator[list[int]]:
    """Yield for each run where it begins, where borders in it begin and end, and where the run ends; all in order."""
    nearest = 0
    for at, stop in runs:
        while nearest < len(borders) and borders[nearest][1] <= at:
            nearest += 1
        edges, place = [at], nearest
        while place < len(borders) and borders[place][0] < stop:
            edges += borders[place][0], borders[place][1]
            place += 1
        yield [*edges, max(stop, edges[-1])]


class Opening(NamedTuple):
    """Where in the text something begins that a state is to read."""

    at: int
    rank: int  # of two that begin together the lower one is read
    what: LineRule | Candidate | int | None
    """A number: where a word ends that may announce something. None: a block of lines, which may be a key.

    A word, and what a line wants to stand before it, are judged when the machine comes there: only then is it known
    which secrets stood before. So a second scrub, which finds their placeholders, comes to the same end."""


_BY_PLACE: Final = itemgetter(0, 1)
_BEFORE_SPANS: Final = 2  # openings of a lower rank come before a secret that begins where they do


class Lookahead(NamedTuple):
    """What the closed text holds from here on, the next of each last."""

    spans: list[SecretSpan]
    openings: list[Opening]
    lines: list[Opening]  # the openings that are lines of a rule: these may interrupt what is open

    def take(self) -> Opening:
        """Take the next opening."""
        if self.lines and self.lines[-1] is self.openings[-1]:
            self.lines.pop()
        return self.openings.pop()

    def next_opening(self, end: int) -> Opening | None:
        """Return the opening that comes before the next secret and before `end`."""
        opening = self.openings[-1] if self.openings else None
        span_at = self.spans[-1].start if self.spans else end
        is_first = opening is not None and (opening.at, opening.rank >= _BEFORE_SPANS) <= (span_at, False)
        return opening if is_first and opening is not None and opening.at < end else None

    def add(self, others: Sequence[SecretSpan]) -> None:
        """Put more secrets between those that are known, apart from the ones that overlap them."""
        near = self._before_end_of(others)
        self.spans.extend(sorted((*near, *_apart(near, others)), reverse=True))

    def cover(self, others: Sequence[SecretSpan]) -> None:
        """Put in more secrets; one that overlaps what is known becomes one with it."""
        self.spans.extend(reversed(united((*others, *self._before_end_of(others)))))

    def _before_end_of(self, others: Sequence[SecretSpan]) -> list[SecretSpan]:
        """Take out the secrets that begin before the last of the others ends."""
        last = max((span.end for span in others), default=0)
        near: list[SecretSpan] = []
        while self.spans and self.spans[-1].start < last:
            near.append(self.spans.pop())
        return near

    def moved(self, by: int) -> Lookahead:
        """Return the secrets ahead in a text that lost `by` characters at its front."""
        return self._replace(spans=[span.moved(by) for span in self.spans])

    def pass_by(self, at: int) -> None:
        """Drop what begins before `at`."""
        for ahead in self:
            while ahead and ahead[-1][0] < at:
                ahead.pop()


class _Run(NamedTuple):
    """Printable characters without a space, and where in them a token may begin: by place, the longest anchor."""

    start: int
    end: int
    sites: dict[int, str]


class LookaheadScanner:
    """Looks over closed text for a machine."""

    __slots__ = ("_finder", "_hides_examples", "_known", "_rules", "_secret_in")

    def __init__(
        self, known: KnownValues, secret_in: Callable[[str], str | None] | None, *, hides_examples: bool = False
    ) -> None:
        """Keep the known values; `secret_in` names the rule that finds a secret in encoded text, None leaves encodings
        alone; `hides_examples` treats the keys of documentation as any other."""
        self._hides_examples = hides_examples
        self._rules = rule_book()
        self._known = known
        self._finder = anchor_finder()
        self._secret_in = secret_in

    def over(
        self, text: str, lowered: str, zone: tuple[int, int, int], certain: Sequence[SecretSpan] = (), *, is_last: bool
    ) -> Lookahead:
        """Scan a `zone` of the text: from its first place on for openings, from its second on for secrets, to its last.
        `lowered` is the text in lower case, as long as the text. `certain` are secrets that were found already, some of
        them elsewhere; `is_last` says that no announcing word can follow."""
        start, unread, end = zone
        anchors, places, blocks, line_places = self._finder.anchors_in(text, lowered, start, end)
        unread_anchors = anchors if start == unread else [each for each in anchors if each[0] >= unread]
        spans = self._spans(text, lowered, unread, end, unread_anchors, certain)
        places = sorted((*places, *self._laid_bare(text, lowered, places, spans))) if spans and places else places
        openings = [Opening(at, 1, None) for at in blocks]
        if line_places:
            of_lines = {(at, (rule := line_rules()[lowered[at:stop]]).id): rule for at, stop in line_places}
            openings += [
                Opening(at, 0, rule)
                for (at, _), rule in of_lines.items()
                if may_open(rule, text, at, end, is_last=is_last)
            ]
        places = [
            (at, stop)  # but for the beginning of a longer word, which announces nothing (`sign` in `signed`)
            for at, stop in places
            if not (
                stop < end and "a" <= text[stop] <= "z" and lowered[at:stop].isascii() and lowered[stop - 1].isalpha()
            )
        ]
        if places or not is_last:
            values_before = candidates(text, lowered, start, end, places, is_last=is_last)
            openings += [Opening(each.start, 2, each) for each in values_before]
        announcing = vocabulary().announcing if places else {}
        if spoken := [each for each in places if announcing[lowered[slice(*each)]][0] is not KeywordFamily.LOCKED]:
            openings += [Opening(at, 3, stop) for at, stop in without_talk(text, lowered, spoken, end, is_last=is_last)]
        openings.sort(key=_BY_PLACE, reverse=True)
        spans.reverse()
        return Lookahead(spans, openings, [each for each in openings if not each.rank] if line_places else [])

    def put(self, ahead: Lookahead, values: Sequence[SecretSpan], text: str, start: int) -> None:
        """Add values to the secrets ahead, and the tokens that end where one of the values begins, because their run
        ends there. No token begins before `start`."""
        ahead.add(values)
        for value in values:
            least = max(start, value.start - _NEXT_CHARS_MAX)
            before, start = _BEFORE_RUN.match(text, least, value.start), value.end
            ahead.add(self._between(text, [before.end() if before else least, value.start], 0))

    def put_behind(self, ahead: Lookahead, text: str, at: int, end: int) -> None:
        """Add the tokens that are glued to a secret which ended at `at`, because their run begins there."""
        nearest = next((span.start for span in reversed(ahead.spans) if span.start >= at), end)
        glued = _RUN.match(text, at, min(nearest, at + CONTEXT_CHARS))
        if glued is None or glued.end() - at < _TOKEN_CHARS_MIN or not (sites := self._rules.sites(glued.group())):
            return
        run = _RUN.match(text, at, end)
        ahead.add(self._tokens(run.group() if run else "", at, sites, _LEFTOVERS_MAX))

    def first_suspect(self, text: str, lowered: str, start: int, end: int) -> int:
        """Return where in `text[start:end]` the first thing stands that a secret may begin with; else `end`."""
        anchors, places, _, lines = self._finder.anchors_in(text, lowered, start, end)
        return min((at for at, _ in (*anchors[:1], *places[:1], *lines[:1])), default=end)

    def _spans(
        self, text: str, lowered: str, start: int, end: int, anchors: Sequence[Site], certain: Sequence[SecretSpan]
    ) -> list[SecretSpan]:
        """Return the secrets of the closed text that are recognised by their form, in order, without overlaps."""
        known = self._known.spans(text, lowered, start, end)
        octets = text[start:end].encode(errors="surrogatepass") if self._secret_in is not None else b""
        phrases = seed_phrases(text, octets, start, end)
        if certain or phrases:
            inside = united(span for span in certain if start <= span.start and span.end <= end)
            known = sorted((*known, *_apart(known, [*inside, *_apart(inside, phrases)])))
        found = [*known]
        if runs := self._runs(text, start, end, anchors):
            # A placeholder parts a run as its secret did: so a second scrub finds nothing new.
            placeholders = map(re.Match.span, PLACEHOLDER.finditer(text, start, end))
            borders = sorted((*placeholders, *(span[:2] for span in known)))
            for run, edges in zip(runs, _edges((run[:2] for run in runs), borders), strict=True):
                if len(edges) == 2:
                    found += self._tokens(text[run.start : run.end], run.start, run.sites.items())
                else:
                    found += self._between(text, edges, 0)
            found.sort()
        if self._secret_in is not None and (encodable := stretches(octets, start, ENCODED, ENCODED_CHARS_MIN)):
            found = sorted((*found, *self._encoded(text, encodable, found, self._secret_in)))
        return found

    def _laid_bare(self, text: str, lowered: str, places: list[Place], spans: Sequence[SecretSpan]) -> Iterator[Place]:
        """Yield the announcing words in what a secret leaves of a longer one that begins in it."""
        for span in spans:
            longer = places[bisect_left(places, (span.end,)) - 1]
            if longer[0] < span.end < longer[1]:
                yield from self._finder.anchors_in(text, lowered, span.end, longer[1])[1]

    def _encoded(
        self, text: str, encodable: Iterable[Place], found: Sequence[SecretSpan], secret_in: Callable[[str], str | None]
    ) -> Iterator[SecretSpan]:
        """Yield the encoded texts that hold a secret, apart from what was `found`."""
        for edges in _edges(encodable, found):
            for left, right in zip(edges[::2], edges[1::2], strict=True):
                for encoded in encoded_texts(text[left:right]) if right - left >= ENCODED_CHARS_MIN else ():
                    if (rule := secret_in(encoded.text)) is not None:
                        yield SecretSpan(left + encoded.start, left + encoded.end, rule)

    def _runs(self, text: str, start: int, end: int, anchors: Sequence[Site]) -> Sequence[_Run]:
        """Yield the runs of printable characters that hold an anchor and are long enough for a token."""
        runs: list[_Run] = []
        run = _Run(start, start, {})
        for place, literal in anchors:
            if not self._rules.may_begin(text, place, literal, end):
                continue
            if place >= run.end:
                before, after = _BEFORE_RUN.match(text, start, place), _RUN.match(text, place, end)
                at, stop = before.end() if before else start, after.end() if after else place + 1
                run = _Run(at, stop, {})
                if stop - at >= _TOKEN_CHARS_MIN:
                    runs.append(run)
            run.sites[place - run.start] = literal
        return runs

    def _tokens(self, run: str, offset: int, sites: Iterable[Site], depth: int = 0) -> list[SecretSpan]:
        """Return the tokens of one run. What is left next to a token is scanned again as a run of its own, since that
        is what it will be when the token is gone: so a second scrub finds nothing new."""
        found: list[SecretSpan] = []
        at = 0
        edges = [block.start() for block in _ARMOUR.finditer(run, 1) for _ in range(2)]  # no token has a key file in it
        sites = [] if edges else list(sites)
        for place, (site, literal) in enumerate(sites):
            if site < at:
                continue
            # Right behind a token, nothing stands before: so many of them may stand wall to wall.
            behind, gone = (run[at:], at) if found and site == at else (run, 0)
            for rule in self._rules.beginning_with(behind, site - gone, literal):
                span = rule.match(behind, site - gone, at - gone, is_behind=bool(found))
                if span is None and rule.is_ended:
                    base = max(at, site - CONTEXT_CHARS)
                    span = self._cut_short(run[base : site + _NEXT_CHARS_MAX], rule, base, sites, place)
                    span = span and SecretSpan(span.start + base - gone, span.end + base - gone, span.rule)
                is_shown = span is not None or self._hides_examples
                if is_shown and (documented := self._rules.documented.match(behind, site - gone)) is not None:
                    span = SecretSpan(*documented.span(), rule.id) if self._hides_examples else None
                if span is not None:
                    whole = SecretSpan(span.start + gone, span.end + gone, span.rule)
                    at = self._next_token(run, rule, whole, sites, place + 1)
                    found.append(whole._replace(end=at))
                    break
        if not (found or edges):
            return found
        edges = [0, *edges, *(edge for span in found for edge in span[:2]), len(run)]
        beside = self._between(run, edges, depth + 1) if depth < _LEFTOVERS_MAX or not found else []
        return [SecretSpan(span.start + offset, span.end + offset, span.rule) for span in (*beside, *found)]

    def _next_token(self, run: str, rule: SecretRule, span: SecretSpan, sites: Sequence[Site], place: int) -> int:
        """Return where another token begins in what a whole one has swallowed at its end, or the end of that: of two
        that stand wall to wall, the second begins with letters that the first could go on with. Of a kind that may
        have any length, the middle looks like another by chance: but that ends where the letters go on."""
        tries = _NEXT_TRIES_MAX
        while tries and place < len(sites) and sites[place][0] < span.end:
            site, literal = sites[place]
            place += 1
            token = run[span.start : site]
            may_be_short = rule.left is None and (len(literal) > _COMMON_ANCHOR_CHARS or not rule.nominal)
            if rule.is_complete(token) or (may_be_short and rule.match(token, 0, 0) is not None):
                tries -= 1
                least = 0 if rule.nominal else min(span.end, site + _NEXT_CHARS_MAX, len(run)) - site
                if self._reach(run, site, literal) >= least:
                    return site
        return span.end

    def _cut_short(self, run: str, rule: SecretRule, base: int, sites: Sequence[Site], place: int) -> SecretSpan | None:
        """Return the token at one of the sites that only what follows it keeps from being one, if that is another
        token; `run` is what is looked at, from `base` of the whole on."""
        at = sites[place][0] - base
        is_alone = rule.left is not None and rule.left.start(run, at, 0, is_behind=False) is None
        is_begun = not is_alone and self._rules.may_begin(run, at, sites[place][1], len(run))
        for other, literal in sites[place + 1 : place + 1 + _NEXT_TRIES_MAX] if is_begun else ():
            span = rule.match(run[: other - base], at, 0)
            if span is not None and span.end == other - base and self._reach(run, span.end, literal) >= 0:
                return span
        return None

    def _reach(self, run: str, site: int, literal: str) -> int:
        """Return how many characters of the run the token has that begins at `site`; -1 if none does."""
        behind = run[site : site + _NEXT_CHARS_MAX]
        others = (other.match(behind, 0, 0) for other in self._rules.beginning_with(behind, 0, literal))
        return max((other.end for other in others if other is not None), default=-1)

    def _between(self, text: str, edges: Sequence[int], depth: int) -> list[SecretSpan]:
        """Return the tokens of the pieces of `text` between each second pair of edges, each a run of its own."""
        found: list[SecretSpan] = []
        for left, right in zip(edges[::2], edges[1::2], strict=True):
            if right - left >= _TOKEN_CHARS_MIN:
                piece = text[left:right]
                found += self._tokens(piece, left, self._rules.sites(piece), depth)
        return found
