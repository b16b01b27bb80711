"""States of the machine: key blocks, cookies, values before their keyword or near a vendor's name."""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import Final, NamedTuple

from gateway.scrub.judge import Bond, is_secret
from gateway.scrub.known import PLACEHOLDER, placeholder_in
from gateway.scrub.rules import PRINTABLE, Movable, SecretSpan, is_placeholder, made
from gateway.scrub.view import is_cjk, unit_end
from gateway.scrub.words import KeywordFamily, announces_more, family_at_end, family_of, holds_announcing, vocabulary


class StepResult(NamedTuple):
    """How far a state came in the closed text.

    `at` is the new position; `cut` a secret that ends at or before it. `waits` means: no verdict without
    more text, and nothing from `at` on may leave. `is_over` gives the text from `at` on back to the machine;
    `becomes` is the state that reads on in place of this one. `found` are secrets behind `at`: what stands before them
    is read as well, since a second scrub, which finds their placeholders, would read it."""

    at: int
    is_over: bool = False
    waits: bool = False
    cut: SecretSpan | None = None
    becomes: State | None = None
    found: Sequence[SecretSpan] = ()


class State(Movable):
    """Something open that spans several units: an announced value, a key block, a list of cookies."""

    __slots__ = ()

    def step(self, text: str, at: int, end: int, *, is_last: bool) -> StepResult:
        """Read on in `text[at:end]`, which consists of closed units; `is_last` says that nothing follows.

        The outcome may depend on the text alone, never on where `end` happens to be."""
        raise NotImplementedError


# Private keys in armour: `-----BEGIN … PRIVATE KEY-----`, swallowed to their END.
#
# Public keys and certificates are left alone, and so is talk about the armour: a block counts as a key only if
# something like key material follows its first line.

BEGIN: Final = "-----BEGIN"
BLOCK_CHARS_MAX: Final = 20_000  # the largest block: a 16,384 bit RSA key with its headers takes 13 kB
_HEADER_CHARS_MAX: Final = 64
_GAP_CHARS_MAX: Final = 48
_MARK_CHARS_MAX: Final = 80  # no end mark is longer; a stream decides on one only when this much text is there
_HEADER: Final = re.compile(r"-----BEGIN(?: [A-Z0-9]{1,12}){0,3} PRIVATE KEY(?: BLOCK)?-----", re.ASCII)
_GAP: Final = re.compile(r"(?:\\{1,2}[nr]|%5[Cc][nr]|<br ?/?>|vb[A-Z][A-Za-z]{1,8}|[\s>|\"'+*`,\\&._()-]){0,48}")
_ARMOUR_FIELD: Final = r"(?:Proc-Type|DEK-Info|Version|Comment|Hash|Charset|MessageID):"
_LINE_MARK: Final = re.compile(
    r"(?:(?:\\{1,2}[nr]|\r?\n)(?:(?!\[redacted:)(?:[^\n\\]|\\{1,4}t)){0,72}?){1,2}"
    rf"(?<![A-Za-z0-9+/=])(?=[A-Za-z0-9+/]{{40,120}}={{0,2}}(?:[\s\\]|\Z)|{_ARMOUR_FIELD})",
    re.ASCII,
)
"""Line numbers, comment signs, names of containers, times: what tools put in front of each line. A placeholder is none:
the token that it stands for was too long for one, or had been taken with the whole key."""

_MARKED_CHARS_MAX: Final = 192  # so much text behind a header shows whether its lines are marked
_MATERIAL: Final = re.compile(rf"[A-Za-z0-9+/=]{{16}}|{_ARMOUR_FIELD}", re.ASCII)
_ENDS: Final = re.compile(
    r"(?P<mark>-----END [A-Z0-9 ]{1,40}-----)"
    r"|[\"'](?!(?:[\s\"',+.&\\nr_()*#>|-]|vb[A-Z]\w{1,8}|\n[\dT:.Z+-]{15,36}(?= )){0,24}(?:[\w+/=]{16}|-----END))"
    r"|(?<=\s)(?:[A-Za-z']{1,12}[ ,.]{1,2}){4}"
    r"|[\u0400-\u04ff\u3040-\u9fff\uac00-\ud7a3]"
)


class KeyBlock(State):
    """State: a line that begins a block was seen. Nothing of it leaves until it is known what it is."""

    __slots__ = POSITIONS = ("_begin", "_read_until")

    RULE: Final = "pem"

    def __init__(self, begin: int) -> None:
        self._begin = begin
        self._read_until: int | None = None

    def step(self, text: str, at: int, end: int, *, is_last: bool) -> StepResult:
        """See `State.step`. `at` stays at the beginning of the block until there is a verdict."""
        if self._read_until is None:
            if (body := self._body_from(text, at, end, is_last=is_last)) is None:
                return StepResult(at, waits=True)
            if body < 0:
                return StepResult(at + len(BEGIN), is_over=True)
            self._read_until = body
        return self._swallow(text, at, end, self._read_until, is_last=is_last)

    def _body_from(self, text: str, at: int, end: int, *, is_last: bool) -> int | None:
        """Return where the key material begins; negative if this is no key; None if that cannot be told yet."""
        if (header := _HEADER.match(text, at, end)) is None:
            is_decided = is_last or end - at >= _HEADER_CHARS_MAX + 16 or "\n" in text[at:end]
            return -1 if is_decided else None
        gap = _GAP.match(text, header.end(), end)
        body = gap.end() if gap else header.end()
        if _MATERIAL.match(text, body, end):
            return body
        if not (is_last or body < end or body - header.end() >= _GAP_CHARS_MAX):
            return None
        window = header.end() + _MARKED_CHARS_MAX
        if end < window and not is_last:
            return None
        marked = _LINE_MARK.match(text, header.end(), min(end, window))
        return marked.end() if marked else -1

    def _swallow(self, text: str, at: int, end: int, read_until: int, *, is_last: bool) -> StepResult:
        limit = self._begin + BLOCK_CHARS_MAX
        ending = _ENDS.search(text, read_until, min(end, limit + _MARK_CHARS_MAX))
        if ending is not None and (is_last or ending.start() + _MARK_CHARS_MAX <= end) and ending.start() < limit:
            whole = text[self._begin : ending.end() if ending["mark"] else ending.start()]
            stop = self._begin + len(whole.rstrip())
        elif is_last or end >= limit + _MARK_CHARS_MAX:
            stop = min(end, limit)
        else:
            self._read_until = max(read_until, (ending.start() if ending else end) - _MARK_CHARS_MAX)
            return StepResult(at, waits=True)
        return StepResult(stop, is_over=True, cut=SecretSpan(self._begin, stop, self.RULE))


# A value that stands before its announcing word: `… is my password`, `… — это пароль`, `用…作为密码`.
#
# What was given away cannot be taken back, so a value that looks made waits here for the few words that decide.
# Nearly always the very next word does.

_REACH_CHARS: Final = 40  # how far behind the value its announcing word may begin
_CODE_REACH_CHARS: Final = 24  # what a code is for is said so near behind it (`is the code for the door`)
_RUN_CHARS_MAX: Final = 72
_LINKS_KEPT: Final = 4096
_OF_NUMBERS: Final = (KeywordFamily.PERSONAL, KeywordFamily.CODE)
_VALUE_CHARS_MIN: Final = 4
_MADE: Final = re.compile(r"[-0-9@#$%^&*](?:(?<=[0-9])|(?<!-)(?=[A-Za-z])|[a-z]{3,12}-[a-z]{3,12}-)")
_MADE_CHARS_MAX: Final = 28
_CANDIDATE: Final = re.compile(
    r"(?<![\]\\\w!@#$%^&*+/=~?.-])(?<!\[redacted:)(?<![0-9]:)[\"'`(\[*|<]{0,3}(?=[!-~]{0,63}[0-9]|(?:[a-z]{3,12}-){3}|[!-~]{0,63}[A-Za-z][@#$%^&*][A-Za-z])"
    r"(?P<value>(?!(?:19|20)[0-9]{2}(?![0-9]))[0-9]{4,8}|[\w!@#$%^&*+/=~?.-]{6,64}?)[\"'`)\]*|>,.;:]{0,3}(?![!-~])",
    re.ASCII,
)
_FOLLOWS: Final = re.compile(
    r"[ \"'`*|,:)]*+(?:(?P<word>[a-zß-ɏͰ-ӿ]+)(?=[ ,.;:!?\n])|(?P<clause>[\u3040-\ud7ff]+)"
    r"(?=[^\u3040-\ud7ff])|[\n0-9])"
)
_LAST_WORD: Final = re.compile(r"(?s:.*)\s(?P<word>[a-zß-ɏͰ-ӿ]{2,24})(?=[ ,])")
_SIGNS: Final = re.compile(r"[\w!@#$%^&*+/=~?.-]+", re.ASCII)
_VALUE_SIGNS: Final = string.ascii_letters + string.digits + "_!@#$%^&*+/=~?.-"
_LINKS: Final = re.compile(r"[—–=←⇐⬅👈-]|<-{1,2}|->|[(（]")
_SAYING_LINKS: Final = "<(（—–←⇐⬅👈"
_CLOSES_ASIDE: Final = re.compile(r"[)）]| (?:for|of|to|für|vom|de|pour|del|для|от|к|на)\b")
_BESIDE: Final = "\"'`*|,)»”」』，"
_WORD: Final = re.compile(r"[^\W\d_](?:[^\W\d_]|['-](?=[^\W\d_]))*")
_NEXT_WORD: Final = re.compile(r"[a-z]{1,32}(?=[ \n])")  # nearly all words are like this


class Candidate(NamedTuple):
    """A value that looks made, and where what follows it begins."""

    start: int
    end: int
    after: int


def candidates(
    text: str, lowered: str, start: int, end: int, places: Iterable[tuple[int, int]], *, is_last: bool
) -> Iterator[Candidate]:
    """Yield values in `text[start:end]` behind which an announcing word may stand, at one of the `places`, or may
    still come; `lowered` is the text in lower case, as long as the text."""
    done, made_at = start, -1
    speaking = (at for at, stop in places if not _is_silent(lowered[at:stop], "a" <= lowered[stop : stop + 1] <= "z"))
    for place in (*speaking, *(() if is_last else (end,))):
        zone = max(done, place - _REACH_CHARS - _RUN_CHARS_MAX)
        if made_at < place:
            following = _MADE.search(text, max(zone, made_at), min(end, place + _MADE_CHARS_MAX))
            made_at = following.start() if following else place
        if made_at >= place:
            continue
        zone = max(zone, text.rfind("\n", zone, place) + 1, text.rfind("。", zone, place) + 1)
        read_from = place
        while word := _LAST_WORD.match(text, max(0, zone - 1), read_from):
            read_from, zone = word.start("word"), zone if _may_link(word["word"]) else word.end()
        if _MADE.search(text, zone, place) is None:
            continue
        zone_end = _run_start(text, place) if place < end and not is_cjk(text[place]) else place
        done = max(done, zone_end)
        while made := _MADE.search(text, zone, zone_end):
            begin, over = _run_start(text, made.start(), _VALUE_SIGNS), _SIGNS.match(text, made.start(), zone_end)
            assert over is not None, "what was found is a part of it"
            if begin >= zone and over.end() - begin >= _VALUE_CHARS_MIN:
                found = _CANDIDATE.match(text, begin, end)
                if found and _may_lead(text, found, end):
                    yield Candidate(found.start("value"), found.end("value"), found.end())
            zone = over.end()


def _may_lead(text: str, found: re.Match[str], end: int) -> bool:
    """Tell whether what stands behind a value may lead to an announcing word; most of what has a digit is over here."""
    value = found["value"]
    if text.startswith(":", found.end("value")) or "//" in value:
        return False
    if not (value.isdigit() or any(map(str.isalpha, value))):
        return False
    follows, words = _FOLLOWS.match(text, found.end(), end), vocabulary()
    if follows is None:
        return True
    if (clause := follows["clause"]) is not None:
        return words.links_cjk.match(clause) is not None or words.announcing_cjk.search(clause) is not None
    if follows["word"] is None:
        return False
    family = family_at_end(word := follows["word"].lower())
    return _may_link(word) and (family is None or family in _OF_NUMBERS or not value.isdigit())


@cache
def _is_silent(word: str, goes_on: bool) -> bool:
    """Tell whether a word announces nothing that stands before it, and holds no other that does; it may be a part of
    another that `goes_on` (`sign` in `signed`)."""
    if goes_on or not word.isascii():
        return word.isascii()
    return all(part not in vocabulary().locked and family_at_end(part) is None for part in re.findall("[a-z'-]+", word))


@lru_cache(_LINKS_KEPT)
def _may_link(word: str) -> bool:
    """Tell whether a plain word may stand between a value and the word that announces it: few may."""
    words = vocabulary()
    return word in words.leading or words.of_codes.match(word) is not None or family_at_end(word) is not None


def _run_start(text: str, place: int, signs: str = PRINTABLE) -> int:
    """Return where the run of such signs begins that `place` is in: a value may hold a word by chance (`monkey`)."""
    before = text[max(0, place - _RUN_CHARS_MAX) : place]
    return place - len(before) + len(before.rstrip(signs))


class ValueBeforeKeyword(State):
    """State: a value that looks made was read; is it announced behind? One that is handed over (`use … for`, `…, that's
    the`) may go to a thing that it opens, too."""

    __slots__ = ("_after", "_end", "_is_handed", "_start")
    POSITIONS = ("_after", "_end", "_start")

    def __init__(self, candidate: Candidate, before: str) -> None:
        self._start, self._end, self._after = candidate
        self._is_handed = vocabulary().hands.match(before.lower()[::-1]) is not None

    def step(self, text: str, at: int, end: int, *, is_last: bool) -> StepResult:
        """See `State.step`."""
        words, is_handed = vocabulary(), self._is_handed
        bond: Bond | None = Bond.LOOSE if is_handed else None
        is_certain = is_aside = is_of_thing = False
        phrase: Mapping[str, KeywordFamily] = {}
        pos = self._after
        while pos <= self._end + _REACH_CHARS:
            if pos >= end and not is_last:
                return StepResult(at, waits=True)
            if pos >= end or text[pos] == "\n":
                break
            if text[pos].isspace() or text[pos] in _BESIDE:
                pos += 1
                continue
            if (word := _NEXT_WORD.match(text, pos, end)) is None:
                unit = unit_end(text, pos, min(end, pos + _RUN_CHARS_MAX))
                if is_cjk(text[pos]):
                    said = words.announcing_cjk.search(text, pos, unit)
                    link = words.links_cjk.match(text, pos, unit)
                    bond = Bond.SAID if link else bond
                    if said is None and link is not None and link.end() == unit:
                        pos = unit
                        continue
                    family = None
                    if said and said.group() not in words.codes:
                        is_over = words.denies_after_cjk.match(text, said.end(), unit)
                        family = None if is_over else family_of(said.group()) or KeywordFamily.PERSONAL
                    return self._verdict(text, at, family, bond)
                if link := _LINKS.match(text, pos, unit):
                    bond = Bond.SAID if link.group()[0] in _SAYING_LINKS else bond or Bond.LOOSE
                    is_aside = link.group() in "(（"
                    pos = link.end()
                    continue
                if (word := _WORD.match(text, pos, unit)) is None:
                    is_of_thing = is_of_thing and PLACEHOLDER.match(text, pos) is None
                    break
            lowered = word.group().lower()
            family = phrase.get(lowered) or family_at_end(lowered)
            if family is KeywordFamily.LOGIN or lowered.removesuffix("'s") in words.locked:
                is_of_thing = True
            elif family is not None:
                bond = Bond.SAID if is_handed and lowered in words.numbers else bond
                bond = None if is_aside and not _CLOSES_ASIDE.match(text, word.end(), end) else bond
                family = KeywordFamily.KEY if is_certain and family is KeywordFamily.VAGUE else family
                return self._announced(text, at, word.end(), end, family, bond, is_last=is_last)
            elif lowered in words.handed and not is_of_thing:
                is_handed, bond = True, Bond.SAID if lowered in words.copulas else bond or Bond.LOOSE
            elif lowered in words.copulas:
                bond = Bond.SAID
            elif words.certain_before.fullmatch(lowered[::-1]):
                is_certain = True
            elif lowered in words.possessives:
                bond = bond or Bond.LOOSE
            elif not (lowered in words.leading or words.of_codes.match(lowered)) and (
                bond is None or is_of_thing or word.group().islower()
            ):
                is_of_thing = is_of_thing and (lowered in words.complements or lowered in words.again)
                break
            is_certain |= lowered in words.vendors
            phrase = words.together.get(lowered, {})
            pos = word.end()
        if (
            not is_of_thing
            or not (is_handed or bond is Bond.SAID)
            or text[self._start : self._end].lower().startswith(words.things)
        ):
            return StepResult(at, is_over=True)
        bond = Bond.ADJACENT if is_handed else Bond.LOOSE
        if is_handed and words.of_codes.search(f"{text[self._end : pos].lower()} ".replace(",", " ")):
            bond = Bond.SAID  # a number is a secret only where there is a lock
        return self._verdict(text, at, KeywordFamily.PERSONAL, bond)

    def _announced(
        self, text: str, at: int, stop: int, end: int, family: KeywordFamily, bond: Bond | None, *, is_last: bool
    ) -> StepResult:
        """Judge the value before an announcing word that ends at `stop`. What follows it may still make it another
        one (`password manager`), or say what a code is for."""
        words = vocabulary()
        limit = stop + (_CODE_REACH_CHARS if family is KeywordFamily.CODE else 1)
        if (line_end := text.find("\n", stop, min(limit, end))) < 0 and limit >= end and not is_last:
            return StepResult(at, waits=True)
        after = _WORD.match(text, stop + 1, end) if text[stop : stop + 1] in (" ", "-", "_") else None
        following = after.group().lower() if after else ""
        if words.denies_after.match(following) or placeholder_in(text, stop, stop + 2):
            return StepResult(at, is_over=True)
        if family is KeywordFamily.CODE and bond is not None:
            said = text[self._end : line_end if line_end >= 0 else min(limit, end)].lower()
            is_known = words.of_codes.search(said) or not words.possessives.isdisjoint(said.split())
            family, bond = KeywordFamily.PERSONAL, None if words.no_codes.search(said) or not is_known else Bond.SAID
        elif following in words.complements and bond is Bond.LOOSE:
            bond = Bond.ADJACENT
        if family is KeywordFamily.VAGUE and following in words.certain_after:
            family = KeywordFamily.KEY
        return self._verdict(text, at, family, bond)

    def _verdict(self, text: str, at: int, family: KeywordFamily | None, bond: Bond | None) -> StepResult:
        value = text[self._start : self._end]
        if family is None or bond is None or family is KeywordFamily.COOKIE:  # that announces what follows it
            return StepResult(at, is_over=True)
        if family is not KeywordFamily.PERSONAL:
            bond = Bond.ADJACENT
        elif "/" in value:
            return StepResult(at, is_over=True)
        if not is_secret(value, family, bond, is_quoted=False):
            return StepResult(at, is_over=True)
        return StepResult(self._end, is_over=True, cut=SecretSpan(self._start, self._end, family.rule))


# `Cookie: a=…; b=…`: every value up to the end of the line, the attributes excepted.

_PAIR: Final = re.compile(r"(?P<name>[A-Za-z0-9_.$-]{1,64})=(?P<value>[!#-&(-:<-\[\]-~]{1,4096})", re.ASCII)
_BETWEEN: Final = re.compile(r"[ \t;:\"'=]+|(?:HttpOnly|Secure|Partitioned)(?=;|\Z)", re.IGNORECASE)
_ATTRIBUTES: Final = frozenset(["path", "domain", "expires", "max-age", "samesite", "priority", "version"])
_PREFERENCES: Final = frozenset(["lang", "locale", "theme", "tz", "timezone", "currency"])
_ASSIGNS_INSIDE: Final = frozenset("=:")  # no value that stays holds them: something is glued (`lang=enX-Api-Key: …`)
_BEHIND_PAIR: Final = ("", ";", "\n", "\r", "\\", '"', "'", "`")
_COOKIE_CHARS_MIN: Final = 8
_BETWEEN_CHARS_MAX: Final = 32


class CookieLine(State):
    """State: the name of a cookie header was read."""

    __slots__ = POSITIONS = ("_value_at", "_value_end")

    RULE: Final = "named/session"

    def __init__(self) -> None:
        self._value_at = self._value_end = 0

    def step(self, text: str, at: int, end: int, *, is_last: bool) -> StepResult:
        """See `State.step`. Of a value that begins with a token that goes first, and then the rest."""
        if self._value_at < at < self._value_end:
            return StepResult(self._value_end, cut=SecretSpan(at, self._value_end, self.RULE))
        while at < end:
            if between := _BETWEEN.match(text, at, unit_end(text, at, min(end, at + _BETWEEN_CHARS_MAX))):
                at = between.end()
                continue
            if (pair := _PAIR.match(text, at, end)) is None:
                return StepResult(at, is_over=True)
            at, value = pair.end(), pair["value"]
            is_attribute = pair["name"].lower() in _ATTRIBUTES | _PREFERENCES
            if not is_attribute and len(value) >= _COOKIE_CHARS_MIN and not is_placeholder(value):
                self._value_at, self._value_end = pair.span("value")
                return StepResult(at, cut=SecretSpan(self._value_at, self._value_end, self.RULE))
            value = PLACEHOLDER.sub("", value.lower())
            is_glued = text[at : at + 1] not in _BEHIND_PAIR or not _ASSIGNS_INSIDE.isdisjoint(value)
            if is_glued and holds_announcing(value):
                return StepResult(pair.start("value"), is_over=True)
        return StepResult(at)


# Behind a vendor's name: a value that only its neighbour gives away.
#
#     assemblyai = fa0e…      CLARIFAI_PAT: "…"      new Client("deepgram", "…")
#
# Many vendors hand out plain random letters and digits. Near their name, behind a sign, on the same line, such a
# value is a secret unless the line speaks of an id, a hash or a version.

_VENDOR_REACH_CHARS: Final = 48  # how far behind the name a value may begin
_UNIT_CHARS_MAX: Final = 512
_VENDOR_VALUE_CHARS_MIN: Final = 20
_UNMISTAKABLE_CHARS: Final = 32  # so many random characters need no sign before them
_DIGITS_MIN: Final = 3
_HOST: Final = re.compile(r"[\w-]{0,20}\.(?:com|io|net|org|dev|ai|app|cloud|co|ru|cn|me|eu|us)\b|[\w./-]{0,40}@")
_FIELD: Final = re.compile(r"[^\s=:\"'`(){}\[\],;<>|]+")
_VALUE: Final = re.compile(r"(?!v\d+\.\d|pk\.eyJ)[A-Za-z0-9][A-Za-z0-9_+/.~:-]*={0,2}", re.ASCII)
_ASSIGNS: Final = re.compile(r"[=:\"'`(,>]")
_VENDOR_WORD: Final = re.compile(r"[A-Z]?[a-z]+\d*|[A-Z]+\d*", re.ASCII)


class NearVendor(State):
    """State: the name of a vendor was read; its secret may follow on this line."""

    POSITIONS = ("_begun_at",)

    _is_assigned = False
    _is_fresh = True

    def __init__(self, begun_at: int) -> None:
        self._begun_at = begun_at

    def step(self, text: str, at: int, end: int, *, is_last: bool) -> StepResult:
        """See `State.step`."""
        while at < end:
            if text[at] == "\n" or at - self._begun_at > _VENDOR_REACH_CHARS:
                return StepResult(at, is_over=True)
            if text[at].isspace():
                at += 1
                continue
            unit = unit_end(text, at, min(end, at + _UNIT_CHARS_MAX))
            if self._is_fresh and _HOST.match(text, at, unit):
                return StepResult(at, is_over=True)
            self._is_fresh = False
            if (step := self._read(text, at, unit)) is not None:
                return step
            at = unit
        return StepResult(at)

    def _read(self, text: str, at: int, unit: int) -> StepResult | None:
        """Look for the value in one unit. None: it goes on behind it."""
        begun = at
        for field in _FIELD.finditer(text, at, unit):
            self._is_assigned = self._is_assigned or _ASSIGNS.search(text, begun, field.start()) is not None
            begun = field.end()
            if field.start() - self._begun_at > _VENDOR_REACH_CHARS or PLACEHOLDER.match(text, field.start() - 1):
                return StepResult(field.start(), is_over=True)
            value = _VALUE.match(text, field.start(), unit)
            if value and field.group() not in vocabulary().facts and self._is_random(value.group()):
                return StepResult(value.end(), is_over=True, cut=SecretSpan(*value.span(), KeywordFamily.KEY.rule))
            words = (word.group().lower() for word in _VENDOR_WORD.finditer(field.group()))
            if announces_more(field.group()) or not vocabulary().facts.isdisjoint(words):
                return StepResult(field.start(), is_over=True)
        self._is_assigned = self._is_assigned or _ASSIGNS.search(text, begun, unit) is not None
        return None

    def _is_random(self, value: str) -> bool:
        """Tell whether letters and digits go through each other, and nothing reads as words."""
        least = _VENDOR_VALUE_CHARS_MIN if self._is_assigned else _UNMISTAKABLE_CHARS
        is_filled = len(value) >= least and sum(map(str.isdigit, value)) >= _DIGITS_MIN
        return is_filled and made(value) and "//" not in value and not vocabulary().no_secret.match(value)
